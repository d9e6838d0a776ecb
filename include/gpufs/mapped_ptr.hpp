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

  /// `beyond_end`: what the file does not have are zeros.
  __device__ mapped_ptr(detail::lane_file const& file, std::uint64_t begin, std::uint64_t size, std::uint64_t index,
                        bool beyond_end, std::int32_t error)
      : file_(file), begin_(begin), size_(size), index_(index), beyond_end_(beyond_end), error_(error) {}
  __device__ mapped_ptr(mapped_ptr const& other)
      : mapped_ptr(other.file_, other.begin_, other.size_, other.index_, other.beyond_end_, other.error_) {}
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
    detail::release_pin(file_.cache, held_.frame);
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

  __device__ value_type read_elsewhere(std::uint64_t i) const {
    release();
    if (i >= size_) {
      note(-ERANGE);
      return {};
    }
    std::uint64_t const at = begin_ + i * sizeof(T);
    std::uint64_t const page = at >> file_.cache.page_shift;
    std::uint64_t const page_begin = page << file_.cache.page_shift;
    if (at - page_begin + sizeof(T) > file_.page_bytes()) return read_straddling(at);
    std::uint32_t frame = no_frame;
    std::uint64_t valid = 0;
    if (std::int32_t const error = detail::visit_pages(file_, page, detail::page_keeper{file_.cache, frame, valid}); error != 0) {
      note(error);
      return {};
    }
    // The page's elements: from the first one that begins in it to the last one that ends in its bytes.
    std::uint64_t const before = page_begin > begin_ ? (page_begin - begin_ + sizeof(T) - 1) / sizeof(T) : 0;
    bool const cut = !beyond_end_ && detail::ends_before(file_, page_begin + valid);
    std::uint64_t const end_byte = cut ? file_.file.size : page_begin + valid;
    std::uint64_t const behind = end_byte > begin_ ? (end_byte - begin_) / sizeof(T) : 0;
    std::uint64_t const last = behind < size_ ? behind : size_;
    std::byte const* const first = frame_bytes(file_.cache, frame) + (begin_ + before * sizeof(T) - page_begin);
    held_ = {reinterpret_cast<value_type const*>(first), before, last > before ? last - before : 0, frame};
    if (i - before < held_.count) return held_.base[i - before];
    note(-EIO);  // the file has become shorter
    return {};
  }

  __device__ value_type read_straddling(std::uint64_t at) const {
    value_type value{};
    std::int32_t const error = detail::load_element(file_, at, beyond_end_, value);
    if (error == 0) return value;
    note(error);
    return {};
  }

  __device__ void note(std::int32_t error) const {
    if (error_ == 0) error_ = error;
  }

  mutable detail::lane_file file_;
  std::uint64_t begin_;
  std::uint64_t size_;
  std::uint64_t index_;
  bool beyond_end_;
  mutable held_page held_;
  mutable std::int32_t error_;
};

}  // namespace gpufs
