// One source's view of the device: the device language, portable device functions, and the host API
// for memory, streams, events and launches. GPUFS_EMULATED=1 selects the emulated device (g++).
// Without it the device is CUDA: nvcc sees all of this header, g++ only the host API, NVRTC only
// the device language.
//
// Any host thread calls the functions of the host API. Members of one object are not called by two
// threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#if !defined(__CUDACC_RTC__)
#include <memory>
#include <stdexcept>
#include <string>
#endif

#if defined(GPUFS_EMULATED)
#include <gpufs/device/emulated/language.hpp>
#elif defined(__CUDACC__)
#include <gpufs/device/cuda/language.cuh>
#else
#include <cuda_runtime_api.h>
#endif

#include <gpufs/device/atomic.hpp>

#if !defined(__CUDACC_RTC__)

#if !defined(GPUFS_EMULATED)
struct CUstream_st;
#endif

namespace gpufs {

/// Thrown when the device or a call to it failed.
/// CUDA: what() names the call, the error's name and its text.
/// Emulated: what() says why a launch was refused, or where the threads stand that it left behind.
struct device_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What current_device() reports.
struct device_info {
  /// The GPU's name, or "emulated device".
  std::string name;
  /// "cuda" or "emulated".
  std::string kind;
  /// Emulated: blocks that one kernel can have resident.
  unsigned multiprocessors = 0;
  /// 90 for 9.0. Emulated: 0.
  unsigned compute_capability = 0;
  /// Emulated: the host's memory.
  std::uint64_t memory_bytes = 0;
  /// Emulated: the host's level 2 cache, 0 if unknown.
  std::uint64_t l2_bytes = 0;
  /// The most shared memory of a block, static and dynamic together.
  std::uint64_t shared_bytes_per_block = 0;
};

/// True if a kernel can run here. CUDA: there is a GPU and a driver. Never throws.
[[nodiscard]] bool device_available() noexcept;

/// Describes the device that launches of this thread go to. Throws device_error if there is none.
[[nodiscard]] device_info current_device();

/// Returns the number of the device that is current in this thread, emulated 0. Throws
/// device_error.
[[nodiscard]] int current_device_number();

/// Makes a device current in this thread, by its number. Throws device_error.
void make_device_current(int number);

/// Waits for everything that was launched on the device. Throws device_error for the first failure
/// that no stream has reported yet.
void synchronize();

class event;

/// A queue of work on the device. Launches on one stream run one after the other; launches on
/// different streams run side by side. It never synchronises with CUDA's legacy default stream.
///
/// A moved-from stream may only be destroyed or assigned to. The destructor waits for the work on
/// the emulated device. On CUDA the work ends by itself.
class stream {
 public:
  /// Throws device_error if the device has no room for another stream.
  stream();
  /// Lets go of the queue, as said above.
  ~stream();
  /// Takes over the other's work.
  stream(stream&&) noexcept;
  /// Lets go of its own queue as the destructor does, then takes over the other's work.
  stream& operator=(stream&&) noexcept;

  /// Waits for the work so far. Throws device_error if any of it failed.
  /// The emulated stream is usable again afterwards; a CUDA context mostly is not.
  /// After a failure the emulated stream skips its launches until this call has reported it.
  void synchronize();

  /// True once all work so far has ended, even if it failed. CUDA: throws device_error if it
  /// failed. Emulated: synchronize() reports the failure.
  [[nodiscard]] bool done() const;

#if !defined(GPUFS_EMULATED)
  /// The cudaStream_t, for <<<>>> and CUDA calls.
  [[nodiscard]] CUstream_st* native() const;

  /// A cudaStream_t that the program has made, also 0 and the other default streams. It is not
  /// destroyed, and must live as long as work is put on it through this object.
  [[nodiscard]] static stream of(CUstream_st* native);
#endif

  struct implementation;
  /// For launch() and event.
  [[nodiscard]] implementation& access() const { return *implementation_; }

 private:
  explicit stream(std::shared_ptr<implementation> of) : implementation_(std::move(of)) {}

  std::shared_ptr<implementation> implementation_;
};

/// The stream of launch(kernel, grid, block, ...). Each host thread has one, made at first use.
/// Throws device_error if it cannot be made.
[[nodiscard]] stream& this_thread_stream();

/// A point in a stream's work, and the time at which the device reached it.
class event {
 public:
  /// No point yet. Throws device_error.
  event();
  /// Work that is under way goes on.
  ~event();
  /// Takes over the other's point. The other may only be destroyed or assigned to.
  event(event&&) noexcept;
  /// As the move.
  event& operator=(event&&) noexcept;

