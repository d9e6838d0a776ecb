// Which reads of a daemon thread go past the OS page cache.
#pragma once

#include <gpufs/config.hpp>

#include <host-daemon/io_engine.hpp>
#include <host-daemon/io_hooks.hpp>
#include <host-daemon/note_list.hpp>

#include <cstdint>
#include <string>

namespace gpufs::daemon {

/// Belongs to one thread; what it has learnt about a file is in the thread's local_file.
///
/// io_path direct: every read goes direct where the file allows it. pull: none. auto, dma and
/// mapped: those whose range is not in the OS page cache, by samples. cachestat(2) tells exactly
/// and costs about a microsecond; where it is refused (before Linux 6.5, or files of others),
/// preadv2(RWF_NOWAIT) of the range's first and last byte tells, too, but where it finds nothing it
/// has the kernel fetch the sampled pages: two more reads of the disk, and the next sample of the
/// same range would find them. So:
/// - while samples find the file cached, they become rarer, down to one of `rarest` requests: a
/// warm stream pays next to nothing;
/// - while cachestat finds it not cached, every request is sampled: against a read of the disk that
/// is nothing, and what is cached
///   meanwhile is used at once;
/// - while preadv2 finds it not cached, one of `rarest` requests is sampled, and those between are
/// taken to be like it. A thread's first request of a file is always sampled, so a cold file is
/// read directly from the first request on, and stays cold, because direct reads do not fill the
/// page cache.
class path_choice {
 public:
  path_choice(io_path path, io_hooks const& hooks, note_list& notes)
      : path_{path}, cachestat_{hooks.cachestat}, notes_{notes} {}

  /// Whether a read of `length` bytes (at least 1) at `offset` of `file` goes direct. If so,
  /// file.direct has a descriptor. Throws std::bad_alloc.
  [[nodiscard]] bool direct(local_file& file, std::uint64_t offset, std::uint64_t length);

  /// The kernel refused a direct read of `file` with `error`, although it was aligned: its reads
  /// are buffered from now on.
  void refused(local_file& file, int error) noexcept;

  static constexpr std::uint32_t rarest = 16;

 private:
  bool seems_cold(local_file& file, std::uint64_t offset, std::uint64_t length);
  bool open_direct(local_file& file);
  void note_fallback(local_file const& file, std::string const& why);

  io_path path_;
  cachestat_function cachestat_;
  note_list& notes_;
};

}  // namespace gpufs::daemon
