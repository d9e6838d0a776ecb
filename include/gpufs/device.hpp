// The device a kernel runs on, as one source sees it: the device language, portable device
// functions, and the host API for memory, streams, events and launches. GPUFS_EMULATED=1 selects
// the emulated device (g++); otherwise CUDA: in full under nvcc, the host API alone under g++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#if defined(GPUFS_EMULATED)
#include <gpufs/device/emulated/language.hpp>
#elif defined(__CUDACC__)
#include <gpufs/device/cuda/language.cuh>
#else
#include <cuda_runtime_api.h>
#endif

#include <gpufs/device/atomic.hpp>

#if !defined(GPUFS_EMULATED)
struct CUstream_st;
#endif

namespace gpufs {

/// Thrown when the device or a call to it failed. CUDA: what() names the call, the error's name and
/// its text. Emulated: for a launch that was refused or that left threads behind, the places where
/// its threads stood.
struct device_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What current_device() reports.
struct device_info {
  std::string name;                 ///< the GPU's name, or "emulated device"
  std::string kind;                 ///< "cuda" or "emulated"
  unsigned multiprocessors = 0;     ///< emulated: blocks that one kernel can have resident
  unsigned compute_capability = 0;  ///< 90 for 9.0; emulated: 0
  std::uint64_t memory_bytes = 0;   ///< emulated: the host's memory
  std::uint64_t l2_bytes = 0;       ///< emulated: the host's level 2 cache, 0 if it is not told
  std::uint64_t shared_bytes_per_block =
      0;  ///< most shared memory a block may have, static and dynamic together
};

/// True if a kernel can run here. CUDA: a GPU and a driver are there. Never throws.
[[nodiscard]] bool device_available() noexcept;

/// Describes the device that launches of this thread go to. Throws device_error if there is none.
[[nodiscard]] device_info current_device();

/// The device that is current in this thread, as a number; another thread makes it current by that.
/// Both throw device_error. Emulated: 0.
[[nodiscard]] int current_device_number();
void make_device_current(int number);

/// Waits for everything that was launched on the device. Throws device_error for the first failure
/// that no stream has reported yet.
void synchronize();

class event;

/// A queue of work on the device: launches on one stream run one after the other, those on
/// different streams side by side. Never synchronises with CUDA's legacy default stream. A
/// moved-from stream may only be destroyed or assigned to. The destructor waits for the work
/// (emulated) or leaves it to end by itself (CUDA).
class stream {
 public:
  /// Throws device_error if the device has no room for another one.
  stream();
  ~stream();
  stream(stream&&) noexcept;
  stream& operator=(stream&&) noexcept;

  /// Waits for the work so far. Throws device_error if any of it failed; the emulated stream is
  /// usable again afterwards, a CUDA context mostly is not. After a failure the emulated stream
  /// skips its launches until synchronize() has reported it.
  void synchronize();

  /// True once all work so far has ended, well or not (an emulated failure is kept for
  /// synchronize()). CUDA: throws device_error if it failed.
  [[nodiscard]] bool done() const;

#if !defined(GPUFS_EMULATED)
  /// The cudaStream_t, for <<<>>> and CUDA calls.
  [[nodiscard]] CUstream_st* native() const;
#endif

  struct implementation;
  [[nodiscard]] implementation& access() const { return *implementation_; }

 private:
  std::shared_ptr<implementation> implementation_;
};

/// The stream that launch(kernel, grid, block, ...) uses: one for each host thread, made at first
/// use.
[[nodiscard]] stream& this_thread_stream();

/// A point in a stream's work, with the time at which the device reached it.
class event {
 public:
  event();
  ~event();
  event(event&&) noexcept;
  event& operator=(event&&) noexcept;

  /// Puts the point behind all work that `on` has so far. Recording again moves it.
  void record(stream& on);

  /// Waits until the device has reached the point. Returns at once if it was never recorded. CUDA:
  /// throws device_error if work before it failed.
  void synchronize() const;

  /// Seconds from `from` to `to`. Throws device_error unless both were recorded and have been
  /// reached.
  [[nodiscard]] static double seconds_between(event const& from, event const& to);

