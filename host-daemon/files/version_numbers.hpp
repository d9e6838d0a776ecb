// The numbers that the versions of all files are made of. The tables of versions share them.
#pragma once

#include <gpufs/rpc/wire_format.hpp>
#include <gpufs/rpc/write_format.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace gpufs::daemon {

/// All functions are thread-safe. Only the constructor throws.
class version_numbers {
 public:
  /// `remembered`: the number of closed files whose versions are remembered, in all tables.
  /// `write_indices`: the number of files that can be open for writing at once. Device code knows a
  /// written file by its write index.
  explicit version_numbers(std::size_t remembered, std::uint32_t write_indices = 0);

  /// Returns the first version of a series that no file has. `backing`: as
  /// stored_file::block_backing().
  [[nodiscard]] std::uint64_t fresh_version(std::uint8_t backing = 0) noexcept {
    auto const series = last_series_.fetch_add(1, std::memory_order_relaxed) + 1;
    return series << rpc::series_shift | std::uint64_t{backing} << rpc::backing_shift;
  }

  /// Returns a write index that no file has, or 0. return_write_index() gives it back.
  [[nodiscard]] std::uint32_t take_write_index() noexcept;
  void return_write_index(std::uint32_t write_index) noexcept;
  /// Returns whether take_write_index() would have found one.
  [[nodiscard]] bool has_write_index() noexcept;

  /// Counts a closed file that a table remembers, or one that it remembers no more. Returns false
  /// if it is one too many: then the table forgets another one.
  // The count orders nothing. Each table is changed by one thread at a time.
  [[nodiscard]] bool remember() noexcept {
    return closed_.fetch_add(1, std::memory_order_relaxed) < remembered_;
  }
  void forget() noexcept { closed_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::size_t remembered_;
  std::mutex mutex_;  // guards the next one; no other lock is taken under it
  std::vector<std::uint32_t> free_write_indices_;
  // On lines of their own: each open and close of a file may change them.
  alignas(64) std::atomic<std::uint64_t> last_series_{0};
  alignas(64) std::atomic<std::size_t> closed_{0};
};

}  // namespace gpufs::daemon
