// Rates of reads through array<T> and held_ptr<T>, for `gpufs bench ratios --set array`.
#pragma once

#include <apps/bench/study.hpp>

#include <cstdint>
#include <memory>

namespace gpufs::apps {

/// Ways to add up the u64 elements of a file that lies in device memory.
enum class hot_way {
  plain_stream,   ///< each once, in a plain buffer
  array_stream,   ///< the same by a[i]
  ptr_stream,     ///< by held_ptr, a page per warp
  plain_lookups,  ///< random ones, in a plain buffer
  array_lookups,  ///< the same by a[i]
};

/// Rates in GB/s. The study's file lies in a cache that holds it, beside the same bytes in a plain
/// buffer. A second row reads random chunks that are not in the cache.
/// Functions throw usage_error if there is less than one chunk to read, and errors as read_once().
/// They throw std::runtime_error naming the row if an array has an error, if a page was not cached
/// that should be, or if bytes are wrong while the study checks.
class array_rates {
 public:
  explicit array_rates(study const& all);
  ~array_rates();
  array_rates(array_rates const&) = delete;
  array_rates& operator=(array_rates const&) = delete;

  /// Eight bytes for each element. The first call fills the cache and the plain buffer, which stay
  /// until this object ends. Page size: the study's.
  [[nodiscard]] double hot_GBps(hot_way way);

  /// Random chunks of 512 bytes, one per warp, 16 bytes per lane. The OS page cache is warm. Cache
  /// and requests are those of random_rates.
  [[nodiscard]] double ranges_GBps(char const* row, std::uint64_t page_size) const;
  /// The same pass.
  [[nodiscard]] pass_result ranges_pass(char const* row, std::uint64_t page_size) const;

 private:
  struct hot_file;

  study const& all_;
  std::unique_ptr<hot_file> hot_;
};

}  // namespace gpufs::apps
