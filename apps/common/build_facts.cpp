#include <gpufs/version.hpp>

#include <apps/common/build_facts.hpp>

#include <fmt/format.h>

#include <fstream>

#include <sys/utsname.h>

// Written by each build: cmake/gpufs-write-commit.cmake.
extern char const gpufs_commit[];

namespace gpufs::apps {

std::string commit() { return gpufs_commit; }

std::string version_text() {
#if defined(GPUFS_EMULATED)
  constexpr char const* device = "emulated device";
#else
  constexpr char const* device = "CUDA";
#endif
  return fmt::format("{} (commit {}, {})", GPUFS_VERSION_STRING, commit(), device);
}

std::string cpu_name() {
  std::ifstream facts("/proc/cpuinfo");
  for (std::string line; std::getline(facts, line);) {
    auto const value = line.find(": ");
    if (value != line.npos && (line.starts_with("model name") || line.starts_with("CPU part")))
      return line.substr(value + 2);
  }
  return "unknown";
}

std::string kernel_name() {
  ::utsname name{};
  return ::uname(&name) == 0 ? fmt::format("{} {}", name.sysname, name.release) : "unknown";
}

}  // namespace gpufs::apps
