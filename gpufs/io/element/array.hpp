// The bodies of gpufs::array: loads from a kept page, from a seen page, from the file.
#pragma once

#include <gpufs/array.hpp>
#include <gpufs/base/warp.hpp>
#include <gpufs/cache/peek.hpp>
#include <gpufs/io.hpp>
#include <gpufs/io/element/alone.hpp>
#include <gpufs/io/element/element.hpp>
#include <gpufs/io/element/file_view.hpp>
#include <gpufs/io/element/kept.hpp>
#include <gpufs/io/element/lane_add.hpp>
#include <gpufs/io/element/lane_prefetch.hpp>
#include <gpufs/io/element/straight.hpp>

#include <cerrno>
#include <cstdint>
#include <type_traits>

#include <fcntl.h>

namespace gpufs {

template <class T>
__device__ array_element<T> const& array_element<T>::operator=(T const& value) const {
  array_.store(i_, value);
  return *this;
}

template <class T>
__device__ array_element<T> const& array_element<T>::operator=(array_element const& other) const {
  return *this = static_cast<T>(other);
}

template <class T>
template <class Group>
__device__ array<T>::array(io_context<Group>& io, int fd, std::int64_t offset, std::uint64_t count,
                           write_policy policy) {
  view_.handle = io.fs().self;
  view_.seat = io.seat();
  view_.writable = writable;
  view_.through = writable && policy == write_policy::through;
  if (io_context<Group>::ops::warps(io.group()) == 0) {
    view_.error = -EINVAL;
    return;
  }
  view_.error = io::use_file(io, fd);
  if (view_.error != 0) return;
  view_.file = io.file();
  std::uint64_t const access = view_.file.flags & O_ACCMODE;
  if (access == O_WRONLY || (writable && (access != O_RDWR || view_.file.write_index == 0))) {
    view_.error = -EACCES;
    return;
  }
  auto const begin = static_cast<std::uint64_t>(offset);
  std::uint64_t const there = begin < view_.file.size ? (view_.file.size - begin) / sizeof(T) : 0;
  std::uint64_t const most =
      writable ? (begin <= rpc::payload_mask ? (rpc::payload_mask - begin) / sizeof(T) : 0) : there;
  if (count == to_the_end) count = there;
  if (offset < 0 || begin % alignof(T) != 0 || count > most) {
    view_.error = -EINVAL;
    return;
  }
  view_.begin = begin;
  view_.size = count;
}

template <class T>
__device__ array<T>& array<T>::operator=(array const& other) {
  if (this == &other) return *this;
  release();
  take_over(other);
  return *this;
}

template <class T>
__device__ auto array<T>::operator[](std::uint64_t i) const {
  if constexpr (writable) {
    return array_element<T>(*this, i);
  } else {
    return load(i);
  }
}

template <class T>
__device__ __forceinline__ auto array<T>::load(std::uint64_t i) const -> value_type {
  std::uint64_t const number = i - elements_.first;
  if (number < elements_.count) return elements_.at(number);
  return load_elsewhere(i);
}

template <class T>
__device__ __forceinline__ void array<T>::store(std::uint64_t i, value_type const& value) const {
  static_assert(writable, "array<T const> cannot be stored to");
  if (i >= view_.size) {
    view_.note(-ERANGE);
    return;
  }
  io::element_access const done =
      io::store_element<T>(view_.handle, view_.file, view_.seat, view_.begin + i * sizeof(T), value,
                           view_.template written_through<T>());
  view_.file = done.file;
  view_.note(done.error);
}

template <class T>
__device__ __forceinline__ auto array<T>::fetch_add(std::uint64_t i, value_type value) const
    -> value_type {
  static_assert(writable, "array<T const> cannot be added to");
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                "fetch_add is for integers, float and double of 4 or 8 bytes");
  static_assert(alignof(T) == sizeof(T));  // so no element straddles pages
  if (i >= view_.size) {
    view_.note(-ERANGE);
    return {};
  }
  auto const done =
      io::add_to_element<T>(view_.handle, view_.file, view_.seat, view_.begin + i * sizeof(T),
                            value, view_.template written_through<T>());
  view_.file = done.file;
  view_.note(done.error);
  return done.value;
}

template <class T>
__device__ __forceinline__ void array<T>::prefetch(std::uint64_t i, std::uint64_t n) const {
  if (i >= view_.size) return;
  std::uint64_t const begin = view_.begin + i * sizeof(T);
  io::prefetch_bytes(view_.handle, view_.file, view_.seat, begin,
                     begin + base::least(n, view_.size - i) * sizeof(T));
}

