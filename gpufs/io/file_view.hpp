// What array and mapped_ptr have of a file: which part of it, and the elements of the page that a
// thread has pinned.
#pragma once

#include <gpufs/fs_ref.hpp>
#include <gpufs/io/file_record.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpufs::detail {

/// Part of a file as a thread accesses it by elements.
struct file_view {
  fs_ref const* handle = nullptr;
  used_file file;
  std::int32_t slot = -1;   ///< the context's, or -1
  std::int32_t error = 0;   ///< the first one
  std::uint64_t begin = 0;  ///< byte of the file
  std::uint64_t size = 0;   ///< in elements
  bool writable = false;    ///< what the file does not have are zeros

  __device__ __forceinline__ void note(std::int32_t e) {
    if (error == 0) error = e;
  }
};

/// Elements [first, first + count) of a view, on a page that is pinned for the thread, from `base`
/// on. A loop within the page has these three in registers. Calls that change them return them by
/// value, which is in registers, too: what such a call left in memory would be loaded behind it,
/// and before it looks whether it is there the loop would wait for the loads of its elements as
/// well, so that none of them overlap.
template <class T>
struct held_elements {
  std::byte const* base = nullptr;
  std::uint64_t first = 0;
  std::uint32_t count = 0;

  __device__ __forceinline__ std::remove_const_t<T> at(std::uint64_t number) const {
    auto const* const element = reinterpret_cast<T const*>(base) + number;
#if defined(__CUDA_ARCH__)
    __builtin_assume(__isGlobal(element));
#endif
    return *element;
  }
};

}  // namespace gpufs::detail
