// Sampling the OS page cache.
#include <host-daemon/path_choice.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace gpufs::daemon {

namespace {

int call_cachestat(int fd, std::uint64_t offset, std::uint64_t length, std::uint64_t& cached_pages) {
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

// Whether at least half of a range is not cached; nothing if the kernel does not tell.
std::optional<bool> ask_cachestat(cachestat_function const& hook, int fd, std::uint64_t offset, std::uint64_t length) {
  static auto const page = std::uint64_t(::sysconf(_SC_PAGESIZE));
  std::uint64_t cached = 0;
  if ((hook ? hook(fd, offset, length, cached) : call_cachestat(fd, offset, length, cached)) != 0) return std::nullopt;
  auto const pages = (offset + length - 1) / page - offset / page + 1;
  return 2 * cached <= pages;
}

// Whether the first or the last byte of a range is not cached; nothing if the file system does not tell.
std::optional<bool> ask_preadv2(int fd, std::uint64_t offset, std::uint64_t length) {
  for (auto const at : {offset, offset + length - 1}) {
    char byte = 0;
    ::iovec const to{&byte, 1};
    if (::preadv2(fd, &to, 1, off_t(at), RWF_NOWAIT) >= 0) continue;
    if (errno == EAGAIN) return true;
    return std::nullopt;
  }
  return false;
}

std::string name_of(int fd) {
  std::error_code error;
  auto const name = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd), error);
  return error ? "a file" : name.string();
}

}  // namespace

bool path_choice::direct(local_file& file, std::uint64_t offset, std::uint64_t length) {
  if (path_ == io_path::pull || file.guess.never_direct) return false;
  bool const cold = path_ == io_path::direct || seems_cold(file, offset, length);
  return cold && open_direct(file);
}

bool path_choice::seems_cold(local_file& file, std::uint64_t offset, std::uint64_t length) {
  auto& g = file.guess;
  if (g.unsampled > 0) {
    --g.unsampled;
    return g.cold;
  }
  std::optional<bool> cold;
  if (!g.no_cachestat) {
    cold = ask_cachestat(cachestat_, file.buffered.fd, offset, length);
    g.no_cachestat = !cold;
  }
  bool const exact = cold.has_value();
  if (!exact) cold = ask_preadv2(file.buffered.fd, offset, length);
  g.cold = cold.value_or(false);
  g.never_direct = !cold;  // a file system that does not tell keeps its files in memory, or is better left alone
  g.interval = !g.cold ? std::clamp(2 * g.interval, 1u, rarest) : exact ? 1 : rarest;
  g.unsampled = g.interval - 1;
  return g.cold;
}

bool path_choice::open_direct(local_file& file) {
  if (file.past_cache == nullptr) {
    file.past_cache = &file.host->direct();
    file.direct.fd = file.past_cache->fd();
  }
  if (file.past_cache->usable()) return true;
  file.guess.never_direct = true;
  if (auto const& why = file.past_cache->why_not(); !why.empty()) note_fallback(file, why);
  return false;
}

void path_choice::refused(local_file& file, int error) noexcept {
  file.past_cache->give_up();
  file.guess.never_direct = true;
  try {
    note_fallback(file, fmt::format("its file system refuses O_DIRECT reads ({})", std::strerror(error)));
  } catch (std::bad_alloc const&) {  // then it goes unsaid
  }
}

// Only who asked for direct reads wants to know that there are none.
void path_choice::note_fallback(local_file const& file, std::string const& why) {
  if (path_ != io_path::direct) return;
  notes_.add(why,
             fmt::format("reading through the OS page cache in spite of io_path=direct: {}: {}", name_of(file.buffered.fd), why));
}

}  // namespace gpufs::daemon
