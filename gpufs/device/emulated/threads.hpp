// Operations of emulated device code on its threads: identity, barriers, warp operations, yielding.
// The block scheduler implements them. Device code calls them, on a fiber.
#pragma once

#include <gpufs/device/emulated/vector_types.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>

/// Marks code that is not part of the kernel. ThreadSanitizer must neither report its accesses nor
/// take order from them.
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
  mutable bool far = false;  ///< in a far_call()
};

/// The block that an OS thread runs.
struct block_identity {
  uint3 index{};  ///< blockIdx
  dim3 block_size{};
  dim3 grid_size{};
  std::byte* dynamic_shared = nullptr;
};

// The fiber that this OS thread runs (null: none), and its block. The block scheduler sets them at
// each switch.
extern constinit thread_local thread_identity const* running_thread;
extern constinit thread_local block_identity running_block;
extern constinit thread_local unsigned atomics_until_preemption;

GPUFS_NO_TSAN inline thread_identity const& this_thread() { return *running_thread; }
GPUFS_NO_TSAN inline block_identity const& this_block() { return running_block; }

/// The result of a block barrier: none, or all arguments or'ed, and'ed or counted.
enum class reduction { none, any, all, count };

/// Barrier of all threads of the block. All accesses before it come before all accesses after it.
/// Returns the reduction of the predicates.
int block_barrier(reduction what, bool predicate, place const& where);

enum class warp_operation : std::uint8_t { sync, shuffle, ballot, any, all, match_any };

/// Rendezvous of the lanes in `mask` that have not returned from the kernel. The caller must be one
/// of them. `shuffle` returns the `value` of lane `source`, `match_any` the lanes with the same
/// value. Votes test value != 0. Only `sync` orders memory.
std::uint64_t warp_rendezvous(warp_operation what, unsigned mask, std::uint64_t value,
                              unsigned source, place const& where);

/// Returns the lanes of the caller's warp that stand at `where` when no other thread of the block
/// can run. Now and then they are split at random.
unsigned converged_lanes(place const& where);

/// Lets the block's other threads run first. A wait calls it when its condition is false. `first`:
/// the wait begins. If all threads that can run are in such waits, the OS thread sleeps for longer
/// and longer times, up to 100 us.
void yield_waiting(bool first);

/// Ends the launch as failed and does not return. The report has `why` and `where`.
[[noreturn]] void fail_launch(char const* why, place const& where);

/// The calling thread is in a far_call() (gpufs/base/warp.hpp) while this object lives. A second
/// one within it fails the launch: on a GPU the kernel's stack would be too small.
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

/// A point at which another thread of the block may run first: one in settings::preempt calls, on
/// average. Has no effect on OS threads without a fiber.
GPUFS_NO_TSAN inline void preemption_point() {
  if (running_thread != nullptr && --atomics_until_preemption == 0) preempt();
}

}  // namespace gpufs::emulated