 private:
  struct implementation;
  std::shared_ptr<implementation> implementation_;
};

namespace detail {

// Untyped memory operations, one implementation per device. None touches the legacy default stream.
// All but the frees throw device_error.
[[nodiscard]] void* allocate_device(std::uint64_t bytes);
void free_device(void* memory, std::uint64_t bytes) noexcept;
[[nodiscard]] void* allocate_pinned(std::uint64_t bytes);
void free_pinned(void* memory, std::uint64_t bytes) noexcept;
void copy_to_device(void* device, void const* host, std::uint64_t bytes);
void copy_to_host(void* host, void const* device, std::uint64_t bytes);
void zero_device(void* device, std::uint64_t bytes);
void zero_pinned(void* memory, std::uint64_t bytes) noexcept;

/// A copy from pinned memory to device memory.
struct piece_copy {
  void* device;
  void const* pinned;
  std::uint64_t bytes;
};

/// Puts copies behind the work that `on` has so far, all at once; they may run in any order. Throws
/// device_error.
void copy_to_device(stream& on, std::span<piece_copy const> pieces);

/// Bytes of `count` elements of `size` bytes. Throws std::length_error naming `what` if that does
/// not fit 64 bits.
[[nodiscard]] std::uint64_t array_bytes(std::uint64_t count, std::uint64_t size, char const* what);

/// Throws std::out_of_range unless [offset, offset + count) lies within `size` elements.
void check_range(std::uint64_t offset, std::uint64_t count, std::uint64_t size, char const* what);

}  // namespace detail

/// Device memory for `size()` elements, 256-byte aligned; the contents are unspecified until
/// written. The host may not touch it except through the copies. Copies are complete on return, and
/// are not ordered after kernels that are still running: synchronise first. The destructor frees:
/// destroy it only while no kernel waits for the host (CUDA's free waits for running kernels).
template <class T>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  buffer() = default;
  /// Throws device_error if the memory is not to be had, std::length_error if `count` elements
  /// exceed 64 bits of bytes.
  explicit buffer(std::uint64_t count) : size_(count) {
    data_ = static_cast<T*>(
        detail::allocate_device(detail::array_bytes(count, sizeof(T), "gpufs::buffer")));
  }
  ~buffer() { detail::free_device(data_, bytes()); }
  buffer(buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t bytes() const { return size_ * sizeof(T); }

  /// Copies `count` elements between the host and this buffer from element `offset` on. Throw
  /// std::out_of_range if they are not all within the buffer, device_error if the copy failed.
  void copy_from_host(T const* host, std::uint64_t count, std::uint64_t offset = 0) {
    detail::check_range(offset, count, size_, "gpufs::buffer::copy_from_host");
    detail::copy_to_device(data_ + offset, host, count * sizeof(T));
  }
  void copy_to_host(T* host, std::uint64_t count, std::uint64_t offset = 0) const {
    detail::check_range(offset, count, size_, "gpufs::buffer::copy_to_host");
    detail::copy_to_host(host, data_ + offset, count * sizeof(T));
  }
  /// Sets every byte to zero. Complete on return.
  void fill_zero() { detail::zero_device(data_, bytes()); }

 private:
  T* data_ = nullptr;
  std::uint64_t size_ = 0;
};

/// Host memory that kernels address at the same pointer, 4096-byte aligned; the contents are
/// unspecified until written. Emulated: plain memory. The destructor frees: destroy it only while
/// no kernel runs (CUDA's free waits for running kernels, and so may deadlock with one that waits
/// for the host).
template <class T>
class pinned_buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  pinned_buffer() = default;
  /// Throws device_error if the memory is not to be had, std::length_error if `count` elements
  /// exceed 64 bits of bytes.
  explicit pinned_buffer(std::uint64_t count) : size_(count) {
    data_ = static_cast<T*>(
        detail::allocate_pinned(detail::array_bytes(count, sizeof(T), "gpufs::pinned_buffer")));
  }
  ~pinned_buffer() { detail::free_pinned(data_, bytes()); }
  pinned_buffer(pinned_buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  pinned_buffer& operator=(pinned_buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t bytes() const { return size_ * sizeof(T); }
  [[nodiscard]] T& operator[](std::uint64_t i) const { return data_[i]; }
  [[nodiscard]] T* begin() const { return data_; }
  [[nodiscard]] T* end() const { return data_ + size_; }

  /// Sets every byte to zero.
  void fill_zero() { detail::zero_pinned(data_, bytes()); }

 private:
  T* data_ = nullptr;
  std::uint64_t size_ = 0;
};

/// Where and how large to launch. launch() is there wherever kernels can be named: emulated, and in
/// .cu files.
struct launch_options {
  dim3 grid = 1;
  dim3 block = 1;  ///< at most 1024 threads in all
  std::uint64_t dynamic_shared_bytes =
      0;                 ///< what dynamic_shared<T>() points to; above 48 KiB without further ado
  stream* on = nullptr;  ///< null: this_thread_stream()
};

namespace detail {
/// Throws device_error naming the option that no device takes, or this one does not, and what it
/// takes.
void check_launch(launch_options const& options, std::uint64_t most_dynamic_shared_bytes);
}  // namespace detail

}  // namespace gpufs

#if defined(GPUFS_EMULATED)
#include <gpufs/device/emulated/launch.hpp>
#elif defined(__CUDACC__)
#include <gpufs/device/cuda/launch.cuh>
#endif
