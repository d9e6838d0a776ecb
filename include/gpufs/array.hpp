// gpufs::array<T>: a file, or part of one, as an array in device code.
#pragma once

#include <gpufs/cache/peek.hpp>
#include <gpufs/io.hpp>
#include <gpufs/io/element.hpp>
#include <gpufs/io/file_view.hpp>
#include <gpufs/io/keep.hpp>
#include <gpufs/warp.hpp>

#include <cerrno>
#include <cstdint>
#include <type_traits>

#include <fcntl.h>

namespace gpufs {

template <class T>
class mapped_ptr;

template <class T>
class array;

/// What a[i] of an array that can be stored to gives: reads as the element, stores when it is
/// assigned to. Not a copy of the element: `auto x = a[i]` reads when x is used.
template <class T>
class array_element {
 public:
  __device__ array_element(array<T> const& a, std::uint64_t i) : array_(a), i_(i) {}
  array_element(array_element const&) = default;
  __device__ operator T() const { return array_.load(i_); }
  __device__ array_element const& operator=(T const& value) const {
    array_.store(i_, value);
    return *this;
  }
  __device__ array_element const& operator=(array_element const& other) const {
    return *this = static_cast<T>(other);
  }

 private:
  array<T> const& array_;
  std::uint64_t i_;
};

/// A view of `size()` elements of an open file from a byte offset on: array<T const> to read,
/// array<T> to read and store. Made by all threads of a group together; from then on each thread
/// accesses elements by itself, wherever its warp has diverged to: lanes that come to an access
/// together look up, and bring in, each distinct page once (paper 003, section 4.1), others go
/// separately. Elements of pages that are in the cache are loaded without pinning them
/// (gpufs/cache/peek.hpp), unless the file is written; such loads are not counted as hits. A page
/// that a whole warp comes back to stays pinned for its lanes until they access another, or their
/// arrays end, while no more than an eighth of all frames is kept so by anybody; release() gives it
/// back earlier. For runs of elements mapped_ptr is cheaper. Elements must be trivially copyable
/// and may straddle pages; each part is then accessed by itself. Stores are gwrites of the
/// element's bytes: seen by every block at once, in the host's file after gfsync or the last
/// gclose. Use it while its io_context lives; each thread has its own, and a copy keeps no page.
///
/// Errors do not stop the kernel: a load that fails gives T{}, a store that fails stores nothing
/// (of an element that straddles pages perhaps a part), and the thread keeps the first error.
/// Errors of the constructor: -EBADF, -EACCES (array<T> of a descriptor that is not O_RDWR, or one
/// that is O_WRONLY), -EINVAL (a negative offset, one that is not a multiple of alignof(T),
/// elements beyond the end of a file that cannot be written, a group of less than 32 threads). Of
/// an access: -ERANGE (no such element), -EIO (the file has become shorter), -ENOMEM (all frames,
/// channels or write buffers stayed in use for config::rpc_timeout_ms), or what gread and gwrite
/// return.
template <class T>
class array {
 public:
  using value_type = std::remove_const_t<T>;
  static constexpr bool writable = !std::is_const_v<T>;
  static_assert(std::is_trivially_copyable_v<value_type> &&
                std::is_default_constructible_v<value_type>);

  /// All whole elements that the file has behind the offset.
  static constexpr std::uint64_t to_the_end = ~0ull;

  /// `offset` in bytes, `count` in elements. Elements of an array that can be stored to may lie
  /// beyond the end of the file: they read as zeros, and stores make the file longer.
  template <class Group>
  __device__ array(io_context<Group>& io, int fd, std::int64_t offset = 0,
                   std::uint64_t count = to_the_end) {
    view_.handle = io.fs().self;
    view_.slot = io.slot();
    view_.writable = writable;
    if (io_context<Group>::ops::warps(io.group()) == 0) {
      view_.error = -EINVAL;
      return;
    }
    view_.error = detail::use_file(io, fd);
    if (view_.error != 0) return;
    view_.file = io.file();
    std::uint64_t const access = view_.file.flags & O_ACCMODE;
    if (access == O_WRONLY || (writable && (access != O_RDWR || view_.file.place == 0))) {
      view_.error = -EACCES;
      return;
    }
    auto const begin = static_cast<std::uint64_t>(offset);
    std::uint64_t const there = begin < view_.file.size ? (view_.file.size - begin) / sizeof(T) : 0;
    std::uint64_t const most =
        writable ? (begin <= rpc::payload_mask ? (rpc::payload_mask - begin) / sizeof(T) : 0)
                 : there;
    if (count == to_the_end) count = there;
    if (offset < 0 || begin % alignof(T) != 0 || count > most) {
      view_.error = -EINVAL;
      return;
    }
    view_.begin = begin;
    view_.size = count;
  }
  __device__ array(array const& other) { take_over(other); }
  __device__ array& operator=(array const& other) {
    if (this == &other) return *this;
    release();
    take_over(other);
    return *this;
  }
  __device__ ~array() { release(); }

  [[nodiscard]] __device__ std::uint64_t size() const { return view_.size; }

  /// Element i. Any thread calls.
  [[nodiscard]] __device__ auto operator[](std::uint64_t i) const {
    if constexpr (writable) {
      return array_element<T>(*this, i);
    } else {
      return load(i);
    }
  }

