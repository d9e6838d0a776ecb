// gpufs::held_ptr<T const>: a pointer into a gpufs::array that holds its page.
#pragma once

#include <gpufs/io.hpp>
#include <gpufs/io/element/file_view.hpp>

#include <cstdint>
#include <type_traits>

namespace gpufs {

/// A thread's pointer to elements of a file, made by array::pointer(). Any thread uses it.
/// It holds the page of its last read: the page stays pinned until a read on another page, or the
/// pointer's end. Further reads of that page need no look-up (BaM paper, section 4.2).
///
/// A thread holds at most one page per pointer. It gives that page back before it looks for another
/// one. Lanes that come together for pages of their own get them together. While they wait for
/// frames they hold none, unless they are the first of all callers that wait.
///
/// If pointers hold all frames, accesses give -ENOMEM. So may accesses of an array, or calls of the
/// file API, by threads that hold the last frames. Call release() before them.
///
/// A copy points to the same element and holds nothing. A held page of a file that others truncate
/// stays the version that it was. A failed read gives T{}; errors are as for array.
template <class T>
class held_ptr {
 public:
  using value_type = std::remove_const_t<T>;  ///< what reads return
  static_assert(std::is_const_v<T>, "store through array<T>");

  /// For array::pointer(): element `index` of `view`.
  __device__ held_ptr(io::file_view const& view, std::uint64_t index)
      : view_(view), index_(index) {}
  /// A pointer to the same element. It holds no page.
  __device__ held_ptr(held_ptr const& other) : held_ptr(other.view_, other.index_) {}
  held_ptr& operator=(held_ptr const&) = delete;
  __device__ ~held_ptr() { release(); }

  /// The element pointed to.
  [[nodiscard]] __device__ __forceinline__ value_type operator*() const { return (*this)[0]; }
  /// The element `n` elements further. `n` may be negative.
  [[nodiscard]] __device__ __forceinline__ value_type operator[](std::int64_t n) const;

  /// Moves the pointer by elements. Holds the same page until the next read.
  __device__ held_ptr& operator+=(std::int64_t n);
  __device__ held_ptr& operator-=(std::int64_t n) { return *this += -n; }  ///< back by n
  __device__ held_ptr& operator++() { return *this += 1; }                 ///< to the next one
  __device__ held_ptr& operator--() { return *this += -1; }                ///< to the one before

  /// Number of the element in the array.
  [[nodiscard]] __device__ std::uint64_t index() const { return index_; }

  /// Returns the first error of the array, at the time of array::pointer(), or of this pointer; 0:
  /// none.
  [[nodiscard]] __device__ int error() const { return view_.error; }

  /// Gives the held page back, if any. The next read looks for its page again.
  __device__ __forceinline__ void release() const;

 private:
  using elements = io::held_elements<T>;
  struct found {
    value_type value;
    elements held;                          ///< elements of the page that is pinned now
    cache::frame_header* header = nullptr;  ///< its frame; null: none is pinned
  };

  __device__ __forceinline__ value_type read_elsewhere(std::uint64_t i) const;
  GPUFS_STAGE static void let_go(cache::frame_header* header);
  GPUFS_STAGE static found find(io::file_view* view, cache::frame_header* held, std::uint64_t i);
  __device__ __forceinline__ static found find_seen(converged_group const& g,
                                                    io::file_view const& view, std::uint64_t i);
  GPUFS_STAGE static found find_in_file(io::file_view* view, std::uint64_t i);

  mutable io::file_view view_;
  std::uint64_t index_;
  mutable elements elements_;
  mutable cache::frame_header* header_ = nullptr;  ///< the held frame; null: none
};

}  // namespace gpufs

#include <gpufs/io/element/held_ptr.hpp>
