// What write-back knows of a file that is written.
#pragma once

#include <host-daemon/write_back/dirty_marks.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace gpufs::daemon {

class stored_file;

/// A file that is written, with all its descriptors and versions. It lives while one of them is
/// open for writing or a page is dirty.
struct written_file {
  std::shared_ptr<stored_file const> host;
  std::string path;                                ///< as it was opened, for messages
  std::atomic<std::uint32_t> write_index{0};       ///< as in open_file_record, of its descriptors,
  std::atomic<std::uint32_t> once_write_index{0};  ///< and of the one with O_GWRONCE; 0: none
  std::atomic<std::uint64_t> once_version{0};      ///< of pages written with O_GWRONCE; 0: none
  std::atomic<int> error{0};                       ///< of writes: the first unreported -errno, or 0
  std::atomic<int> loss{0};                        ///< the same of bytes that were lost afterwards
  std::atomic<int> not_durable{0};                 ///< of the first sync that failed: -errno, or 0
  /// Linux tells one caller of a lost write. Held from a call that may be told until `not_durable`
  /// has the error, so that no other call returns 0 in between.
  std::mutex telling;
  std::atomic<std::uint64_t> syncs{0};         ///< that have begun, and
  std::uint64_t durable{0};                    ///< the last that succeeded, under `telling`
  std::atomic<bool> changed{false};            ///< we have written, or tried to
  std::atomic<std::uint64_t> behind{0};        ///< bytes written since the last begin_sync()
  std::atomic<std::uint64_t> end{0};           ///< one past the last byte that was written
  std::atomic<std::uint64_t> begun_to{0};      ///< where the next begin_sync() goes on
  mark_set marks;                              ///< of the attached versions; write_back's
  std::shared_ptr<written_file> ended_before;  ///< a list for end_files()
};

}  // namespace gpufs::daemon