  [[nodiscard]] __device__ __forceinline__ value_type load(std::uint64_t i) const {
    std::uint64_t const number = i - elements_.first;
    if (number < elements_.count) return elements_.at(number);
    return load_elsewhere(i);
  }

  /// Stores element i. Any thread calls; the stores of lanes that come together and whose elements
  /// lie one behind the other are one write.
  __device__ __forceinline__ void store(std::uint64_t i, value_type const& value) const {
    static_assert(writable, "array<T const> cannot be stored to");
    if (i >= view_.size) {
      view_.note(-ERANGE);
      return;
    }
    detail::element_access const done = detail::store_element<T>(
        view_.handle, view_.file, view_.slot, view_.begin + i * sizeof(T), value);
    view_.file = done.file;
    view_.note(done.error);
  }

  /// Lets go of the page that is kept for this thread, if one is.
  __device__ __forceinline__ void release() const {
    if (elements_.count == 0) return;
    far_call<void, fs_ref const*, frame_header*>(detail::unkeep, view_.handle, seen_.header);
    elements_.count = 0;
  }

  /// A pointer to element i that keeps its page pinned while it moves within it.
  [[nodiscard]] __device__ mapped_ptr<value_type const> pointer(std::uint64_t i) const {
    return mapped_ptr<value_type const>(view_, i);
  }

  /// The first error of this thread's accesses, or of the constructor; 0: none.
  [[nodiscard]] __device__ int error() const { return view_.error; }

  /// An error of the lanes that come here together, the same in all of them; 0: none has one.
  [[nodiscard]] __device__ int warp_error() const {
    converged_group const g = converged();
    unsigned const failed = g.ballot(view_.error != 0);
    std::int32_t const first = g.shfl(
        view_.error, failed == 0 ? 0 : static_cast<unsigned>(__ffs(static_cast<int>(failed)) - 1));
    return failed == 0 ? 0 : first;
  }

 private:
  /// The frame that `count` elements from elements_.first on were seen in, in the generation of
  /// `state`.
  struct seen_page {
    frame_header* header = nullptr;
    std::uint64_t state = 0;
    std::uint32_t count = 0;
  };

  __device__ __forceinline__ value_type load_elsewhere(std::uint64_t i) const {
    value_type value;
    if (load_seen(i, value)) {
      if (keep()) elements_.count = seen_.count;
      return value;
    }
    release();
    if (see(i) && load_seen(i, value)) return value;
    return load_from_file(i);
  }

  /// Loads element i from where elements were seen, if it is one of them and they are still there.
  __device__ __forceinline__ bool load_seen(std::uint64_t i, value_type& value) const {
    std::uint64_t const number = i - elements_.first;
    if (number >= seen_.count) return false;
    std::uint32_t mark = 0;
    value = detail::load_now<value_type>(elements_.base + number * sizeof(T), mark);
    return still_there(seen_.header, seen_.state, mark);
  }

  /// Looks where element i's page is in the cache, for load_seen().
  __device__ __forceinline__ bool see(std::uint64_t i) const {
    seen_frame found;
    detail::page_elements here;
    auto const further = [](page_cache_ref const* cache, std::uint64_t uid, std::uint64_t page) {
      return far_call<seen_frame, page_cache_ref const*, std::uint64_t, std::uint64_t>(
          see_page_further, cache, uid, page);
    };
    if (!detail::see_elements<T>(*view_.handle, view_.file, view_.begin, view_.size, i, found, here,
                                 further))
      return false;
    elements_ = {found.bytes + here.offset, here.first, 0};
    seen_ = {found.header, found.state, static_cast<std::uint32_t>(here.count)};
    return true;
  }

  /// Pins the page that was seen if all lanes of the warp have come back to it.
  __device__ __forceinline__ bool keep() const {
    if (converged().mask() != all_lanes) return false;
    auto const header = reinterpret_cast<std::uintptr_t>(seen_.header);
    if (__all_sync(all_lanes,
                   header == __shfl_sync(all_lanes, static_cast<unsigned long long>(header), 0)) ==
        0)
      return false;
    return far_call<bool, fs_ref const*, frame_header*, std::uint64_t>(
        detail::keep_seen, view_.handle, seen_.header, seen_.state);
  }

  __device__ __forceinline__ value_type load_from_file(std::uint64_t i) const {
    if (i >= view_.size) {
      view_.note(-ERANGE);
      return {};
    }
    detail::file_view view = view_;  // a copy, so that the rest can stay in registers
    value_type const value =
        far_call<value_type, detail::file_view*, std::uint64_t>(load_missed, &view, i);
    if (view.file.uid != view_.file.uid) seen_.count = 0;  // a newer version is read from now on
    view_ = view;
    return value;
  }

  GPUFS_STAGE static value_type load_missed(detail::file_view* view, std::uint64_t i) {
    auto const loaded = detail::load_element<value_type>(
        view->handle, view->file, view->slot, view->begin + i * sizeof(T), view->writable);
    view->file = loaded.file;
    view->note(loaded.error);
    return loaded.value;
  }

  __device__ void take_over(array const& other) {
    view_ = other.view_;
    elements_ = {};
    seen_ = {};
  }

  mutable detail::file_view view_;
  mutable detail::held_elements<T> elements_;  ///< of the page that was seen last; count is 0
                                               ///< unless it is kept, pinned for this thread
  mutable seen_page seen_;
};

}  // namespace gpufs

#include <gpufs/mapped_ptr.hpp>
