// gpufs::held_writer<T>: a pointer into a gpufs::array that holds its page and stores to it.
#pragma once

#include <gpufs/io.hpp>
#include <gpufs/io/element/file_view.hpp>

#include <cstdint>
#include <type_traits>

namespace gpufs {

template <class T>
class held_writer;

/// Proxy for an element of a held_writer. Reading it loads the element; assigning to it stores.
template <class T>
class held_element {
 public:
  /// For held_writer: the element `n` further than the one that `p` points to. `p` outlives it.
  __device__ held_element(held_writer<T> const& p, std::int64_t n) : pointer_(p), n_(n) {}
  /// A proxy for the same element. Nothing is loaded.
  held_element(held_element const&) = default;
  /// Loads the element, as held_writer::load().
  __device__ operator T() const { return pointer_.load(n_); }
  /// Stores the element, as held_writer::store().
  __device__ held_element const& operator=(T const& value) const;
  /// Loads the other element and stores its value.
  __device__ held_element const& operator=(held_element const& other) const;

 private:
  held_writer<T> const& pointer_;
  std::int64_t n_;
};

/// A thread's pointer that stores to elements of a file, made by array::writer(). Any thread uses
/// it. It holds the page of its last access, as held_ptr does. A store goes to the held page by one
/// plain store, without look-up, lock, or bus.
///
/// All blocks see a store at once, as any store to memory. It becomes part of the file when the
/// pointer *posts* it, and from then on is as a gwrite of its bytes. A gfsync covers what was
/// posted before, and bytes that were never posted are lost with the page.
///
/// The pointer posts what it has stored when it is told to (flush()), and when it lets its page go:
/// by release(), by an access on another page, at its end. It posts as well when a store is not
/// adjacent to those before. So it is for runs of elements: a thread that jumps posts each store.
///
/// Exactly the stored elements are posted, with the values that they have then. So pointers of
/// other threads on the same page, arrays and gwrites may store to other bytes of it, and nothing
/// is lost. If two store to the same element without order, either value stays, and each is posted.
///
/// Stores take no lock. array::fetch_add on an element is not atomic towards them.
///
/// If the file has a new version when the pointer posts (fs.write, gftruncate), the bytes are
/// written to that version, like a gwrite at this time. The pointer then lets the old page go.
///
/// A thread holds at most one page per pointer, and gives it back before it looks for another one.
/// It posts while it holds the page. If pointers hold all frames, accesses and posts give -ENOMEM.
///
/// A copy points to the same element, holds nothing and has nothing to post. An element that
/// straddles pages is stored at once, as by an array. A failed load gives T{}.
///
/// Errors are as for array. What cannot be posted when a page is let go, or when a store is not
/// adjacent, stays unwritten; error() and statistics::bytes_unposted tell. Only flush() keeps it.
///
/// A kernel that must know calls flush() or release(), and then error(). The destructor reports no
/// error.
template <class T>
class held_writer {
 public:
  using value_type = T;  ///< what load() returns
  static_assert(!std::is_const_v<T>, "array::pointer() reads");

  /// For array::writer(): element `index` of `view`, an array that can be stored to.
  __device__ held_writer(io::file_view const& view, std::uint64_t index)
      : view_(view), index_(index) {}
  /// A pointer to the same element. It holds no page and has nothing to post.
  __device__ held_writer(held_writer const& other) : held_writer(other.view_, other.index_) {}
  held_writer& operator=(held_writer const&) = delete;
  __device__ ~held_writer() { release(); }

  /// The element pointed to.
  [[nodiscard]] __device__ held_element<T> operator*() const { return {*this, 0}; }
  /// The element `n` elements further. `n` may be negative.
  [[nodiscard]] __device__ held_element<T> operator[](std::int64_t n) const { return {*this, n}; }

  /// Stores the element `n` elements further. Any thread calls. -ERANGE: no such element.
  __device__ __forceinline__ void store(std::int64_t n, T const& value) const;
  /// The value of the element `n` elements further, with this thread's own stores. Any thread
  /// calls.
  [[nodiscard]] __device__ __forceinline__ T load(std::int64_t n) const;

  /// Moves the pointer by elements. Holds the same page until the next access.
  __device__ held_writer& operator+=(std::int64_t n);
  __device__ held_writer& operator-=(std::int64_t n) { return *this += -n; }  ///< back by n
  __device__ held_writer& operator++() { return *this += 1; }                 ///< to the next one
  __device__ held_writer& operator--() { return *this += -1; }                ///< to the one before

  /// Number of the element in the array.
  [[nodiscard]] __device__ std::uint64_t index() const { return index_; }

  /// Returns the first error of the array, at the time of array::writer(), or of this pointer; 0:
  /// none.
  [[nodiscard]] __device__ int error() const { return view_.error; }

  /// Posts what was stored and not posted yet. Any thread calls. Keeps the page.
  /// Returns 0, or an error of an array's store. Then nothing was posted, and a later flush() tries
  /// again.
  __device__ __forceinline__ int flush() const;

  /// Posts, and gives the held page back, if any. Any thread calls. The next access looks for its
  /// page again.
  __device__ __forceinline__ void release() const;

 private:
  using elements = io::held_elements<T>;
  /// A pinned page, and the stored elements that are not posted: [stored, end) of `page`.
  struct hold {
    elements page;
    cache::frame_header* header = nullptr;  ///< its frame; null: none is pinned
    std::uint32_t stored = 0;
    std::uint32_t end = 0;
  };
  struct flushed {
    hold now;
    std::int32_t error;
  };

  __device__ __forceinline__ bool put(std::uint64_t i, T const& value) const;
  __device__ __forceinline__ void move_to(std::uint64_t i) const;
  __device__ __forceinline__ bool straddles(std::uint64_t i) const;
  GPUFS_STAGE static std::int32_t post(io::file_view* view, hold const* held);
  GPUFS_STAGE static void let_go(io::file_view* view, hold const held);
  GPUFS_STAGE static hold find(io::file_view* view, hold const held, std::uint64_t i);
  GPUFS_STAGE static flushed post_and_keep(io::file_view* view, hold const held);
  GPUFS_STAGE static void store_parts(io::file_view* view, std::uint64_t i, T const* value);
  GPUFS_STAGE static T load_parts(io::file_view* view, std::uint64_t i);

  mutable io::file_view view_;
  std::uint64_t index_;
  mutable hold hold_;
};

}  // namespace gpufs

#include <gpufs/io/element/held_writer.hpp>
