// A frame's header and the named transitions of its state word.
#pragma once

#include <gpufs/base/reduce.hpp>
#include <gpufs/cache/geometry.hpp>
#include <gpufs/device.hpp>

#include <cstdint>

namespace gpufs::cache {

//  63              32 31       24 23            0
//  generation        | phase     | pins
//
// The generation grows by one each time the frame gets another name. A thread that finds the frame
// ready in the same generation as before knows that it held the same page in between (peek.hpp).
//
//            claim                  begin_fill              publish
//   empty  ---------> evicting ------------------> filling ---------> ready
//   failed ---------/    ^  \--> empty (release)      |                 |
//      ^                 |                            | fail            | claim
//      |                 +----------------------------|-----------------+
//      +----------------------------------------------+
//
// claim needs pins == 0 and is the only compare-and-swap. The group that wins it owns the frame
// alone. Every other change is an add. A look-up may pin any frame at any time, and unpins it if
// page or phase are wrong. A plain store would lose such a pin.
enum class phase : std::uint32_t { empty, filling, ready, evicting, failed };

inline constexpr unsigned phase_shift = 24;
inline constexpr unsigned generation_shift = 32;
inline constexpr std::uint32_t pin_mask = (1u << phase_shift) - 1;

__device__ constexpr phase phase_of(std::uint64_t state) {
  return static_cast<phase>(static_cast<std::uint32_t>(state) >> phase_shift);
}
__device__ constexpr std::uint32_t pins_of(std::uint64_t state) {
  return static_cast<std::uint32_t>(state) & pin_mask;
}
__device__ constexpr std::uint32_t generation_of(std::uint64_t state) {
  return static_cast<std::uint32_t>(state >> generation_shift);
}
/// The state of a ready frame without pins.
__device__ constexpr std::uint64_t ready_state(std::uint32_t generation) {
  return std::uint64_t{generation} << generation_shift | static_cast<std::uint64_t>(phase::ready)
                                                             << phase_shift;
}
/// The number to add to a state to change its phase, modulo 2^64. The generation stays.
__device__ constexpr std::uint64_t phase_delta(phase from, phase to) {
  return (static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from)) << phase_shift;
}

__device__ __forceinline__ atomic_ref<std::uint64_t, scope::device> frame_state(frame_header& h) {
  return atomic_ref<std::uint64_t, scope::device>(h.state);
}

/// Bytes of a ready page that the file has.
__device__ __forceinline__ std::uint32_t valid_bytes(frame_header& h) {
  return atomic_ref<std::uint32_t, scope::device>(h.outcome).load(memory_order_relaxed);
}

/// The -errno of a failed page.
__device__ __forceinline__ std::int32_t fetch_error(frame_header& h) {
  return static_cast<std::int32_t>(valid_bytes(h));
}

/// Takes a frame without pins. One thread calls. Returns the phase it was in (empty, ready or
/// failed), or `evicting` if the frame was not taken. Acquire pairs with the release of the last
/// unpin(): the reader's loads are over before the new owner writes.
/// `state` is the frame's state just before.
__device__ __forceinline__ phase claim(frame_header& h, std::uint64_t state) {
  phase const was = phase_of(state);
  if (pins_of(state) != 0 || was == phase::filling || was == phase::evicting)
    return phase::evicting;
  std::uint64_t const mine = state + phase_delta(was, phase::evicting);
  return frame_state(h).compare_exchange_strong(state, mine, memory_order_acquire,
                                                memory_order_relaxed)
             ? was
             : phase::evicting;
}
__device__ __forceinline__ phase claim(frame_header& h) {
  return claim(h, frame_state(h).load(memory_order_relaxed));
}

/// Whether the frame is ready and has one pin. Any thread calls.
__device__ __forceinline__ bool is_pinned_once(frame_header& h) {
  std::uint64_t const state = frame_state(h).load(memory_order_relaxed);
  return phase_of(state) == phase::ready && pins_of(state) == 1;
}

