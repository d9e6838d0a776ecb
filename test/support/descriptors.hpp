// How many descriptors this process has open: what suites hold against each other before and after.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

namespace gpufs::test {

/// Counts no file of /proc or /sys. The C library opens such files for a moment in any thread: the
/// first malloc of a thread reads the number of processors.
[[nodiscard]] inline std::size_t open_descriptors() {
  std::size_t n = 0;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed_meanwhile;
    auto const file = std::filesystem::read_symlink(entry.path(), closed_meanwhile).string();
    if (closed_meanwhile || file.starts_with("/proc/") || file.starts_with("/sys/")) continue;
    ++n;
  }
  return n;
}

}  // namespace gpufs::test
