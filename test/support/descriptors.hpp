// How many descriptors this process has open: what suites hold against each other before and after.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string_view>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpufs::test {

/// Counts no file of /proc or /sys. The C library opens such files for a moment in any thread: the
/// first malloc of a thread reads the number of processors.
[[nodiscard]] inline std::size_t open_descriptors() {
  std::size_t n = 0;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    // The system call by itself: suites refuse the function readlink().
    std::array<char, 512> text{};
    auto const length =
        ::syscall(SYS_readlinkat, AT_FDCWD, entry.path().c_str(), text.data(), text.size());
    if (length < 0) continue;  // closed meanwhile
    std::string_view const file{text.data(), static_cast<std::size_t>(length)};
    if (!file.starts_with("/proc/") && !file.starts_with("/sys/")) ++n;
  }
  return n;
}

}  // namespace gpufs::test
