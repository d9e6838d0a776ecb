// Declared launches: what a kernel uses of memory that CPU and GPU share.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/mapping.hpp>
#include <gpufs/mapping_options.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gpufs {

namespace shared {
class call;
class no_signals;
enum class missing_bytes;
}  // namespace shared

/// What the next launch on a stream uses. One host thread uses it, for one launch.
///
/// Without a declaration a launch uses all objects for reading and writing. Declared, other objects
/// stay with the CPU, and blocks that are only read need not be fetched afterwards.
///
/// Earlier launches on other streams run before it if both use the same bytes and one of them
/// writes. The device waits, not the host. Two threads that launch at once have no order.
class shared_call {
 public:
  /// `on`: where the launch goes; null: this_thread_stream().
  explicit shared_call(stream* on = nullptr);
  /// As launched().
  ~shared_call();
  shared_call(shared_call const&) = delete;
  shared_call& operator=(shared_call const&) = delete;

  /// The kernel reads the object.
  shared_call& reads(mapping const& m);
  /// The kernel reads bytes [first, first + bytes) of it.
  shared_call& reads(mapping const& m, std::uint64_t first, std::uint64_t bytes);
  /// The kernel may write it. What it does not write stays as it is.
  shared_call& writes(mapping const& m);
  /// The kernel may write bytes [first, first + bytes).
  shared_call& writes(mapping const& m, std::uint64_t first, std::uint64_t bytes);
  /// The kernel reads it and may write it.
  shared_call& reads_writes(mapping const& m);
  /// The same of bytes [first, first + bytes).
  shared_call& reads_writes(mapping const& m, std::uint64_t first, std::uint64_t bytes);

  /// Gives launches a name in the file mapping_config::mapping_profile. Chunks that launches of
  /// this name have touched come to GPU memory before others.
  ///
  /// Of objects in managed memory, gpufs records in that file which of the declared bytes the
  /// launch touches. Then nobody else uses the objects meanwhile, and launched() waits for the
  /// launch.
  ///
  /// The name has 1 to 200 bytes, without control characters. Without such a file: does nothing.
  shared_call& profile(std::string name);

  /// Hands the objects to the device: sends what the CPU has written of them.
  /// Returns 0, or
  ///   -EINVAL bytes beyond an object, an empty or removed mapping, a second release, a bad name;
  ///   or another device than that of the objects is current
  ///   -EBUSY the stream is being captured | -EIO the device failed
  ///   -EACCES it would write to an object that is only read | -ECANCELED exit() has begun
  ///   -ENOMEM more than the budgets hold, no host memory, or no more mappings
  ///   -EIO, -ESTALE, -errno bytes of a file could not be read; see why_refused()
  int release();

  /// Why release() failed, if it was a file or a want of memory: where, and the remedy.
  [[nodiscard]] std::string const& why_refused() const { return why_refused_; }

  /// Ends the call behind the work that the stream has so far. Does nothing without a release().
  void launched() noexcept;

  /// Where the launch goes.
  [[nodiscard]] stream& on() const { return *on_; }

 private:
  shared_call& add(mapping const& m, std::uint64_t first, std::uint64_t bytes, access use);
  int begin();
  int begin_all(shared::missing_bytes missing);
  int refused(shared::call const& by, int error);

  stream* on_;
  std::vector<std::unique_ptr<shared::call>> parts_;  // one per address space
  std::string why_refused_;
  std::string name_;
  bool is_watched_ = false;
  int wrong_ = 0;
  bool released_ = false;
};

namespace detail {
/// While it lives, launches of this thread do not use all objects, and it gets no signals. Ends the
/// call, also if its launch throws.
class declared_launch {
 public:
  explicit declared_launch(shared_call& of);
  ~declared_launch();
  declared_launch(declared_launch const&) = delete;
  declared_launch& operator=(declared_launch const&) = delete;

 private:
  shared_call& of_;
  std::unique_ptr<shared::no_signals> quiet_;
};

/// Releases the call. Throws shared_memory_error if that fails.
void release_or_throw(shared_call& call);
}  // namespace detail

#if defined(GPUFS_EMULATED) || defined(__CUDACC__)
/// Runs `kernel` on the call's stream, with what the call declares. Throws shared_memory_error with
/// the errno of shared_call::release() if it cannot have that, and device_error as launch() without
/// a call.
template <class... Parameters, class... Arguments>
void launch(shared_call& call, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            Arguments&&... arguments) {
  detail::release_or_throw(call);
  detail::declared_launch const declared(call);
  launch(launch_options{.grid = grid, .block = block, .on = &call.on()}, kernel,
         std::forward<Arguments>(arguments)...);
}
#endif

}  // namespace gpufs
