// gpufs::array<T>: a file, or part of one, as an array in device code.
#pragma once

#include <gpufs/io.hpp>
#include <gpufs/io/element.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <fcntl.h>

namespace gpufs {

template <class T>
class mapped_ptr;

template <class T>
class array;

/// What a[i] of an array that can be stored to gives: reads as the element, stores when it is assigned to. Not a copy of the element: `auto x = a[i]`
/// reads when x is used.
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
  __device__ array_element const& operator=(array_element const& other) const { return *this = static_cast<T>(other); }

 private:
  array<T> const& array_;
  std::uint64_t i_;
};

/// A view of `size()` elements of an open file from a byte offset on: array<T const> to read, array<T> to read and store. Made by all threads
/// of a group together; from then on each thread accesses elements by itself, wherever its warp has diverged to: lanes that come to an access
/// together look up each distinct page once (paper 003, section 4.1), others go separately. Every access finds, pins and unpins its pages, so that
/// nothing stays pinned between two accesses; for runs of elements mapped_ptr is cheaper. Elements must be trivially copyable and may straddle pages;
/// each part is then accessed by itself. Stores are gwrites of the element's bytes: seen by every block at once, in the host's file after gfsync or the
/// last gclose. Use it while its io_context lives; each thread has its own copy.
///
/// Errors do not stop the kernel: a load that fails gives T{}, a store that fails stores nothing (of an element that straddles pages perhaps a part), and the thread keeps the first error. Errors of the constructor:
/// -EBADF, -EACCES (array<T> of a descriptor that is not O_RDWR, or one that is O_WRONLY), -EINVAL (a negative offset, one that is not a multiple of
/// alignof(T), elements beyond the end of a file that cannot be written, a group of less than 32 threads). Of an access: -ERANGE (no such element),
/// -EIO (the file has become shorter), -ENOMEM (all frames, channels or write buffers stayed in use for config::rpc_timeout_ms), or what gread and gwrite return.
template <class T>
class array {
 public:
  using value_type = std::remove_const_t<T>;
  static constexpr bool writable = !std::is_const_v<T>;
  static_assert(std::is_trivially_copyable_v<value_type> && std::is_default_constructible_v<value_type>);

  /// All whole elements that the file has behind the offset.
  static constexpr std::uint64_t to_the_end = ~0ull;

  /// `offset` in bytes, `count` in elements. Elements of an array that can be stored to may lie beyond the end of the file: they read as zeros, and
  /// stores make the file longer.
  template <class Group>
  __device__ array(io_context<Group>& io, int fd, std::int64_t offset = 0, std::uint64_t count = to_the_end) {
    file_.handle = io.fs().self;
    file_.cache = io.fs().cache;
    file_.slot = io.slot();
    if (io_context<Group>::ops::warps(io.group()) == 0) {
      error_ = -EINVAL;
      return;
    }
    error_ = detail::use_file(io, fd);
    if (error_ != 0) return;
    file_.file = io.file();
    std::uint64_t const access = file_.file.flags & O_ACCMODE;
    if (access == O_WRONLY || (writable && (access != O_RDWR || file_.file.place == 0))) {
      error_ = -EACCES;
      return;
    }
    auto const begin = static_cast<std::uint64_t>(offset);
    std::uint64_t const there = begin < file_.file.size ? (file_.file.size - begin) / sizeof(T) : 0;
    std::uint64_t const most = writable ? (begin <= rpc::payload_mask ? (rpc::payload_mask - begin) / sizeof(T) : 0) : there;
    if (count == to_the_end) count = there;
    if (offset < 0 || begin % alignof(T) != 0 || count > most) {
      error_ = -EINVAL;
      return;
    }
    begin_ = begin;
    size_ = count;
  }

  [[nodiscard]] __device__ std::uint64_t size() const { return size_; }

  /// Element i. Any thread calls.
  [[nodiscard]] __device__ auto operator[](std::uint64_t i) const {
    if constexpr (writable) {
      return array_element<T>(*this, i);
    } else {
      return load(i);
    }
  }

  [[nodiscard]] __device__ __forceinline__ value_type load(std::uint64_t i) const {
    value_type value{};
    bool const loaded = note(i < size_ ? detail::load_element(file_, begin_ + i * sizeof(T), writable, value) : -ERANGE);
    return loaded ? value : value_type{};
  }

  /// Stores element i. Any thread calls; the stores of lanes that come together and whose elements lie one behind the other are one write.
  __device__ __forceinline__ void store(std::uint64_t i, value_type const& value) const {
    static_assert(writable, "array<T const> cannot be stored to");
    if (i >= size_) {
      note(-ERANGE);
      return;
    }
    auto const store_part = [&](std::uint64_t page, std::uint32_t begin, std::uint32_t done, std::uint32_t count) {
      std::int32_t error = 0;
      auto const fill = [&](std::byte* to) {
        if (count == sizeof(T)) {
          std::memcpy(__builtin_assume_aligned(to, alignof(T)), &value, sizeof(T));
        } else {
          std::memcpy(to, reinterpret_cast<std::byte const*>(&value) + done, count);
        }
      };
      std::int32_t const failed =
          detail::visit_pages(file_, page, detail::page_writer<decltype(fill)>{file_, page, begin, count, fill, error});
      return failed != 0 ? failed : error;
    };
    note(detail::for_each_part(file_, begin_ + i * sizeof(T), sizeof(T), store_part));
  }

  /// A pointer to element i that keeps its page pinned while it moves within it.
  [[nodiscard]] __device__ mapped_ptr<value_type const> pointer(std::uint64_t i) const {
    return mapped_ptr<value_type const>(file_, begin_, size_, i, writable, error_);
  }

  /// The first error of this thread's accesses, or of the constructor; 0: none.
  [[nodiscard]] __device__ int error() const { return error_; }

  /// An error of the lanes that come here together, the same in all of them; 0: none has one.
  [[nodiscard]] __device__ int warp_error() const {
    converged_group const g = converged();
    unsigned const failed = g.ballot(error_ != 0);
    std::int32_t const first = g.shfl(error_, failed == 0 ? 0 : static_cast<unsigned>(__ffs(static_cast<int>(failed)) - 1));
    return failed == 0 ? 0 : first;
  }

 private:
  /// Keeps the first error. Returns whether this is none.
  __device__ bool note(std::int32_t error) const {
    if (error_ == 0) error_ = error;
    return error == 0;
  }

  mutable detail::lane_file file_;  // remembers where the last page was found
  std::uint64_t begin_ = 0;
  std::uint64_t size_ = 0;
  mutable std::int32_t error_ = 0;
};

}  // namespace gpufs

#include <gpufs/mapped_ptr.hpp>