  /// Puts the point behind all work that `on` has so far. A second call moves it.
  /// Throws device_error.
  void record(stream& on);

  /// Waits until the device has reached the point. Returns at once if it was never recorded.
  /// CUDA: throws device_error if work before the point failed.
  void synchronize() const;

  /// Seconds from `from` to `to`. Throws device_error unless the device has reached both.
  [[nodiscard]] static double seconds_between(event const& from, event const& to);

 private:
  struct implementation;
  std::shared_ptr<implementation> implementation_;
};

/// Device memory for size() elements, 256-byte aligned. The contents are unspecified until written.
/// The host reaches it through the copies alone.
///
/// Copies are complete on return. They are not ordered after kernels that still run: synchronise
/// first. Destroy it only while no kernel waits for the host, since CUDA's free waits for kernels.
template <class T>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// Empty.
  buffer() = default;
  /// Allocates `count` elements. Throws device_error if there is no memory, std::length_error if
  /// the bytes exceed 64 bits.
  explicit buffer(std::uint64_t count);
  /// Frees the memory.
  ~buffer();
  /// Takes over the memory. The other is empty afterwards.
  buffer(buffer&& other) noexcept;
  /// Frees its own memory, then as the move.
  buffer& operator=(buffer&& other) noexcept;

  [[nodiscard]] T* data() const { return data_; }                          ///< null: it is empty
  [[nodiscard]] std::uint64_t size() const { return size_; }               ///< elements
  [[nodiscard]] std::uint64_t bytes() const { return size_ * sizeof(T); }  ///< bytes of them

  /// Copies `count` elements between the host and this buffer, from its element `offset` on.
  /// Throws std::out_of_range if they do not all lie in the buffer, device_error if the copy
  /// failed.
  void copy_from_host(T const* host, std::uint64_t count, std::uint64_t offset = 0);
  /// The other way.
  void copy_to_host(T* host, std::uint64_t count, std::uint64_t offset = 0) const;

  /// Sets every byte to zero. Complete on return. Throws device_error.
  void fill_zero();

 private:
  T* data_ = nullptr;
  std::uint64_t size_ = 0;
};

/// Host memory that kernels reach at the same address, 4096-byte aligned. Emulated: plain memory.
/// The contents are unspecified until written.
///
/// Destroy it only while no kernel runs. CUDA's free waits for running kernels, and so deadlocks
/// with one that waits for the host.
template <class T>
class pinned_buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// Empty.
  pinned_buffer() = default;
  /// Allocates `count` elements. Throws device_error if there is no memory, std::length_error if
  /// the bytes exceed 64 bits.
  explicit pinned_buffer(std::uint64_t count);
  /// Frees the memory.
  ~pinned_buffer();
  /// Takes over the memory. The other is empty afterwards.
  pinned_buffer(pinned_buffer&& other) noexcept;
  /// Frees its own memory, then as the move.
  pinned_buffer& operator=(pinned_buffer&& other) noexcept;

  [[nodiscard]] T* data() const { return data_; }                          ///< null: it is empty
  [[nodiscard]] std::uint64_t size() const { return size_; }               ///< elements
  [[nodiscard]] std::uint64_t bytes() const { return size_ * sizeof(T); }  ///< bytes of them
  [[nodiscard]] T& operator[](std::uint64_t i) const { return data_[i]; }  ///< i < size()
  [[nodiscard]] T* begin() const { return data_; }                         ///< the first element
  [[nodiscard]] T* end() const { return data_ + size_; }                   ///< behind the last one

  /// Sets every byte to zero.
  void fill_zero();

 private:
  T* data_ = nullptr;
  std::uint64_t size_ = 0;
};

/// Where and how large to launch. launch() exists wherever kernels can be named: on the emulated
/// device, and in .cu files.
struct launch_options {
  /// Blocks.
  dim3 grid = 1;
  /// At most 1024 threads in all.
  dim3 block = 1;
  /// Bytes that dynamic_shared<T>() points to, at most device_info::shared_bytes_per_block. CUDA
  /// code that asks for more than 48 KiB needs no further call.
  std::uint64_t dynamic_shared_bytes = 0;
  /// null: this_thread_stream()
  stream* on = nullptr;
};

}  // namespace gpufs

#include <gpufs/device/memory.hpp>

#if defined(GPUFS_EMULATED)
#include <gpufs/device/emulated/launch.hpp>
#elif defined(__CUDACC__)
#include <gpufs/device/cuda/launch.cuh>
#endif

#endif  // __CUDACC_RTC__
