// The bodies of gpufs::held_ptr: reads within the held page, and the exchange of that page.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/cache/peek.hpp>
#include <gpufs/held_ptr.hpp>
#include <gpufs/io/element/element.hpp>
#include <gpufs/io/element/file_view.hpp>
#include <gpufs/io/element/lane_access.hpp>

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
  base::far_call<void, cache::frame_header*>(let_go, header_);
  header_ = nullptr;
  elements_ = {};
}

/// Element i, which is not on the held page. Holds its page from now on.
template <class T>
__device__ __forceinline__ auto held_ptr<T>::read_elsewhere(std::uint64_t i) const -> value_type {
  io::file_view view = view_;  // a copy, so that the rest can stay in registers
  found const f = base::far_call<found, io::file_view*, cache::frame_header*, std::uint64_t>(
      find, &view, header_, i);
  view_ = view;
  header_ = f.header;
  elements_ = f.held;
  return f.value;
}

template <class T>
GPUFS_STAGE void held_ptr<T>::let_go(cache::frame_header* header) {
  io::release_pins(converged(), *header);
}

// Problem: on the GPU a call saves the convergence barriers of its caller, clears them, and
//   restores them at its end. If lanes of one region of the caller make a call one after the other,
//   and the first of them waits inside, the later ones save what has been cleared, and restore
//   that. Lanes that wait at the region's end then wait for ever.
// Trick: lanes that come together stay together. Their set is taken once, at the beginning. They
//   meet before each call, so that the lanes that need it make it at the same time. Those that do
//   not need it wait for them behind it.

/// Gives back the page `held` by the caller, if any, then pins and reads element i's. If a lane
/// that comes along has not seen its page, all lanes look for theirs together: a lane that holds
/// its page already could keep the frame for which another one waits.
template <class T>
GPUFS_STAGE auto held_ptr<T>::find(io::file_view* view, cache::frame_header* held, std::uint64_t i)
    -> found {
  converged_group const g = converged();
  unsigned const holders = __ballot_sync(g.mask(), held != nullptr);
  if (held != nullptr) io::release_pins(converged_group(holders), *held);
  g.sync();
  cache::seen_frame seen;
  io::page_elements here;
  bool const saw = io::see_elements<T>(*view->handle, view->file, view->begin, view->size, i, seen,
                                       here, cache::see_page_further);
  g.sync();
  found result{};
  bool is_found = false;
  if (g.all(saw)) {
    bool const pinned = io::pin_seen(g, *view->handle, seen);
    elements const there{seen.bytes + here.offset, here.first,
                         static_cast<std::uint32_t>(here.count)};
    is_found = pinned && i - there.first < there.count;
    if (is_found) result = {there.at(i - there.first), there, seen.header};
    unsigned const useless = __ballot_sync(g.mask(), pinned && !is_found);
    if (pinned && !is_found) io::release_pins(converged_group(useless), *seen.header);
  }
  bool const is_there = i < view->size;
  unsigned const rest = __ballot_sync(g.mask(), !is_found && is_there);
  if (!is_found && is_there) result = find_in_file(view, i, rest);
  if (!is_there) view->note(-ERANGE);
  g.sync();
  return result;
}

/// find() for a page that is not in the cache, or a file that is written. An element that straddles
/// two pages is read without holding either. All of `lanes` call.
template <class T>
GPUFS_STAGE auto held_ptr<T>::find_in_file(io::file_view* view, std::uint64_t i, unsigned lanes)
    -> found {
  handle::page_cache_ref const& cache = view->handle->cache;
  std::uint64_t const at = view->begin + i * sizeof(T);
  std::uint64_t const page_begin = at >> cache.page_shift << cache.page_shift;
  bool const straddles = at - page_begin + sizeof(T) > std::uint64_t{1} << cache.page_shift;
  unsigned const straddling = __ballot_sync(lanes, straddles);
  found result{};
  if (straddles) {
    auto const loaded =
        io::load_element<value_type>(view->handle, view->file, view->seat, at, view->writable);
    view->file = loaded.file;
    view->note(loaded.error);
    result = {loaded.value, {}, nullptr};
  }
  __syncwarp(lanes);
  if (straddles) return result;
  auto const page = io::hold_page(view->handle, view->file, view->seat, at >> cache.page_shift,
                                  view->writable, lanes & ~straddling);
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
