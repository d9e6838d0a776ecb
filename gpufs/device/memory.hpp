// Untyped memory of the device, one implementation per device, and the bodies of gpufs::buffer and
// gpufs::pinned_buffer.
#pragma once

#include <gpufs/device.hpp>

#include <cstdint>
#include <span>
#include <utility>

namespace gpufs::device_memory {

// No function uses CUDA's legacy default stream. Copies are also allowed while a thread captures a
// graph. All but the frees and zero_pinned() throw
// device_error. Copies are complete on return.
[[nodiscard]] void* allocate_device(std::uint64_t bytes);
void free_device(void* memory, std::uint64_t bytes) noexcept;
[[nodiscard]] void* allocate_pinned(std::uint64_t bytes);
void free_pinned(void* memory, std::uint64_t bytes) noexcept;
void copy_to_device(void* device, void const* host, std::uint64_t bytes);
void copy_to_host(void* host, void const* device, std::uint64_t bytes);
void zero_device(void* device, std::uint64_t bytes);
void zero_pinned(void* memory, std::uint64_t bytes) noexcept;

/// Lets kernels use host memory at its address. Returns false if the device would have another
/// address for it. Throws device_error: the system refuses to pin it.
[[nodiscard]] bool share_host_memory(void* memory, std::uint64_t bytes);
/// GPU: may wait for kernels.
void unshare_host_memory(void* memory) noexcept;

/// Makes a device current in a thread of the library, by its number. The thread's calls then go
/// through while a program's thread captures a CUDA graph, and leave the capture valid. Throws
/// device_error.
void enter_library_thread(int device);

/// While it lives, a thread of the program may be one of the library's. At its end the thread has
/// its device and its mode of captures again. Throws device_error.
class borrowed_thread {
 public:
  borrowed_thread();
  ~borrowed_thread();
  borrowed_thread(borrowed_thread const&) = delete;
  borrowed_thread& operator=(borrowed_thread const&) = delete;

 private:
  int device_ = 0, mode_ = 0;
};

/// A copy from pinned memory to device memory.
struct pinned_copy {
  void* device;
  void const* pinned;
  std::uint64_t bytes;
};

/// Puts all copies behind the work that `on` has so far. They may run in any order. Throws
/// device_error.
void copy_to_device(stream& on, std::span<pinned_copy const> pieces);

/// Puts a copy of device memory to pinned memory behind the work that `on` has so far. Throws
/// device_error.
void copy_to_pinned(stream& on, void* pinned, void const* device, std::uint64_t bytes);

/// Bytes of `count` elements of `size` bytes. Throws std::length_error naming `what` if they do not
/// fit 64 bits.
[[nodiscard]] std::uint64_t array_bytes(std::uint64_t count, std::uint64_t size, char const* what);

/// Throws std::out_of_range naming `what` unless [offset, offset + count) lies within `size`
/// elements.
void check_range(std::uint64_t offset, std::uint64_t count, std::uint64_t size, char const* what);

}  // namespace gpufs::device_memory

namespace gpufs {

template <class T>
buffer<T>::buffer(std::uint64_t count) : size_(count) {
  data_ = static_cast<T*>(device_memory::allocate_device(
      device_memory::array_bytes(count, sizeof(T), "gpufs::buffer")));
}

template <class T>
buffer<T>::~buffer() {
  device_memory::free_device(data_, bytes());
}

template <class T>
buffer<T>::buffer(buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

template <class T>
buffer<T>& buffer<T>::operator=(buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

template <class T>
void buffer<T>::copy_from_host(T const* host, std::uint64_t count, std::uint64_t offset) {
  device_memory::check_range(offset, count, size_, "gpufs::buffer::copy_from_host");
  device_memory::copy_to_device(data_ + offset, host, count * sizeof(T));
}

template <class T>
void buffer<T>::copy_to_host(T* host, std::uint64_t count, std::uint64_t offset) const {
  device_memory::check_range(offset, count, size_, "gpufs::buffer::copy_to_host");
  device_memory::copy_to_host(host, data_ + offset, count * sizeof(T));
}

template <class T>
void buffer<T>::fill_zero() {
  device_memory::zero_device(data_, bytes());
}

template <class T>
pinned_buffer<T>::pinned_buffer(std::uint64_t count) : size_(count) {
  data_ = static_cast<T*>(device_memory::allocate_pinned(
      device_memory::array_bytes(count, sizeof(T), "gpufs::pinned_buffer")));
}

template <class T>
pinned_buffer<T>::~pinned_buffer() {
  device_memory::free_pinned(data_, bytes());
}

template <class T>
pinned_buffer<T>::pinned_buffer(pinned_buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

template <class T>
pinned_buffer<T>& pinned_buffer<T>::operator=(pinned_buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

template <class T>
void pinned_buffer<T>::fill_zero() {
  device_memory::zero_pinned(data_, bytes());
}

}  // namespace gpufs
