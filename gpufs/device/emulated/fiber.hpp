// A fiber: a stack, a machine context (Boost.Context), and what the sanitizers want to know of
// both.
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

/// A place from which an OS thread's execution can be taken up: a fiber, or the OS thread's own
/// stack. Stays on the OS thread it was made on. Switching orders no memory as far as
/// ThreadSanitizer knows: whoever switches says with order_before and order_after what is ordered.
class fiber {
 public:
  using body = void (*)(void* argument);

  /// The OS thread's own context, to switch away from and back to.
  fiber() = default;
  ~fiber();
  fiber(fiber&&) = delete;

  /// Gives it a stack of `bytes` (rounded up to pages) between guard pages. `color` shifts the top
  /// of the stack so that the tops of many stacks do not share cache sets. Throws device_error if
  /// memory is short.
  void allocate_stack(std::size_t bytes, unsigned color);
  [[nodiscard]] bool has_stack() const { return memory_ != nullptr; }

  /// Makes the next switch to this fiber call entry(argument), which must never return. What ran on
  /// it before is abandoned: nothing is unwound.
  void start(body entry, void* argument);

  /// Gives back what ThreadSanitizer keeps for the fiber. It may go on being used after prepare().
  void release_sanitizer_state();
  /// To be called before a fiber is switched to for the first time, or after
  /// release_sanitizer_state().
  void prepare();

  /// Leaves `from`, which must be what runs, and goes on where `to` was left. `for_good`: `from` is
  /// not going to be taken up again.
  static void switch_over(fiber& from, fiber& to, bool for_good = false);

 private:
  friend struct fiber_entry;
  void arrived_from(fiber& previous, void* its_context);

  void* machine_ = nullptr;  // valid while it is not running
  void* tsan_state_ = nullptr;
  void* asan_fake_stack_ = nullptr;
  void const* stack_bottom_ = nullptr;
  std::size_t stack_bytes_ = 0;
  std::byte* memory_ = nullptr;  // null for an OS thread's own context
  std::size_t memory_bytes_ = 0;
  unsigned color_bytes_ = 0;
  body entry_ = nullptr;
  void* argument_ = nullptr;
};

/// Tells ThreadSanitizer that what the caller did so far comes before what anyone does after
/// order_after(tag).
GPUFS_NO_TSAN inline void order_before([[maybe_unused]] void* tag) {
#if defined(GPUFS_UNDER_TSAN)
  __tsan_release(tag);
#endif
}

/// Tells ThreadSanitizer that the caller comes after everything that order_before(tag) was said of.
GPUFS_NO_TSAN inline void order_after([[maybe_unused]] void* tag) {
#if defined(GPUFS_UNDER_TSAN)
  __tsan_acquire(tag);
#endif
}

/// Stack that a device thread needs unless configured otherwise: sanitizers make frames larger.
#if defined(GPUFS_UNDER_TSAN) || defined(GPUFS_UNDER_ASAN)
inline constexpr std::size_t default_stack_bytes = 256 << 10;
#else
inline constexpr std::size_t default_stack_bytes = 64 << 10;
#endif

}  // namespace gpufs::emulated
