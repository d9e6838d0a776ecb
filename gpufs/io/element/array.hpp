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
#include <gpufs/io/element/looks.hpp>
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
  if (elements_.count != 0) base::far_call<io::unkeep>(view_.handle, elements_.base);
  elements_.count = 0;
  seen_.count = 0;
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

// The look-up in the cache is inlined. A function would save registers on the stack, and that costs
// a random look-up a quarter of its rate. The rest is out of line, and the array is in memory. So a
// loop around a[i] has no more in registers than a kept page, and the elements that it has asked
// for. If there are not enough registers for these, the loop waits for each element, to put it on
// the stack.

/// Element i, which is not on a kept page.
template <class T>
__device__ __forceinline__ auto array<T>::load_elsewhere(std::uint64_t i) const -> value_type {
  found f;
  if (i - elements_.first < seen_.count) {
    f = base::far_call<load_again>(this, i);
  } else {
    if (elements_.count != 0) base::far_call<io::unkeep>(view_.handle, elements_.base);
    f = find(i, io::near_look{});
  }
  if (!f.there) f = base::far_call<load_far>(this, i);
  elements_ = f.elements;  // the calls do not store them: held_elements says why
  return f.value;
}

/// Element i of the page seen last. Keeps the page if all lanes of the warp have returned to it. If
/// the frame has changed since, looks for the page.
template <class T>
GPUFS_STAGE auto array<T>::load_again(array const* self, std::uint64_t i) -> found {
  found f;
  f.elements = self->elements_;
  f.there = true;
  std::uint64_t const number = i - f.elements.first;
  cache::frame_header* const header = cache::header_of(self->view_.handle->cache, f.elements.base);
  std::uint64_t const state = cache::ready_state(self->seen_.generation);
  if (converged().mask() == base::all_lanes) {
    if (io::keep_seen(*self->view_.handle, header, state)) {
      f.elements.count = self->seen_.count;
      f.value = f.elements.at(number);
      return f;
    }
  }
  std::uint32_t mark = 0;
  f.value = cache::load_now<value_type>(f.elements.base + number * sizeof(T), mark);
  return cache::still_there(header, state, mark) ? f : self->find(i, io::near_look{});
}

/// Element i from a page that is far from its home in the page table, or from the file.
template <class T>
GPUFS_STAGE auto array<T>::load_far(array const* self, std::uint64_t i) -> found {
  found f = self->find(i, io::far_look{});
  if (!f.there) {
    f.elements = {self->elements_.base, self->elements_.first, 0};
    f.value = self->load_from_file(i);
  }
  return f;
}

/// Loads element i if `see` finds its page: near_look or far_look. No page is kept. Finds nothing
/// in a file that is written: each access to it may find another version.
template <class T>
template <class See>
__device__ __forceinline__ auto array<T>::find(std::uint64_t i, See&& see) const -> found {
  found f;
  f.there = false;
  if (i >= view_.size || view_.file.write_index != 0) return f;
  fs_ref const& fs = *view_.handle;
  unsigned const page_shift = fs.cache.page_shift;
  // Under way with the loads of the look-up, so that it costs no trip of its own.
  std::uint32_t const changes = file::file_changes(fs).load(memory_order_relaxed);
  std::uint64_t const at = view_.begin + i * sizeof(T);
  std::uint64_t const page = at >> page_shift;
  std::uint64_t const in_page = at - (page << page_shift);
  std::uint32_t mark = 0;
  // The same: under way with the loads of the page's name.
  auto const load_early = [&](std::byte const* bytes) {
    if (in_page + sizeof(T) <= std::uint64_t{1} << page_shift)
      f.value = cache::load_now<value_type>(bytes + in_page, mark);
  };
  cache::seen_frame seen;
  if (!see(fs, view_.file.version, page, seen, load_early) || changes != view_.file.changes ||
      in_page + sizeof(T) > seen.valid) {
    // No load may be under way where the look-up ends. Else the next element that a loop asks for
    // waits for this one: ptxas lets both wait by one scoreboard.
    base::await_loads(mark | changes);
    return f;
  }
  if (!cache::still_there(seen.header, seen.state, mark)) return f;
  auto const here = io::elements_of<T>(view_.begin, view_.size, page << page_shift, seen.valid);
  f.elements = {seen.bytes + here.offset, here.first, 0};
  f.there = true;
  seen_ = {static_cast<std::uint32_t>(here.count), cache::generation_of(seen.state)};
  return f;
}

template <class T>
__device__ __forceinline__ auto array<T>::load_from_file(std::uint64_t i) const -> value_type {
  if (i >= view_.size) {
    view_.note(-ERANGE);
    return {};
  }
  std::uint64_t const version = view_.file.version;
  std::uint64_t const at = view_.begin + i * sizeof(T);
  if constexpr (sizeof(T) <= io::most_straight_bytes) {
    fs_ref const& fs = *view_.handle;
    value_type value;
    if (io::may_go_without_page(fs, view_.file, at, sizeof(T))) {
      io::element_way const way = io::load_straight(fs, view_.file, at, value);
      if (way == io::element_way::window) return value;
      if (way == io::element_way::nowhere && io::load_alone(fs, view_.file, at, value))
        return value;
    }
  }
  auto const loaded =
      io::load_element<value_type>(view_.handle, view_.file, view_.seat, at, view_.writable);
  view_.file = loaded.file;
  view_.note(loaded.error);
  if (view_.file.version != version) seen_.count = 0;  // a newer version is read from now on
  return loaded.value;
}

template <class T>
__device__ void array<T>::take_over(array const& other) {
  view_ = other.view_;
  elements_ = {};
  seen_ = {};
}

}  // namespace gpufs
