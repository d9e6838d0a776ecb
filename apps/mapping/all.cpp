#include <apps/common/program.hpp>
#include <apps/mapping/all.hpp>

#include <fmt/format.h>

namespace gpufs::apps::workloads {

std::vector<description const*> const& all_workloads() {
#define GPUFS_ADDRESS(name) &workload_##name,
  static std::vector<description const*> const all = {GPUFS_ADSM_WORKLOADS(GPUFS_ADDRESS)
                                                          GPUFS_FILE_WORKLOADS(GPUFS_ADDRESS)};
#undef GPUFS_ADDRESS
  return all;
}

description const& workload_named(std::string const& name) {
  std::string names;
  for (auto const* const d : all_workloads()) {
    if (name == d->name) return *d;
    names += fmt::format(" {}", d->name);
  }
  throw usage_error(fmt::format("{}: no such workload, must be one of{}", name, names));
}

}  // namespace gpufs::apps::workloads
