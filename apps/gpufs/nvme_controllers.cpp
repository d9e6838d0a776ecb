#include <gpufs/base/mix64.hpp>
#include <gpufs/settings.hpp>

#include <apps/common/program.hpp>
#include <apps/gpufs/nvme_controllers.hpp>

#include <fmt/format.h>
#include <nvme-controller/controller.hpp>
#include <nvme-host/software.hpp>
#include <nvme-host/vfio.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

namespace gpufs::apps {

namespace {

// To fill more would end this process, or others.
void check_memory(std::uint64_t bytes) {
  auto const pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return;
  std::uint64_t const host = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  if (bytes > host)
    throw usage_error(fmt::format("nvme:mem={}: must be at most {}, the memory of this machine",
                                  format_size(bytes), format_size(host)));
}

std::shared_ptr<nvme_controller::block_namespace> open_blocks(nvme_spec const& spec, bool filled) {
  if (spec.kind == nvme_spec::kinds::software) {
    try {
      using file = nvme_controller::file_namespace;
      return std::make_shared<file>(spec.members[0], 512, file::mode::read_only,
                                    spec.direct ? file::page_cache::past : file::page_cache::used);
    } catch (std::invalid_argument const& e) {
      throw usage_error(e.what());
    }
  }
  check_memory(spec.bytes);
  auto made = std::make_shared<nvme_controller::memory_namespace>(spec.bytes, 512);
  if (!filled) return made;
  auto const bytes = made->bytes();
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t const word = base::mix64(at);
    std::memcpy(bytes.data() + at, &word, 8);
  }
  return made;
}

}  // namespace

std::unique_ptr<nvme_host::controller_link> open_controller(nvme_spec const& spec, unsigned threads,
                                                            nvme_host::memory_source const& memory,
                                                            bool filled) {
  if (spec.members.size() > 1)
    throw usage_error(
        fmt::format("{} members: gpufs nvme drives one controller", spec.members.size()));
  if (spec.kind == nvme_spec::kinds::vfio)
    return std::make_unique<nvme_host::vfio_link>(spec.members[0]);
  return std::make_unique<nvme_host::software_link>(
      nvme_controller::controller_options{.namespaces = {open_blocks(spec, filled)},
                                          .threads = threads},
      memory);
}

std::vector<ability> look_at_nvme() {
  std::vector<ability> all{{"nvme:mem, memory as a block file", true, ""},
                           {"nvme:soft, files as a block file", true, ""}};
  std::string why;
  if (::access("/dev/vfio/vfio", F_OK) != 0) {
    why = "there is no /dev/vfio/vfio: load vfio-pci, and switch the IOMMU on";
  } else {
    std::error_code none;
    bool groups = false;
    for (auto const& entry : std::filesystem::directory_iterator("/dev/vfio", none))
      if (entry.path().filename() != "vfio" && ::access(entry.path().c_str(), R_OK | W_OK) == 0)
        groups = true;
    if (!groups) why = "no group in /dev/vfio may be opened: bind a drive to vfio-pci";
  }
  all.push_back({"nvme:vfio, nvme:relay, drives as a block file", why.empty(), why});
  return all;
}

}  // namespace gpufs::apps
