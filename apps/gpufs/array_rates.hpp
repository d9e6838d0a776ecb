// Rates of reads through array<T> and mapped_ptr<T>, for `gpufs bench ratios --set array`.
#pragma once

#include <apps/gpufs/study.hpp>

#include <cstdint>
#include <memory>

namespace gpufs::apps {

/// Ways to add up the u64 elements of what is read, when all of it is in device memory.
enum class hot_way {
  plain_stream,   ///< each once, in a plain buffer
  array_stream,   ///< the same by a[i]
  ptr_stream,     ///< by mapped_ptr, a page per warp
  plain_lookups,  ///< random ones, in a plain buffer
  array_lookups,  ///< the same by a[i]
};

/// A study's file in a cache that it fits, beside the same bytes in a plain buffer; and random
/// pieces of it that are not in the cache. All rates are in GB/s. Functions throw usage_error if
/// less than a piece is to be read, errors as read_once(), and std::runtime_error naming the row if
/// an array has an error, if a page was not in the cache that should have been, or if bytes are
/// wrong (while the study checks).
class array_rates {
 public:
  explicit array_rates(study const& all);
  ~array_rates();
  array_rates(array_rates const&) = delete;
  array_rates& operator=(array_rates const&) = delete;

  /// Eight bytes for each element. The first call fills the cache and the plain buffer, which stay
  /// until this object ends. Page size: the study's.
  [[nodiscard]] double hot_GBps(hot_way way);

  /// Random pieces of 512 bytes, a warp each with 16 bytes for each lane; OS page cache warm, cache
  /// and requests as random_rates has them.
  [[nodiscard]] double pieces_GBps(char const* row, std::uint64_t page_size) const;

 private:
  struct hot_file;

  study const& all_;
  std::unique_ptr<hot_file> hot_;
};

}  // namespace gpufs::apps