/// Names the page that an evicting frame will hold, and pins it. The owner calls. This is no
/// release: a look-up that pins the frame now may still read the old name. So a caller that waits
/// for a filling page checks the name again once it is ready.
__device__ __forceinline__ void begin_fill(frame_header& h, std::uint64_t version,
                                           std::uint64_t page) {
  atomic_ref<std::uint64_t, scope::device>(h.version).store(version, memory_order_relaxed);
  atomic_ref<std::uint64_t, scope::device>(h.page).store(page, memory_order_relaxed);
  base::reduce_add(
      h.state,
      (std::uint64_t{1} << generation_shift) + phase_delta(phase::evicting, phase::filling) + 1,
      memory_order_relaxed);
}

/// filling -> ready; removes the filler's pin. One thread calls. Release pairs with the acquire of
/// pin() and of waiting threads, and with pin_to_load(): they see the bytes. A barrier must order
/// other threads' bytes before the call. If all bytes are settled, `order` may be after_settling.
/// `outcome` lies in the same 32 bytes as the state, so both stores are performed in order.
__device__ __forceinline__ void publish(frame_header& h, std::uint32_t valid,
                                        memory_order order = memory_order_release) {
  atomic_ref<std::uint32_t, scope::device>(h.outcome).store(valid, memory_order_relaxed);
  base::reduce_add(h.state, phase_delta(phase::filling, phase::ready) - 1, order);
}

/// filling -> failed; removes the filler's pin. One thread calls. The page must be out of the page
/// table.
__device__ __forceinline__ void fail(frame_header& h, std::int32_t error) {
  atomic_ref<std::uint32_t, scope::device>(h.outcome).store(static_cast<std::uint32_t>(error),
                                                            memory_order_relaxed);
  base::reduce_add(h.state, phase_delta(phase::filling, phase::failed) - 1, memory_order_release);
}

/// Gives a frame back as empty. The first is for the owner of an evicting frame. The second is for
/// the filler of a frame that is not in the page table; it removes the filler's pin.
__device__ __forceinline__ void release_evicting(frame_header& h) {
  base::reduce_add(h.state, phase_delta(phase::evicting, phase::empty), memory_order_release);
}
__device__ __forceinline__ void release_filling(frame_header& h) {
  base::reduce_add(h.state, phase_delta(phase::filling, phase::empty) - 1, memory_order_release);
}

/// Pins the frame and returns the state before. Any thread calls. It must unpin() in every phase.
__device__ __forceinline__ std::uint64_t pin(frame_header& h) {
  return base::fetch_add_acquire(h.state, 1);
}

/// pin() for a reader that loads name and bytes from memory, not from this multiprocessor's cache.
/// An acquire would empty that cache, which holds the caller's stack.
///
/// Assumption: relaxed suffices on the GPU. The loads wait for a branch on this answer, and meet in
/// the L2 what publish() announced. Tests: machine_order.py; litmus_test.
__device__ __forceinline__ std::uint64_t pin_to_load(frame_header& h) {
  return base::fetch_add_dependent(h.state, 1);
}

__device__ __forceinline__ void unpin(frame_header& h, std::uint32_t pins = 1) {
  base::reduce_add(h.state, -std::uint64_t{pins}, memory_order_release);
}

/// Removes pins of a frame that was only read. One thread calls. The danger is that the next
/// owner's stores reach the reader's loads.
///
/// Assumption: on the GPU these loads have returned before the add, so a relaxed add suffices.
/// Stores that use the loaded values come before the add in program order. For other lanes they
/// come before the __syncwarp that precedes it. load_element() waits for values that it has in
/// registers. array and held_ptr give pages back by far_call(), and the machine code waits for all
/// loads before such a call. docs/memory-model.md has the argument, machine_order.py checks it.
///
/// A fence would wait for all loads of the multiprocessor. On other devices this is a release.
__device__ __forceinline__ void unpin_read(frame_header& h, std::uint32_t pins = 1) {
#if defined(__CUDACC__)
  base::reduce_add(h.state, -std::uint64_t{pins}, memory_order_relaxed);
#else
  unpin(h, pins);
#endif
}

}  // namespace gpufs::cache
