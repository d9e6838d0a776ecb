// Lines: callers that found nothing free wait here, and are served in the order in which they came.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/cache/geometry.hpp>
#include <gpufs/device.hpp>
#include <gpufs/handle/deadline.hpp>

#include <cstdint>

namespace gpufs::cache {

using namespace base;

//  63        40 39       16 15          0
//  joined      | left      | gone
//
// joined: callers that have joined; each gets the count before it as its turn.
// left:   every turn below it has left the line.
// gone:   bit i: turn left + i has left the line.
// All counts are modulo 2^24, which is far more than the threads that a GPU holds.
//
// The callers with turns left .. left + front_turns - 1 are in front and try to take what the line
// is for. Callers that come later may try, too, while the line moves. If it stands still, it is
// overdue, and they must join. Then a turn can be overtaken by the others in front only, so by
// fewer than front_turns. After that `left` stays until it has left, and it alone tries.
//
// The words order nothing. They say which callers may try; what is taken has an order of its own.
// So all accesses are relaxed.

inline constexpr unsigned turn_bits = 24;
inline constexpr unsigned left_shift = 16;
inline constexpr unsigned joined_shift = left_shift + turn_bits;
inline constexpr std::uint32_t turn_mask = (1u << turn_bits) - 1;

/// Callers that try at the same time, at most. One alone would leave frames unused while it passes
/// its turn on.
inline constexpr std::uint32_t front_turns = 16;
static_assert(front_turns <= left_shift);

/// The turn of a caller that is in no line.
inline constexpr std::uint32_t no_turn = 0xffffffffu;

__device__ constexpr std::uint32_t joined_of(std::uint64_t state) {
  return static_cast<std::uint32_t>(state >> joined_shift);
}
__device__ constexpr std::uint32_t left_of(std::uint64_t state) {
  return static_cast<std::uint32_t>(state >> left_shift) & turn_mask;
}
/// How many turns a caller is behind the first one that has not left.
__device__ constexpr std::uint32_t turns_before(std::uint64_t state, std::uint32_t turn) {
  return (turn - left_of(state)) & turn_mask;
}

/// The line's state after `turn`, which is in front, has left.
__device__ constexpr std::uint64_t without_turn(std::uint64_t state, std::uint32_t turn) {
  std::uint64_t gone = (state & ((1u << left_shift) - 1)) | 1u << turns_before(state, turn);
  std::uint32_t left = left_of(state);
  for (; (gone & 1) != 0; gone >>= 1) left = (left + 1) & turn_mask;
  return state >> joined_shift << joined_shift | std::uint64_t(left) << left_shift | gone;
}

__device__ __forceinline__ atomic_ref<std::uint64_t, scope::device> line_state(line& l) {
  return atomic_ref<std::uint64_t, scope::device>(l.state);
}

/// Whether no caller is in a line of this state.
__device__ constexpr bool is_empty(std::uint64_t state) {
  return joined_of(state) == left_of(state);
}

/// How long the line may stand still before it comes first, and how long a caller tries before it
/// joins. Under load a try often fails although there is plenty. If every such caller joined, the
/// few in front would do all the work: on an H200 random reads then took ten times as long.
inline constexpr std::int64_t overdue_ns = 1'000'000;
inline constexpr std::int64_t join_after_ns = 2'000'000;

__device__ __forceinline__ atomic_ref<std::uint64_t, scope::device> served_at(line& l) {
  return atomic_ref<std::uint64_t, scope::device>(l.served_at);
}

/// Whether a caller with `turn` may try to take what the line is for: it is in front, or it is in
/// no line and the line is empty or moves. `state` is the line's. Any thread calls.
__device__ __forceinline__ bool may_take(line& l, std::uint32_t turn, std::uint64_t state) {
  if (turn != no_turn || is_empty(state)) return true;
  std::uint64_t const served = served_at(l).load(memory_order_relaxed);
  return static_cast<std::int64_t>(device_clock_ns() - served) < overdue_ns;
}

__device__ __forceinline__ bool may_take(line& l, std::uint32_t turn) {
  return may_take(l, turn, line_state(l).load(memory_order_relaxed));
}

/// Whether a caller that has tried in vain since `since` must join the line. Any thread calls.
__device__ __forceinline__ bool must_join(line& l, std::uint64_t since) {
  return static_cast<std::int64_t>(device_clock_ns() - since) >= join_after_ns ||
         !may_take(l, no_turn);
}

/// Whether the caller is the first one in the line. One thread calls.
__device__ __forceinline__ bool is_first(line& l, std::uint32_t turn) {
  return left_of(line_state(l).load(memory_order_relaxed)) == turn;
}

/// Joins the line, waits until the caller is one of the `front` in front, and returns its turn. One
/// lane of those that come together calls, with no pin, no lock and no frame. On the GPU, lanes
/// that come into the loop together leave it together, and one could have to leave the line first.
/// The caller must leave_line() soon: when it has what the line is for, or when it gives up.
/// `front` is at most front_turns.
///
/// The wait ends. Callers in front wait for holders of what the line is for. Either one of these
/// lets go, or those in front give up (line_error). No caller leaves from further behind, since
/// those in front of it have waited longer.
__device__ __forceinline__ std::uint32_t join_line(line& l, std::uint32_t front = front_turns) {
  std::uint64_t const found =
      line_state(l).fetch_add(std::uint64_t{1} << joined_shift, memory_order_relaxed);
  std::uint32_t const turn = joined_of(found);
  // The line begins to move, or to stand still, now.
  if (turn == left_of(found)) served_at(l).store(device_clock_ns(), memory_order_relaxed);
  unsigned pause = 0;
  for (;;) {
    std::uint32_t const before = turns_before(line_state(l).load(memory_order_relaxed), turn);
    if (before < front) return turn;
    constexpr std::uint32_t ns_per_turn = 128;
    constexpr std::uint32_t longest_ns = 65536;
    backoff(pause, least(before * ns_per_turn, longest_ns));
  }
}

/// Leaves the line. One thread calls; `turn` is in front. It is `served` if it has what the line is
/// for.
__device__ __forceinline__ void leave_line(line& l, std::uint32_t turn, bool served) {
  if (served) served_at(l).store(device_clock_ns(), memory_order_relaxed);
  std::uint64_t seen = line_state(l).load(memory_order_relaxed);
  while (!line_state(l).compare_exchange_weak(seen, without_turn(seen, turn), memory_order_relaxed,
                                              memory_order_relaxed)) {
  }
}

/// Why a caller in front that has got nothing must give up: 0, -EIO if the daemon has stopped, or
/// `late` if the line has not moved for config::rpc_timeout_ms. Until then what it waits for is not
/// pinned for ever. `since` is the time at which it joined. One thread calls.
__device__ __forceinline__ std::int32_t line_error(fs_ref const& fs, line& l, std::uint64_t since,
                                                   std::int32_t late) {
  std::uint64_t const served = served_at(l).load(memory_order_relaxed);
  bool const moved = static_cast<std::int64_t>(served - since) > 0;
  return handle::wait_error(fs, moved ? served : since, late);
}

}  // namespace gpufs::cache
