// How much of a file is in the OS page cache, if the kernel tells.
#pragma once

#include <host-daemon/base/io_hooks.hpp>

#include <cstdint>
#include <optional>

namespace gpufs::daemon {

/// The pages of a range, and how many of them are cached.
struct cached_part {
  std::uint64_t cached;
  std::uint64_t pages;
};

/// Asks cachestat(2), or `hook` in its place. `length`: at least 1. Returns nothing if the kernel
/// refuses.
[[nodiscard]] std::optional<cached_part> ask_cachestat(cachestat_function const& hook, int fd,
                                                       std::uint64_t offset, std::uint64_t length);

/// Returns whether all pages of a range are cached, as it seems: by cachestat(2), or `hook`, and
/// where that is refused by a byte of every 128 KiB. `length`: at least 1.
[[nodiscard]] bool seems_cached(cachestat_function const& hook, int fd, std::uint64_t offset,
                                std::uint64_t length);

/// Returns whether a byte is cached, by preadv2(RWF_NOWAIT). If it is not, the kernel begins to
/// read its page. Returns nothing if the file system does not tell.
[[nodiscard]] std::optional<bool> is_byte_cached(int fd, std::uint64_t offset);

}  // namespace gpufs::daemon
