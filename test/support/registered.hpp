// Files that are registered for the device: settings, and whether the device registers any.
#pragma once

#include <gpufs/device/file_window.hpp>
#include <gpufs/gpufs.hpp>

#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::test {

/// Bytes of a file window in these settings, if a page is not longer.
inline constexpr std::uint64_t registered_window = 64 << 10;

inline config registered_config(std::uint64_t page, std::uint64_t frames) {
  auto c = small_config(page, frames);
  c.path = io_path::registered;
  c.file_window_size = std::max(page, registered_window);
  c.registered_memory = 1ull << 30;
  return c;
}

/// Whether there is anything to test. Says so if there is not.
inline bool device_registers() {
  static bool const registers = [] {
    scratch_folder folder;
    auto const path = make_file(folder, "a", registered_window);
    int const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    detail::file_window mapped;
    auto const result = detail::map_file_window(fd, 0, registered_window, mapped);
    ::close(fd);
    if (result.refused == detail::mapping_refusal::none) detail::unmap_file_window(mapped);
    return result.refused == detail::mapping_refusal::none;
  }();
  if (!registers) MESSAGE("skipped: this device registers no files");
  return registers;
}

}  // namespace gpufs::test