template <class T>
__device__ __forceinline__ void array<T>::release() const {
  seen_.count = 0;
  unkeep();
}

/// Gives back the page that is kept for this thread, if any.
template <class T>
__device__ __forceinline__ void array<T>::unkeep() const {
  if (elements_.count == 0) return;
  base::far_call<io::unkeep>(view_.handle, seen_.header);
  elements_.count = 0;
}

template <class T>
__device__ auto array<T>::pointer(std::uint64_t i) const -> held_ptr<value_type const> {
  return held_ptr<value_type const>(view_, i);
}

template <class T>
__device__ auto array<T>::writer(std::uint64_t i) const -> held_writer<value_type> {
  static_assert(writable, "array<T const> cannot be stored to");
  return held_writer<value_type>(view_, i);
}

/// Element i, which is not on a kept page: from the page seen last, from another page in the cache,
/// or from the file.
template <class T>
__device__ __forceinline__ auto array<T>::load_elsewhere(std::uint64_t i) const -> value_type {
  value_type value;
  if (load_seen(i, value)) {
    if (keep()) elements_.count = seen_.count;
    return value;
  }
  unkeep();
  if (see(i) && load_seen(i, value)) return value;
  return load_from_file(i);
}

/// Loads element i from the page seen last. False if it lies elsewhere, or if the frame has changed
/// since.
template <class T>
__device__ __forceinline__ bool array<T>::load_seen(std::uint64_t i, value_type& value) const {
  std::uint64_t const number = i - elements_.first;
  if (number >= seen_.count) return false;
  std::uint32_t mark = 0;
  value = cache::load_now<value_type>(elements_.base + number * sizeof(T), mark);
  return cache::still_there(seen_.header, seen_.state, mark);
}

/// Finds element i's page in the cache, for load_seen().
template <class T>
__device__ __forceinline__ bool array<T>::see(std::uint64_t i) const {
  cache::seen_frame found;
  io::page_elements here;
  auto const further = [](handle::page_cache_ref const* cache, std::uint64_t version,
                          std::uint64_t page) {
    return base::far_call<cache::see_page_further>(cache, version, page);
  };
  if (!io::see_elements<T>(*view_.handle, view_.file, view_.begin, view_.size, i, found, here,
                           further))
    return false;
  elements_ = {found.bytes + here.offset, here.first, 0};
  seen_ = {found.header, found.state, static_cast<std::uint32_t>(here.count)};
  return true;
}

/// Pins the page seen last if all lanes of the warp have returned to it.
template <class T>
__device__ __forceinline__ bool array<T>::keep() const {
  if (converged().mask() != base::all_lanes) return false;
  auto const header = reinterpret_cast<std::uintptr_t>(seen_.header);
  if (__all_sync(
          base::all_lanes,
          header == __shfl_sync(base::all_lanes, static_cast<unsigned long long>(header), 0)) == 0)
    return false;
  return base::far_call<io::keep_seen>(view_.handle, seen_.header, seen_.state);
}

template <class T>
__device__ __forceinline__ auto array<T>::load_from_file(std::uint64_t i) const -> value_type {
  if (i >= view_.size) {
    view_.note(-ERANGE);
    return {};
  }
  io::file_view view = view_;  // a copy, so that the rest can stay in registers
  value_type const value = base::far_call<load_missed>(&view, i);
  if (view.file.version != view_.file.version)
    seen_.count = 0;  // a newer version is read from now on
  view_ = view;
  return value;
}

template <class T>
GPUFS_STAGE auto array<T>::load_missed(io::file_view* view, std::uint64_t i) -> value_type {
  std::uint64_t const at = view->begin + i * sizeof(T);
  if constexpr (sizeof(T) <= io::most_straight_bytes) {
    fs_ref const& fs = *view->handle;
    value_type value;
    if (io::may_go_without_page(fs, view->file, at, sizeof(T))) {
      io::element_way const way = io::load_straight(fs, view->file, at, value);
      if (way == io::element_way::window) return value;
      if (way == io::element_way::nowhere && io::load_alone(fs, view->file, at, value))
        return value;
    }
  }
  auto const loaded =
      io::load_element<value_type>(view->handle, view->file, view->seat, at, view->writable);
  view->file = loaded.file;
  view->note(loaded.error);
  return loaded.value;
}

template <class T>
__device__ void array<T>::take_over(array const& other) {
  view_ = other.view_;
  elements_ = {};
  seen_ = {};
}

}  // namespace gpufs
