// The bodies of gpufs::held_writer: stores within the held page, posts, the exchange of that page.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/handle/counters.hpp>
#include <gpufs/held_writer.hpp>
#include <gpufs/io/element/element.hpp>
#include <gpufs/io/element/file_view.hpp>
#include <gpufs/io/element/lane_access.hpp>
#include <gpufs/io/element/post_held.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace gpufs {

template <class T>
__device__ held_element<T> const& held_element<T>::operator=(T const& value) const {
  pointer_.store(n_, value);
  return *this;
}

template <class T>
__device__ held_element<T> const& held_element<T>::operator=(held_element const& other) const {
  return *this = static_cast<T>(other);
}

template <class T>
__device__ __forceinline__ void held_writer<T>::store(std::int64_t n, T const& value) const {
  std::uint64_t const i = index_ + static_cast<std::uint64_t>(n);
  if (put(i, value)) return;
  move_to(i);
  if (put(i, value) || !straddles(i)) return;
  io::file_view view = view_;
  base::far_call<store_parts>(&view, i, &value);
  view_ = view;
}

template <class T>
__device__ __forceinline__ T held_writer<T>::load(std::int64_t n) const {
  std::uint64_t const i = index_ + static_cast<std::uint64_t>(n);
  if (i - hold_.page.first >= hold_.page.count) move_to(i);
  std::uint64_t const number = i - hold_.page.first;
  if (number < hold_.page.count) return hold_.page.at(number);
  if (!straddles(i)) return {};
  io::file_view view = view_;
  T const value = base::far_call<load_parts>(&view, i);
  view_ = view;
  return value;
}

template <class T>
__device__ held_writer<T>& held_writer<T>::operator+=(std::int64_t n) {
  index_ += static_cast<std::uint64_t>(n);
  return *this;
}

template <class T>
__device__ __forceinline__ int held_writer<T>::flush() const {
  if (hold_.stored == hold_.end) return 0;
  io::file_view view = view_;
  flushed const f = base::far_call<post_and_keep>(&view, hold_);
  view_ = view;
  hold_ = f.now;
  return f.error;
}

template <class T>
__device__ __forceinline__ void held_writer<T>::release() const {
  if (hold_.header == nullptr) return;
  io::file_view view = view_;
  base::far_call<let_go>(&view, hold_);
  view_ = view;
  hold_ = {};
}

/// Stores element i if it lies on the held page, within or beside the elements that were stored.
template <class T>
__device__ __forceinline__ bool held_writer<T>::put(std::uint64_t i, T const& value) const {
  std::uint64_t const n = i - hold_.page.first;
  if (n >= hold_.page.count) return false;
  auto const number = static_cast<std::uint32_t>(n);
  std::uint32_t stored = hold_.stored;
  std::uint32_t end = hold_.end;
  if (stored == end) stored = end = number;  // the first one
  if (number == end) {
    ++end;
  } else if (number + 1 == stored) {
    --stored;
  } else if (number < stored || number > end) {
    return false;
  }
  auto* const at = const_cast<std::byte*>(hold_.page.base) + n * sizeof(T);
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(at));
#endif
  *reinterpret_cast<T*>(at) = value;
  hold_.stored = stored;
  hold_.end = end;
  return true;
}

/// Posts what was stored. Then holds element i's page, if the element lies in one.
template <class T>
__device__ __forceinline__ void held_writer<T>::move_to(std::uint64_t i) const {
  io::file_view view = view_;  // a copy, so that the rest can stay in registers
  hold_ = base::far_call<find>(&view, hold_, i);
  view_ = view;
}

/// Whether the view has element i, and it crosses the end of a page.
template <class T>
__device__ __forceinline__ bool held_writer<T>::straddles(std::uint64_t i) const {
  std::uint64_t const page_bytes = std::uint64_t{1} << view_.handle->cache.page_shift;
  std::uint64_t const in_page = (view_.begin + i * sizeof(T)) & (page_bytes - 1);
  return i < view_.size && in_page + sizeof(T) > page_bytes;
}

