// The write buffers of all endpoints, numbered through: endpoint 0's come first.
#pragma once

#include <gpufs/rpc/write_format.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpufs::daemon {

/// Finds the words and bytes of a buffer by its number. All functions are thread-safe.
class write_buffers {
 public:
  using word = std::atomic_ref<std::uint64_t>;

  /// Serves the buffers of one or more regions, zeroed, which must outlive it.
  /// Throws std::invalid_argument if regions with buffers differ in their page size.
  write_buffers(rpc::write_region const& region)  // NOLINT: one region is a list of one
      : write_buffers{std::vector{region}} {}
  explicit write_buffers(std::vector<rpc::write_region> regions);

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint32_t page_shift() const noexcept { return page_shift_; }

  [[nodiscard]] std::size_t endpoints() const noexcept { return regions_.size(); }
  /// Returns the number of the endpoint that buffer `i` belongs to.
  [[nodiscard]] std::size_t endpoint_of(std::uint32_t i) const noexcept { return find(i).endpoint; }

  [[nodiscard]] rpc::buffer_header& header(std::uint32_t i) const noexcept {
    auto const at = find(i);
    return regions_[at.endpoint].headers[at.index];
  }
  [[nodiscard]] word posted(std::uint32_t i) const noexcept {
    auto const at = find(i);
    return word{regions_[at.endpoint].posted[at.index]};
  }
  [[nodiscard]] word written(std::uint32_t i) const noexcept {
    auto const at = find(i);
    return word{regions_[at.endpoint].written[at.index]};
  }
  [[nodiscard]] std::byte* bytes(std::uint32_t i) const noexcept {
    auto const at = find(i);
    return regions_[at.endpoint].bytes + (std::uint64_t(at.index) << page_shift_);
  }

  /// The number of an endpoint's buffers, and their dirty marks.
  [[nodiscard]] std::uint32_t count(std::size_t endpoint) const noexcept {
    return std::uint32_t(regions_[endpoint].count);
  }
  [[nodiscard]] std::uint64_t* marks(std::size_t endpoint) const noexcept {
    return regions_[endpoint].marks;
  }
  [[nodiscard]] std::atomic_ref<std::uint8_t> mark(std::uint32_t i) const noexcept {
    auto const at = find(i);
    return std::atomic_ref{reinterpret_cast<std::uint8_t*>(regions_[at.endpoint].marks)[at.index]};
  }

  /// Stores a file's errno, or 0, where the kernels of all endpoints look. `write_index`: not 0.
  void store_error(std::uint32_t write_index, int error) const noexcept;

  /// Says that no kernel of an endpoint adds bytes any more. A busy buffer of it was left by a
  /// kernel that died.
  void end(std::size_t endpoint) noexcept;
  /// Returns whether the endpoint of buffer `i` has ended.
  [[nodiscard]] bool ended(std::uint32_t i) const noexcept;

 private:
  struct place {
    std::size_t endpoint;
    std::uint32_t index;  // in the endpoint's region
  };
  [[nodiscard]] place find(std::uint32_t i) const noexcept {
    std::size_t endpoint = 0;
    for (; i >= regions_[endpoint].count; ++endpoint) i -= std::uint32_t(regions_[endpoint].count);
    return {endpoint, i};
  }

  std::vector<rpc::write_region> regions_;
  std::vector<std::atomic<bool>> ended_;
  std::uint32_t count_ = 0;
  std::uint32_t page_shift_ = 0;
};

}  // namespace gpufs::daemon
