// Questions to the kernel about its page cache.
#include <host-daemon/base/os_page_cache.hpp>
#include <host-daemon/base/overlay_file.hpp>

#include <cerrno>

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace gpufs::daemon {

namespace {

int call_cachestat(int fd, std::uint64_t offset, std::uint64_t length,
                   std::uint64_t& cached_pages) {
  constexpr long number = 451;  // on every architecture; glibc has no name for it yet
  struct {
    std::uint64_t offset, length;
  } range{offset, length};
  struct {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } pages{};
  if (::syscall(number, fd, &range, &pages, 0) != 0) return -errno;
  cached_pages = pages.cached;
  return 0;
}

}  // namespace

std::optional<cached_part> ask_cachestat(cachestat_function const& hook, int fd,
                                         std::uint64_t offset, std::uint64_t length) {
  static auto const page = std::uint64_t(::sysconf(_SC_PAGESIZE));
  std::uint64_t cached = 0;
  if ((hook ? hook(fd, offset, length, cached) : call_cachestat(fd, offset, length, cached)) != 0)
    return std::nullopt;
  if (cached == 0 && !hook && is_on_overlay(fd)) return std::nullopt;
  return cached_part{cached, (offset + length - 1) / page - offset / page + 1};
}

bool seems_cached(cachestat_function const& hook, int fd, std::uint64_t offset,
                  std::uint64_t length) {
  if (auto const found = ask_cachestat(hook, fd, offset, length))
    return found->cached == found->pages;
  constexpr std::uint64_t distance = 128 << 10;
  for (std::uint64_t at = 0; at < length; at += distance)
    if (!is_byte_cached(fd, offset + at).value_or(false)) return false;
  return is_byte_cached(fd, offset + length - 1).value_or(false);
}

std::optional<bool> is_byte_cached(int fd, std::uint64_t offset) {
  char byte = 0;
  ::iovec const to{&byte, 1};
  if (::preadv2(fd, &to, 1, off_t(offset), RWF_NOWAIT) >= 0) return true;
  if (errno == EAGAIN) return false;
  return std::nullopt;
}

}  // namespace gpufs::daemon
