// Switches fibers and tells the sanitizers, which Boost.Context of the distributions does not do.
#include <gpufs/device.hpp>
#include <gpufs/device/emulated/fiber.hpp>

#include <boost/context/detail/fcontext.hpp>

#include <cerrno>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#if defined(GPUFS_UNDER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace gpufs::emulated {

namespace context = boost::context::detail;

struct fiber_entry {
  GPUFS_NO_TSAN static void run(context::transfer_t from) {
    // The previous fiber passed itself and the fiber that it switches to.
    auto* const link = static_cast<fiber**>(from.data);
    fiber& self = *link[1];
    self.arrived_from(*link[0], from.fctx);
    self.entry_(self.argument_);
    __builtin_trap();
  }
};

fiber::~fiber() {
  release_sanitizer_state();
  if (memory_ == nullptr) return;
#if defined(GPUFS_UNDER_ASAN)
  __asan_unpoison_memory_region(stack_bottom_, stack_bytes_);
#endif
  munmap(memory_, memory_bytes_);
}

void fiber::allocate_stack(std::size_t bytes, unsigned color) {
  auto const page = std::size_t(sysconf(_SC_PAGESIZE));
  // One page more than requested, so that the color takes nothing away.
  bytes = (bytes + page - 1) / page * page + page;
  memory_bytes_ = bytes + page;
  void* const memory = mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  // The guard lies below, since stacks grow down. Above lies the next mapping's guard, or no
  // mapping.
  if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) {
    int const error = errno;
    if (memory != MAP_FAILED) munmap(memory, memory_bytes_);
    throw device_error("no memory for the stack of an emulated thread (" +
                       std::to_string(memory_bytes_) + " bytes): " + std::strerror(error) +
                       "; fewer GPUFS_EMULATED_BLOCKS or smaller blocks need fewer");
  }
  memory_ = static_cast<std::byte*>(memory);
  stack_bottom_ = memory_ + page;
  stack_bytes_ = bytes;
  color_bytes_ = unsigned((std::size_t(color) * 192) % page) & ~63u;
}

void fiber::start(body entry, void* argument) {
  entry_ = entry;
  argument_ = argument;
#if defined(GPUFS_UNDER_ASAN)
  __asan_unpoison_memory_region(stack_bottom_, stack_bytes_);
  asan_fake_stack_ = nullptr;
#endif
  machine_ = context::make_fcontext(memory_ + memory_bytes_ - color_bytes_,
                                    stack_bytes_ - color_bytes_, &fiber_entry::run);
}

void fiber::release_sanitizer_state() {
#if defined(GPUFS_UNDER_TSAN)
  if (memory_ != nullptr && tsan_state_ != nullptr) __tsan_destroy_fiber(tsan_state_);
  tsan_state_ = nullptr;
#endif
}

void fiber::prepare() {
#if defined(GPUFS_UNDER_TSAN)
  if (tsan_state_ == nullptr)
    tsan_state_ = memory_ == nullptr ? __tsan_get_current_fiber() : __tsan_create_fiber(0);
#endif
}

GPUFS_NO_TSAN void fiber::arrived_from([[maybe_unused]] fiber& previous, void* its_context) {
  previous.machine_ = its_context;
#if defined(GPUFS_UNDER_ASAN)
  // Also learns the bounds of the stack that was left. For an OS thread's own stack this is the
  // only way.
  __sanitizer_finish_switch_fiber(asan_fake_stack_, &previous.stack_bottom_,
                                  &previous.stack_bytes_);
#endif
}

GPUFS_NO_TSAN void fiber::switch_over(fiber& from, fiber& to, [[maybe_unused]] bool for_good) {
  fiber* link[2] = {&from, &to};
#if defined(GPUFS_UNDER_ASAN)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from.asan_fake_stack_, to.stack_bottom_,
                                 to.stack_bytes_);
#endif
#if defined(GPUFS_UNDER_TSAN)
  __tsan_switch_to_fiber(to.tsan_state_, __tsan_switch_to_fiber_no_sync);
#endif
  context::transfer_t const back = context::jump_fcontext(to.machine_, link);
  from.arrived_from(**static_cast<fiber**>(back.data), back.fctx);
}

}  // namespace gpufs::emulated
