// gpufs::mapped_ptr<T const>: a pointer into a gpufs::array that holds its page.
#pragma once

#include <gpufs/io/element.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpufs {

/// A thread's pointer to elements of a file, made by array::pointer(). The page that it was last read through stays pinned until it is
/// read through on another page, or ends: elements of one page cost one look-up, whatever their number (the held references of
/// paper 003, section 4.2). Each lane holds one page at most, and lets go of it before it looks for another; lanes that come together for pages of their own
/// keep those that are there while the others wait. A kernel whose pointers hold all frames
/// gets -ENOMEM, and so may one whose threads access an array, or call the file API, while they hold the last frames: release() first. A copy points to the same element and holds nothing. Errors as for array: T{} is read, and error() gives the first. A held page of
/// a file that others gftruncate stays what it was.
template <class T>
class mapped_ptr {
 public:
  using value_type = std::remove_const_t<T>;
  static_assert(std::is_const_v<T>, "store through array<T>");

  /// Which part of a file an array views: `size` elements from byte `begin` on. `beyond_end`: what the file does not have are zeros.
  struct view {
    std::uint64_t begin;
    std::uint64_t size;
    bool beyond_end;
  };

  __device__ mapped_ptr(fs_ref const* handle, used_file const& file, std::int32_t slot, view const& of, std::uint64_t index,
                        std::int32_t error)
      : handle_(handle), file_(file), slot_(slot), view_(of), index_(index), error_(error) {}
  __device__ mapped_ptr(mapped_ptr const& other)
      : mapped_ptr(other.handle_, other.file_, other.slot_, other.view_, other.index_, other.error_) {}
  mapped_ptr& operator=(mapped_ptr const&) = delete;
  __device__ ~mapped_ptr() { release(); }

  /// The element pointed to, or the one `n` further.
  [[nodiscard]] __device__ __forceinline__ value_type operator*() const { return (*this)[0]; }
  [[nodiscard]] __device__ __forceinline__ value_type operator[](std::int64_t n) const {
    std::uint64_t const i = index_ + static_cast<std::uint64_t>(n);
    if (i - held_.first < held_.count) return held_.base[i - held_.first];
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
  [[nodiscard]] __device__ int error() const { return error_; }

  /// Lets go of the page.
  __device__ void release() const {
    if (held_.frame == no_frame) return;
    detail::release_pins(handle_->cache.headers[held_.frame]);
    held_ = {};
  }

 private:
  static constexpr std::uint32_t no_frame = 0xffffffffu;

  /// Elements [first, first + count) of the array lie in the held page, from `base` on.
  struct held_page {
    value_type const* base = nullptr;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::uint32_t frame = no_frame;
  };

  /// All that a pointer has, so that the hot path can keep its own in registers: reads element i of it.
  struct move {
    fs_ref const* handle;
    used_file file;
    std::int32_t slot;
    view of;
    std::uint64_t i;
    held_page held;
    std::int32_t error;
  };

  /// Exchanges the held page for element i's, if that is in the cache and the file is not written. Returns whether the element can be read now.
  __device__ __forceinline__ bool hold_cached(std::uint64_t i) const {
    release();
    seen_frame seen;
    detail::page_elements here;
    if (!detail::see_elements<T>(*handle_, file_, view_.begin, view_.size, i, seen, here)) return false;
    if (!detail::pin_seen(*handle_, seen)) return false;
    held_ = {reinterpret_cast<value_type const*>(seen.bytes + here.offset), here.first, here.count,
             static_cast<std::uint32_t>(seen.header - handle_->cache.headers)};
    return i - held_.first < held_.count;
  }

  __device__ __forceinline__ value_type read_elsewhere(std::uint64_t i) const {
    if (hold_cached(i)) return held_.base[i - held_.first];
    move m{handle_, file_, slot_, view_, i, held_, error_};
    value_type const value = far_call<value_type, move*>(read_by_move, &m);
    file_ = m.file;
    held_ = m.held;
    error_ = m.error;
    return value;
  }

  GPUFS_STAGE static value_type read_by_move(move* m) {
    if (m->held.frame != no_frame) detail::release_pins(m->handle->cache.headers[m->held.frame]);
    m->held = {};
    value_type value{};
    std::int32_t const error = m->i < m->of.size ? find(*m, value) : -ERANGE;
    if (m->error == 0) m->error = error;
    return value;
  }

  /// Reads the element through its page, which stays held, or without if it straddles two. Returns 0 or an error.
  __device__ static std::int32_t find(move& m, value_type& value) {
    page_cache_ref const& cache = m.handle->cache;
    std::uint64_t const at = m.of.begin + m.i * sizeof(T);
    std::uint64_t const page_begin = at >> cache.page_shift << cache.page_shift;
    if (at - page_begin + sizeof(T) > std::uint64_t{1} << cache.page_shift) {
      auto const loaded = detail::load_element<value_type>(m.handle, m.file, m.slot, at, m.of.beyond_end);
      m.file = loaded.file;
      value = loaded.value;
      return loaded.error;
    }
    auto const kept = detail::keep_page(m.handle, m.file, m.slot, at >> cache.page_shift, m.of.beyond_end);
    m.file = kept.file;
    if (kept.error != 0) return kept.error;
    auto const here = detail::elements_of<T>(m.of.begin, m.of.size, page_begin, kept.valid);
    auto const* const base = reinterpret_cast<value_type const*>(frame_bytes(cache, kept.frame) + here.offset);
    m.held = {base, here.first, here.count, kept.frame};
    if (m.i - here.first >= here.count) return -EIO;  // the file has become shorter
    value = base[m.i - here.first];
    return 0;
  }

  fs_ref const* handle_;
  mutable used_file file_;
  std::int32_t slot_;
  view view_;
  std::uint64_t index_;
  mutable held_page held_;
  mutable std::int32_t error_;
};

}  // namespace gpufs
