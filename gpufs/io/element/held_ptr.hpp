// The bodies of gpufs::held_ptr: reads within the held page, and the exchange of that page.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/cache/peek.hpp>
#include <gpufs/held_ptr.hpp>
#include <gpufs/io/element/element.hpp>
#include <gpufs/io/element/file_view.hpp>
#include <gpufs/io/element/lane_access.hpp>
#include <gpufs/io/element/lane_gate.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

template <class T>
__device__ __forceinline__ auto held_ptr<T>::operator[](std::int64_t n) const -> value_type {
  std::uint64_t const i = index_ + static_cast<std::uint64_t>(n);
  std::uint64_t const number = i - elements_.first;
  if (number < elements_.count) return elements_.at(number);
  return read_elsewhere(i);
}

template <class T>
__device__ held_ptr<T>& held_ptr<T>::operator+=(std::int64_t n) {
  index_ += static_cast<std::uint64_t>(n);
  return *this;
}

template <class T>
__device__ __forceinline__ void held_ptr<T>::release() const {
  if (header_ == nullptr) return;
  base::far_call<let_go>(header_);
  header_ = nullptr;
  elements_ = {};
}

/// Element i, which is not on the held page. Holds its page from now on.
template <class T>
__device__ __forceinline__ auto held_ptr<T>::read_elsewhere(std::uint64_t i) const -> value_type {
  io::file_view view = view_;  // a copy, so that the rest can stay in registers
  found const f = base::far_call<find>(&view, header_, i);
  view_ = view;
  header_ = f.header;
  elements_ = f.held;
  return f.value;
}

template <class T>
GPUFS_STAGE void held_ptr<T>::let_go(cache::frame_header* header) {
  static_cast<void>(io::release_pin(*header));
}

/// Pins the page of element i, and reads that, if all lanes of the group see theirs in the cache.
/// If one does not, all look for theirs together: a lane that holds its page already could keep the
/// frame for which another one waits. No header: nothing is pinned. All lanes of the group call.
template <class T>
__device__ __forceinline__ auto held_ptr<T>::find_seen(converged_group const& g,
                                                       io::file_view const& view, std::uint64_t i)
    -> found {
  cache::seen_frame seen;
  io::page_elements here;
  bool const saw =
      io::see_elements<T>(*view.handle, view.file, view.begin, view.size, i, seen, here);
  // The answers are the group's, so all lanes come to the second one.
  if (!g.all(saw) || !io::pin_seen(g, *view.handle, view.file.fd, seen)) return {};
  elements const there{seen.bytes + here.offset, here.first,
                       static_cast<std::uint32_t>(here.count)};
  if (i - there.first < there.count) return {there.at(i - there.first), there, seen.header};
  cache::unpin_read(*seen.header);
  return {};
}

/// Gives back the page `held` by the caller, if any, then pins and reads element i's.
template <class T>
GPUFS_STAGE auto held_ptr<T>::find(io::file_view* view, cache::frame_header* held, std::uint64_t i)
    -> found {
  if (held != nullptr) let_go(held);
  if (i >= view->size) {
    view->note(-ERANGE);
    return {};
  }
  found f;
  {
    io::lane_gate<held_ptr<T>> const gate(view->handle, view->file.fd);
    f = find_seen(gate.group(), *view, i);
  }
  return f.header != nullptr ? f : find_in_file(view, i);
}

/// find() for a page that is not in the cache, or a file that is written. An element that straddles
/// two pages is read without holding either.
template <class T>
GPUFS_STAGE auto held_ptr<T>::find_in_file(io::file_view* view, std::uint64_t i) -> found {
  handle::page_cache_ref const& cache = view->handle->cache;
  std::uint64_t const at = view->begin + i * sizeof(T);
  std::uint64_t const page_begin = at >> cache.page_shift << cache.page_shift;
  if (at - page_begin + sizeof(T) > std::uint64_t{1} << cache.page_shift) {
    auto const loaded =
        io::load_element<value_type>(view->handle, view->file, view->seat, at, view->writable);
    view->file = loaded.file;
    view->note(loaded.error);
    return {loaded.value, {}, nullptr};
  }
  auto const page =
      io::hold_page(view->handle, view->file, view->seat, at >> cache.page_shift, view->writable);
  view->file = page.file;
  view->note(page.error);
  if (page.error != 0) return {};
  cache::frame_header* const header = &cache.headers[page.frame];
  auto const here = io::elements_of<T>(view->begin, view->size, page_begin, page.valid);
  elements const held{cache::frame_bytes(cache, page.frame) + here.offset, here.first,
                      static_cast<std::uint32_t>(here.count)};
  if (i - held.first < held.count) return {held.at(i - held.first), held, header};
  view->note(-EIO);  // the file has become shorter
  return {{}, held, header};
}

}  // namespace gpufs
