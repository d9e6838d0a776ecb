// A memory mapping of an open file, from which threads copy what the OS page cache has.
#pragma once

#include <host-daemon/base/os_page_cache.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

namespace gpufs::daemon {

/// Such a copy costs no system call, so it takes a third to a half of the time of a pread(2) of
/// 4 KiB. The bytes are the same: both take them from the OS page cache.
///
/// A view is divided into parts. A part is used once its pages are all in the OS page cache.
/// The kernel is asked about it again and again, as pages leave the cache. If a page has left it in
/// between, the copy waits for the storage, as a pread would.
class file_view {
 public:
  static constexpr std::uint64_t part_bytes = 2 << 20;
  /// Longer reads are left to the kernel: their system call hardly counts.
  static constexpr std::uint64_t longest_copy = 64 << 10;
  /// So many reads of a file, and of a part, do without the view. A few reads are not worth it.
  static constexpr std::uint32_t reads_before_mapping = 64, reads_before_asking = 4;
  /// The kernel is asked again after so many reads of a part that is cached, or is not.
  static constexpr std::uint32_t reads_while_cached = 512, reads_while_not = 64;

  /// `fd`: of a regular file, open for reading. It must outlive the view. Others have no view.
  explicit file_view(int fd) noexcept : fd_{fd} {}
  ~file_view();
  file_view(file_view const&) = delete;
  file_view& operator=(file_view const&) = delete;

  /// Copies the file's bytes from `offset` on. `version`: grows when the file may have got another
  /// size; at least 1. `asked`: in place of cachestat(2), perhaps empty.
  /// Returns false if they must be read by a system call, which also tells of errors and of the end
  /// of the file; `to` then holds anything. Any thread calls.
  [[nodiscard]] bool copy(std::span<std::byte> to, std::uint64_t offset, std::uint64_t version,
                          cachestat_function const& asked) noexcept;

  /// Lets the OS page cache drop these bytes: it keeps pages that a mapping uses. Copies at the
  /// same time use them again. Any thread calls.
  void let_go(std::uint64_t offset, std::uint64_t bytes) const noexcept;

 private:
  struct part {
    std::atomic<std::uint64_t> word{0};   // see file_view.cpp
    std::atomic<std::uint32_t> reads{0};  // since the kernel was asked
  };
  struct stretch {
    std::uint64_t first = 0, bytes = 0;  // of the file
    std::byte const* mapping = nullptr;
    std::unique_ptr<part[]> parts;
  };

  // The first is a GiB, and each further one is as long as all before it.
  static constexpr unsigned most_stretches = 15;

  stretch const* stretch_of(std::uint64_t offset) noexcept;
  stretch const* make_stretch(unsigned number) noexcept;
  [[nodiscard]] bool can_be_viewed() const noexcept;
  std::uint64_t ask(stretch const& s, part& w, std::uint64_t number, std::uint64_t version,
                    cachestat_function const& asked) const noexcept;

  int fd_;
  std::atomic<std::uint32_t> reads_{0};  // up to reads_before_mapping
  std::mutex making_;
  std::array<std::atomic<stretch const*>, most_stretches> stretches_{};
};

}  // namespace gpufs::daemon
