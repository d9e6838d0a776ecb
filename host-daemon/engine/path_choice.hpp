// The choice of the way of a read: past the OS page cache, out of a view of the file, or neither.
#pragma once

#include <gpufs/config.hpp>

#include <host-daemon/base/io_hooks.hpp>
#include <host-daemon/base/note_list.hpp>
#include <host-daemon/engine/io_engine.hpp>

#include <cstdint>
#include <string>

namespace gpufs::daemon {

/// Belongs to one thread. What it has learnt about a file is in the thread's local_file.
///
/// io_path direct   Every read goes direct if the file allows it.
/// io_path pull     No read goes direct.
/// Other io_paths   A read goes direct if samples say that its range is not in the OS page cache.
///
/// cachestat(2) tells exactly and costs about a microsecond. The kernel may refuse it: before Linux
/// 6.5, or for files of other users. Then preadv2(RWF_NOWAIT) samples the first and the last byte
/// of the range. If these are not cached, the kernel begins to read their pages. That costs two
/// more reads of the disk, and the next sample of the same range would find the pages.
///
/// So samples follow these rules:
/// - A thread's first request of a file is always sampled. So a cold file is read directly from the
/// first request on, and stays cold, because direct reads do not fill the page cache.
/// - While samples find the file cached, they become rarer, down to one of `rarest` requests. So a
/// warm stream pays next to nothing.
/// - While cachestat finds it not cached, every request is sampled. Against a read of the disk that
/// costs nothing, and cached data is used at once.
/// - While preadv2 finds it not cached, one of `rarest` requests is sampled. Those between count as
/// not cached, too.
class path_choice {
 public:
  /// `views`: whether bytes are copied out of views of files.
  path_choice(io_path path, io_hooks const& hooks, note_list& notes, bool views = true)
      : path_{path},
        views_{views && path != io_path::direct},
        cachestat_{hooks.cachestat},
        notes_{notes} {}

  /// Returns whether a read of `length` bytes (at least 1) at `offset` of `file` goes direct. If
  /// so, file.direct has a descriptor. Throws std::bad_alloc.
  [[nodiscard]] bool direct(local_file& file, std::uint64_t offset, std::uint64_t length);

  /// Carries a read out by a copy out of the file's view. Returns false if an engine must read.
  [[nodiscard]] bool copy(read_operation const& read) const noexcept;

  /// Called when the kernel refused an aligned direct read of `file` with `error`. The file's reads
  /// go through the OS page cache from then on.
  void refused(local_file& file, int error) noexcept;

  static constexpr std::uint32_t rarest = 16;

 private:
  bool seems_cold(local_file& file, std::uint64_t offset, std::uint64_t length);
  bool open_direct(local_file& file);
  void note_fallback(local_file const& file, std::string const& why);

  io_path path_;
  bool views_;
  cachestat_function cachestat_;
  note_list& notes_;
};

}  // namespace gpufs::daemon
