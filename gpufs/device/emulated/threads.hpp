// What emulated device code asks of the threads it runs on: who am I, barriers, warp operations,
// yielding. Implemented by the block scheduler; everything here is for device code, called on a
// fiber.
#pragma once

#include <gpufs/device/emulated/vector_types.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>

/// Code that is none of the kernel's own business: ThreadSanitizer must neither report its accesses
/// nor take order from them.
#define GPUFS_NO_TSAN __attribute__((no_sanitize("thread")))

namespace gpufs::emulated {

using place = std::source_location;

inline constexpr unsigned warp_size = 32;
inline constexpr unsigned max_block_threads = 1024;
inline constexpr unsigned max_block_warps = max_block_threads / warp_size;

/// A thread of the block, as its own code sees it.
struct thread_identity {
  uint3 index{};             ///< threadIdx
  unsigned rank = 0;         ///< linear index in the block
  unsigned lane = 0;         ///< rank % 32
  mutable bool far = false;  ///< in a call that far_call() makes
};

/// The block that an OS thread runs.
struct block_identity {
  uint3 index{};  ///< blockIdx
  dim3 block_size{};
  dim3 grid_size{};
  std::byte* dynamic_shared = nullptr;
};

// The fiber that this OS thread runs (null: none) and its block. Set by the block scheduler at each
// switch.
extern constinit thread_local thread_identity const* running_thread;
extern constinit thread_local block_identity running_block;
extern constinit thread_local unsigned atomics_until_preemption;

GPUFS_NO_TSAN inline thread_identity const& this_thread() { return *running_thread; }
GPUFS_NO_TSAN inline block_identity const& this_block() { return running_block; }

/// What is combined at a block barrier: all arguments or'ed, and'ed, counted.
enum class reduction { none, any, all, count };

/// Barrier of all threads of the block. Orders all accesses before it before all accesses after it.
int block_barrier(reduction what, bool predicate, place const& where);

enum class warp_operation : std::uint8_t { sync, shuffle, ballot, any, all, match_any };

/// Rendezvous of the lanes in `mask` that have not returned from the kernel; the caller must be one
/// of them. `shuffle` gives the `value` of lane `source`, `match_any` the lanes with the same
/// value, the votes look at value != 0. Only `sync` orders memory.
std::uint64_t warp_rendezvous(warp_operation what, unsigned mask, std::uint64_t value,
                              unsigned source, place const& where);

/// The lanes of the caller's warp that stand at `where` once nothing else in the block can run,
/// split at random now and then.
unsigned converged_lanes(place const& where);

/// Lets the other threads of the block run first, for a wait that has found its condition false.
/// `first`: the wait begins. When all threads of the block that can run are in such waits, the OS
/// thread gives way to others, for longer and longer (up to 100 us).
void yield_waiting(bool first);

/// Ends the launch as failed, with `why` and `where` as its report. Does not return.
[[noreturn]] void fail_launch(char const* why, place const& where);

/// While one lives the calling thread is in a far_call() (gpufs/warp.hpp). A second one within it
/// fails the launch: on a GPU the kernel would run with too small a stack.
class far_call_scope {
 public:
  GPUFS_NO_TSAN explicit far_call_scope(place const& where = place::current()) {
    if (this_thread().far) fail_launch("a far_call() within another", where);
    this_thread().far = true;
  }
  GPUFS_NO_TSAN ~far_call_scope() { this_thread().far = false; }
  far_call_scope(far_call_scope const&) = delete;
  far_call_scope& operator=(far_call_scope const&) = delete;
};

void preempt();

/// Lets another thread of the block run first at one in settings::preempt of the calls. Nothing on
/// OS threads that run no fiber.
GPUFS_NO_TSAN inline void preemption_point() {
  if (running_thread != nullptr && --atomics_until_preemption == 0) preempt();
}

}  // namespace gpufs::emulated
