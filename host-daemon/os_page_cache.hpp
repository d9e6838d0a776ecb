// What the OS page cache has of a file, as far as the kernel tells.
#pragma once

#include <host-daemon/io_hooks.hpp>

#include <cstdint>
#include <optional>

namespace gpufs::daemon {

/// Pages of a range, and how many of them are cached.
struct cached_part {
  std::uint64_t cached;
  std::uint64_t pages;
};

/// cachestat(2), or `hook` in its place. Nothing if the kernel refuses. `length`: at least 1.
[[nodiscard]] std::optional<cached_part> ask_cachestat(cachestat_function const& hook, int fd,
                                                       std::uint64_t offset, std::uint64_t length);

/// Whether a byte is cached, by preadv2(RWF_NOWAIT): if it is not, the kernel now reads its page.
/// Nothing if the file system does not tell.
[[nodiscard]] std::optional<bool> is_byte_cached(int fd, std::uint64_t offset);

}  // namespace gpufs::daemon
