// What the source files of the registry share about how files are opened.
#pragma once

#include <gpufs/rpc/wire_format.hpp>

#include <host-daemon/content_versions.hpp>

#include <atomic>
#include <cstdint>

#include <fcntl.h>
#include <sys/stat.h>

namespace gpufs::daemon {

inline constexpr int write_once = int(rpc::open_write_once);

// What opens must have in common to share a descriptor.
inline int kind_of(int flags) { return flags & (O_ACCMODE | O_APPEND | write_once); }
inline bool for_writing(int kind) { return (kind & O_ACCMODE) != O_RDONLY; }
// Writers that readers here do not share pages with are to them what another process is: opens
// validate, and find what those wrote.
inline bool shares_pages(int kind) { return for_writing(kind) && (kind & write_once) == 0; }

inline std::int64_t nanoseconds(::timespec const& t) {
  return std::int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

inline file_stamp stamp_of(struct ::stat const& s) {
  return {.device = s.st_dev,
          .inode = s.st_ino,
          .size = std::uint64_t(s.st_size),
          .mtime_ns = nanoseconds(s.st_mtim),
          .ctime_ns = nanoseconds(s.st_ctim)};
}

/// Stores a word of a record that device code reads.
inline void store_word(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>{word}.store(value, std::memory_order_release);
}

}  // namespace gpufs::daemon
