// gpufs::mapped_ptr<T const>: a pointer into a gpufs::array that holds its page.
#pragma once

#include <gpufs/cache/peek.hpp>
#include <gpufs/io/element.hpp>
#include <gpufs/io/file_view.hpp>
#include <gpufs/io/lane_access.hpp>
#include <gpufs/warp.hpp>

#include <cerrno>
#include <cstdint>
#include <type_traits>

namespace gpufs {

/// A thread's pointer to elements of a file, made by array::pointer(). The page that it was last
/// read through stays pinned until it is read through on another page, or ends: elements of one
/// page cost one look-up, whatever their number (the held references of paper 003, section 4.2).
/// Each lane holds one page at most, and lets go of it before it looks for another; lanes that come
/// together for pages of their own keep those that are there while the others wait. A kernel whose
/// pointers hold all frames gets -ENOMEM, and so may one whose threads access an array, or call the
/// file API, while they hold the last frames: release() first. A copy points to the same element
/// and holds nothing. Errors as for array: T{} is read, and error() gives the first. A held page of
/// a file that others gftruncate stays what it was.
template <class T>
class mapped_ptr {
 public:
  using value_type = std::remove_const_t<T>;
  static_assert(std::is_const_v<T>, "store through array<T>");

  __device__ mapped_ptr(detail::file_view const& view, std::uint64_t index)
      : view_(view), index_(index) {}
  __device__ mapped_ptr(mapped_ptr const& other) : mapped_ptr(other.view_, other.index_) {}
  mapped_ptr& operator=(mapped_ptr const&) = delete;
  __device__ ~mapped_ptr() { release(); }

  /// The element pointed to, or the one `n` further.
  [[nodiscard]] __device__ __forceinline__ value_type operator*() const { return (*this)[0]; }
  [[nodiscard]] __device__ __forceinline__ value_type operator[](std::int64_t n) const {
    std::uint64_t const i = index_ + static_cast<std::uint64_t>(n);
    std::uint64_t const number = i - elements_.first;
    if (number < elements_.count) return elements_.at(number);
    return read_elsewhere(i);
  }

  __device__ mapped_ptr& operator+=(std::int64_t n) {
    index_ += static_cast<std::uint64_t>(n);
    return *this;
  }
  __device__ mapped_ptr& operator-=(std::int64_t n) { return *this += -n; }
  __device__ mapped_ptr& operator++() { return *this += 1; }
  __device__ mapped_ptr& operator--() { return *this += -1; }

  /// Number of the element in the array.
  [[nodiscard]] __device__ std::uint64_t index() const { return index_; }
  [[nodiscard]] __device__ int error() const { return view_.error; }

  /// Lets go of the page.
  __device__ __forceinline__ void release() const {
    if (header_ == nullptr) return;
    far_call<void, frame_header*>(let_go, header_);
    header_ = nullptr;
    elements_ = {};
  }

 private:
  using elements = detail::held_elements<T>;
  struct found {
    value_type value;
    elements held;                   ///< of the page that is pinned now
    frame_header* header = nullptr;  ///< of its frame; null: none is
  };

  __device__ __forceinline__ value_type read_elsewhere(std::uint64_t i) const {
    detail::file_view view = view_;  // a copy, so that the rest can stay in registers
    found const f =
        far_call<found, detail::file_view*, frame_header*, std::uint64_t>(find, &view, header_, i);
    view_ = view;
    header_ = f.header;
    elements_ = f.held;
    return f.value;
  }

  GPUFS_STAGE static void let_go(frame_header* header) {
    detail::release_pins(converged(), *header);
  }

  /// Exchanges the page `held` by the caller, if any, for element i's, and reads it.
  GPUFS_STAGE static found find(detail::file_view* view, frame_header* held, std::uint64_t i) {
    if (held != nullptr) let_go(held);
    seen_frame seen;
    detail::page_elements here;
    if (detail::see_elements<T>(*view->handle, view->file, view->begin, view->size, i, seen, here,
                                see_page_further) &&
        detail::pin_seen(*view->handle, seen)) {
      elements const there{seen.bytes + here.offset, here.first,
                           static_cast<std::uint32_t>(here.count)};
      if (i - there.first < there.count) return {there.at(i - there.first), there, seen.header};
      let_go(seen.header);
    }
    if (i < view->size) return find_in_file(view, i);
    view->note(-ERANGE);
    return {};
  }

  /// The same for an element whose page is not in the cache, or is one of a file that is written.
  /// An element that straddles two pages is read without holding either.
  GPUFS_STAGE static found find_in_file(detail::file_view* view, std::uint64_t i) {
    page_cache_ref const& cache = view->handle->cache;
    std::uint64_t const at = view->begin + i * sizeof(T);
    std::uint64_t const page_begin = at >> cache.page_shift << cache.page_shift;
    if (at - page_begin + sizeof(T) > std::uint64_t{1} << cache.page_shift) {
      auto const loaded = detail::load_element<value_type>(view->handle, view->file, view->slot, at,
                                                           view->writable);
      view->file = loaded.file;
      view->note(loaded.error);
      return {loaded.value, {}, nullptr};
    }
    auto const kept = detail::keep_page(view->handle, view->file, view->slot,
                                        at >> cache.page_shift, view->writable);
    view->file = kept.file;
    view->note(kept.error);
    if (kept.error != 0) return {};
    frame_header* const header = &cache.headers[kept.frame];
    auto const here = detail::elements_of<T>(view->begin, view->size, page_begin, kept.valid);
    elements const held{frame_bytes(cache, kept.frame) + here.offset, here.first,
                        static_cast<std::uint32_t>(here.count)};
    if (i - held.first < held.count) return {held.at(i - held.first), held, header};
    view->note(-EIO);  // the file has become shorter
    return {{}, held, header};
  }

  mutable detail::file_view view_;
  std::uint64_t index_;
  mutable elements elements_;
  mutable frame_header* header_ = nullptr;  ///< of the frame that is held
};

}  // namespace gpufs
