// A fiber: a stack, a machine context (Boost.Context), and the sanitizers' state of both.
#pragma once

#include <gpufs/device/emulated/threads.hpp>

#include <cstddef>

#if defined(__SANITIZE_THREAD__)
#define GPUFS_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GPUFS_UNDER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define GPUFS_UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GPUFS_UNDER_ASAN 1
#endif
#endif

#if defined(GPUFS_UNDER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace gpufs::emulated {

/// A context that an OS thread can switch to: a fiber, or the OS thread's own stack. It stays on
/// the OS thread that made it. For ThreadSanitizer a switch orders no memory. The caller states the
/// order with order_before and order_after.
class fiber {
 public:
  using body = void (*)(void* argument);

  /// The OS thread's own context, to switch away from and back to.
  fiber() = default;
  ~fiber();
  fiber(fiber&&) = delete;

  /// Gives the fiber a stack of `bytes`, rounded up to pages, above a guard page. `color` shifts
  /// the top of the stack, so that the tops of many stacks do not share cache sets. Throws
  /// device_error if memory is short.
  void allocate_stack(std::size_t bytes, unsigned color);
  [[nodiscard]] bool has_stack() const { return memory_ != nullptr; }

  /// Makes the next switch to this fiber call entry(argument), which must never return. The code
  /// that ran on it before is abandoned without unwinding.
  void start(body entry, void* argument);

  /// Releases ThreadSanitizer's state of the fiber. It can be used again after prepare().
  void release_sanitizer_state();
  /// Call before the first switch to a fiber, and after release_sanitizer_state().
  void prepare();

  /// Leaves the running fiber `from` and goes on where `to` was left. `for_good`: no switch goes
  /// back to `from`.
  static void switch_over(fiber& from, fiber& to, bool for_good = false);

 private:
  friend struct fiber_entry;
  void arrived_from(fiber& previous, void* its_context);

  void* machine_ = nullptr;  // valid while the fiber does not run
  [[maybe_unused]] void* tsan_state_ = nullptr;
  [[maybe_unused]] void* asan_fake_stack_ = nullptr;
  void const* stack_bottom_ = nullptr;
  std::size_t stack_bytes_ = 0;
  std::byte* memory_ = nullptr;  // null for an OS thread's own context
  std::size_t memory_bytes_ = 0;
  unsigned color_bytes_ = 0;
  body entry_ = nullptr;
  void* argument_ = nullptr;
};

/// Tells ThreadSanitizer: the caller's accesses so far come before those after order_after(tag).
GPUFS_NO_TSAN inline void order_before([[maybe_unused]] void* tag) {
#if defined(GPUFS_UNDER_TSAN)
  __tsan_release(tag);
#endif
}

/// Tells ThreadSanitizer: the caller comes after every order_before(tag) so far.
GPUFS_NO_TSAN inline void order_after([[maybe_unused]] void* tag) {
#if defined(GPUFS_UNDER_TSAN)
  __tsan_acquire(tag);
#endif
}

/// Default stack of a device thread. Sanitizers make stack frames larger.
#if defined(GPUFS_UNDER_TSAN) || defined(GPUFS_UNDER_ASAN)
inline constexpr std::size_t default_stack_bytes = 256 << 10;
#else
inline constexpr std::size_t default_stack_bytes = 64 << 10;
#endif

}  // namespace gpufs::emulated