/// Posts what was stored. Any thread calls. Returns 0 or the error, which it notes.
template <class T>
GPUFS_STAGE std::int32_t held_writer<T>::post(io::file_view* view, hold const* held) {
  if (held->stored == held->end) return 0;
  std::uint64_t const at = view->begin + (held->page.first + held->stored) * sizeof(T);
  std::uint32_t const shift = view->handle->cache.page_shift;
  io::stored_bytes const bytes{held->page.base + std::uint64_t{held->stored} * sizeof(T),
                               at >> shift,
                               static_cast<std::uint32_t>(at & ((std::uint64_t{1} << shift) - 1)),
                               static_cast<std::uint32_t>((held->end - held->stored) * sizeof(T))};
  io::element_access const done = io::post_held(view->handle, view->file, view->seat, bytes,
                                                view->template written_through<T>());
  view->file = done.file;
  view->note(done.error);
  return done.error;
}

/// Posts what was stored, or counts that it is not written, and gives the page back.
template <class T>
GPUFS_STAGE void held_writer<T>::let_go(io::file_view* view, hold const held) {
  if (post(view, &held) != 0)
    handle::add(*view->handle, handle::counter::bytes_unposted,
                (held.end - held.stored) * sizeof(T));
  io::release_written_pin(*held.header);
}

/// Posts what was stored. Keeps the page for a next try, or if it is still the file's.
template <class T>
GPUFS_STAGE auto held_writer<T>::post_and_keep(io::file_view* view, hold const held) -> flushed {
  std::int32_t const error = post(view, &held);
  if (error != 0) return {held, error};
  std::uint64_t const page =
      (view->begin + held.page.first * sizeof(T)) >> view->handle->cache.page_shift;
  if (cache::names(*held.header, view->file.version, page))
    return {{held.page, held.header, 0, 0}, 0};
  io::release_written_pin(*held.header);
  return {{}, 0};
}

/// Lets the held page go, if it is not element i's, and holds that one.
template <class T>
GPUFS_STAGE auto held_writer<T>::find(io::file_view* view, hold const held, std::uint64_t i)
    -> hold {
  handle::page_cache_ref const& cache = view->handle->cache;
  std::uint64_t const at = view->begin + i * sizeof(T);
  std::uint64_t const page = at >> cache.page_shift;
  std::uint64_t const page_begin = page << cache.page_shift;
  if (held.header != nullptr) {
    if (i - held.page.first < held.page.count) {
      flushed const same = post_and_keep(view, held);
      if (same.error == 0 && same.now.header != nullptr) return same.now;
      if (same.error != 0) {
        handle::add(*view->handle, handle::counter::bytes_unposted,
                    (held.end - held.stored) * sizeof(T));
        return {held.page, held.header, 0, 0};
      }
    } else {
      let_go(view, held);
    }
  }
  if (i >= view->size) {
    view->note(-ERANGE);
    return {};
  }
  if (at - page_begin + sizeof(T) > std::uint64_t{1} << cache.page_shift) return {};
  auto const now = io::hold_page(view->handle, view->file, view->seat, page, true);
  view->file = now.file;
  view->note(now.error);
  if (now.error != 0) return {};
  auto const here = io::elements_of<T>(view->begin, view->size, page_begin, now.valid);
  if (i - here.first >= here.count) view->note(-EIO);  // a written page has all its bytes
  return {{cache::frame_bytes(cache, now.frame) + here.offset, here.first,
           static_cast<std::uint32_t>(here.count)},
          &cache.headers[now.frame],
          0,
          0};
}

template <class T>
GPUFS_STAGE void held_writer<T>::store_parts(io::file_view* view, std::uint64_t i, T const* value) {
  io::element_access const done =
      io::store_element<T>(view->handle, view->file, view->seat, view->begin + i * sizeof(T),
                           *value, view->template written_through<T>());
  view->file = done.file;
  view->note(done.error);
}

template <class T>
GPUFS_STAGE T held_writer<T>::load_parts(io::file_view* view, std::uint64_t i) {
  auto const loaded =
      io::load_element<T>(view->handle, view->file, view->seat, view->begin + i * sizeof(T), true);
  view->file = loaded.file;
  view->note(loaded.error);
  return loaded.value;
}

}  // namespace gpufs
