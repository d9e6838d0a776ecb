// A thread's view of a file, and the elements of the page that it has pinned.
#pragma once

#include <gpufs/file/file_record.hpp>
#include <gpufs/fs_ref.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpufs::io {

/// Bytes [begin, end) of a file whose pages are written through: the bytes of a page among them are
/// handed to write-back when all of them are stored. Empty: no page is.
struct through_bytes {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// A part of a file that a thread accesses by elements.
struct file_view {
  fs_ref const* handle = nullptr;
  file::used_file file;
  std::int32_t seat = -1;   ///< the context's, or -1
  std::int32_t error = 0;   ///< the first error
  std::uint64_t begin = 0;  ///< first byte in the file
  std::uint64_t size = 0;   ///< in elements
  bool writable = false;    ///< then bytes that the file lacks are zeros
  bool through = false;     ///< pages whose elements are all stored are written at once

  /// The bytes that are written through, if the elements are of type T.
  template <class T>
  __device__ __forceinline__ through_bytes written_through() const {
    if (!through) return {};
    return {begin, begin + size * sizeof(T)};
  }
  __device__ __forceinline__ void note(std::int32_t e) {
    if (error == 0) error = e;
  }
};

/// Elements [first, first + count) of a view. They lie from `base` on, in a page pinned for the
/// thread. A loop within the page has these three values in registers.
///
/// Calls that change them return them by value, which is in registers too. If a call left them in
/// memory, their loads would come behind the call. The loop would then wait for the loads of
/// elements as well, and none of these would overlap.
template <class T>
struct held_elements {
  std::byte const* base = nullptr;
  std::uint64_t first = 0;
  std::uint32_t count = 0;

  __device__ __forceinline__ std::remove_const_t<T> at(std::uint64_t number) const {
    std::byte const* const element = base + number * sizeof(T);
#if defined(__CUDA_ARCH__)
    __builtin_assume(__isGlobal(element));  // of a T*, nvcc cannot compile it for some classes
#endif
    return *reinterpret_cast<T const*>(element);
  }
};

}  // namespace gpufs::io
