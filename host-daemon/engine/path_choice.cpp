// Sampling the OS page cache.
#include <host-daemon/base/file_view.hpp>
#include <host-daemon/base/os_page_cache.hpp>
#include <host-daemon/engine/path_choice.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>

#include <sys/stat.h>

namespace gpufs::daemon {

namespace {

// Returns whether at least half of a range is not cached. Nothing: the kernel does not tell. Pages
// behind the end of the file are in no cache, and count as little as they are read.
std::optional<bool> is_half_missing(cachestat_function const& hook, int fd, std::uint64_t offset,
                                    std::uint64_t length) {
  auto part = ask_cachestat(hook, fd, offset, length);
  if (!part) return std::nullopt;
  if (2 * part->cached > part->pages) return false;
  struct ::stat status {};
  if (::fstat(fd, &status) != 0) return true;
  auto const end = std::uint64_t(status.st_size);
  if (offset >= end) return false;
  if (end - offset >= length) return true;
  part = ask_cachestat(hook, fd, offset, end - offset);
  return !part || 2 * part->cached <= part->pages;
}

// Returns whether the first or the last byte of a range is not cached. Nothing: the file system
// does not tell.
std::optional<bool> is_end_missing(int fd, std::uint64_t offset, std::uint64_t length) {
  for (auto const at : {offset, offset + length - 1}) {
    auto const cached = is_byte_cached(fd, at);
    if (!cached) return std::nullopt;
    if (!*cached) return true;
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
    cold = is_half_missing(cachestat_, file.buffered.fd, offset, length);
    g.no_cachestat = !cold;
  }
  bool const exact = cold.has_value();
  if (!exact) cold = is_end_missing(file.buffered.fd, offset, length);
  g.cold = cold.value_or(false);
  // A file system that does not tell keeps its files in memory, or is better left alone.
  g.never_direct = !cold;
  g.interval = !g.cold ? std::clamp(2 * g.interval, 1u, rarest) : exact ? 1 : rarest;
  g.unsampled = g.interval - 1;
  return g.cold;
}

bool path_choice::open_direct(local_file& file) {
  if (file.past_cache == nullptr) {
    file.past_cache = &file.host->direct();
    file.direct.fd = file.past_cache->fd();
    file.direct.past_cache = file.past_cache;
    file.direct.file = file.host.get();  // for its name
  }
  if (file.past_cache->usable()) return true;
  file.guess.never_direct = true;
  if (auto const& why = file.past_cache->why_not(); !why.empty()) note_fallback(file, why);
  return false;
}

bool path_choice::copy(read_operation const& read) const noexcept {
  auto const& from = *read.from;
  if (!views_ || from.view == nullptr || from.version == 0) return false;
  return from.view->copy({read.to, read.length}, read.offset, from.version, cachestat_);
}

void path_choice::refused(local_file& file, int error) noexcept {
  file.past_cache->give_up();
  file.guess.never_direct = true;
  try {
    note_fallback(file,
                  fmt::format("its file system refuses O_DIRECT reads ({})", std::strerror(error)));
  } catch (std::bad_alloc const&) {  // then it goes unsaid
  }
}

// A note only if the program asked for direct reads.
void path_choice::note_fallback(local_file const& file, std::string const& why) {
  if (path_ != io_path::direct) return;
  notes_.add(why,
             fmt::format("reading through the OS page cache in spite of io_path=direct: {}: {}",
                         name_of(file.buffered.fd), why));
}

}  // namespace gpufs::daemon
