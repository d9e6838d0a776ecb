// A page frame's header and the named transitions of its state word.
#pragma once

#include <gpufs/cache/geometry.hpp>
#include <gpufs/device.hpp>

#include <cstdint>

namespace gpufs {

//  63              32 31       24 23            0
//  generation        | phase     | pins
//
// The generation is one more each time the frame gets another name: who finds a frame ready in the
// same generation as before knows that it has held the same page all the time
// (gpufs/cache/peek.hpp).
//
//            claim                  begin_fill              publish
//   empty  ---------> evicting ------------------> filling ---------> ready
//   failed ---------/    ^  \--> empty (release)      |                 |
//      ^                 |                            | fail            | claim
//      |                 +----------------------------|-----------------+
//      +----------------------------------------------+
//
// claim needs pins == 0 and is the only compare-and-swap; whoever wins it owns the frame alone.
// Every other change is an add, because a look-up may pin any frame at any time (and unpins it when
// it finds the wrong page or phase): a plain store would lose its pin.
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
/// What is to be added to a state to change its phase: modulo 2^64, so that the generation stays
/// what it is.
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

/// Why a failed page could not be read: -errno.
__device__ __forceinline__ std::int32_t fetch_error(frame_header& h) {
  return static_cast<std::int32_t>(valid_bytes(h));
}

/// Takes the frame for oneself if nobody has it pinned. Returns the phase it was in (empty, ready
/// or failed) or `evicting` for no. Acquire pairs with the release of the last unpin(): the
/// reader's loads are over before the new owner writes.
__device__ __forceinline__ phase claim(frame_header& h) {
  std::uint64_t state = frame_state(h).load(memory_order_relaxed);
  phase const was = phase_of(state);
  if (pins_of(state) != 0 || was == phase::filling || was == phase::evicting)
    return phase::evicting;
  std::uint64_t const mine = state + phase_delta(was, phase::evicting);
  return frame_state(h).compare_exchange_strong(state, mine, memory_order_acquire,
                                                memory_order_relaxed)
             ? was
             : phase::evicting;
}

/// The owner of an evicting frame names the page it will hold and keeps it pinned. Not a release: a
/// look-up that pins the frame now may still read the old name, so that whoever waits for a filling
/// page asks for its name again when it is ready.
__device__ __forceinline__ void begin_fill(frame_header& h, std::uint64_t uid, std::uint64_t page) {
  atomic_ref<std::uint64_t, scope::device>(h.uid).store(uid, memory_order_relaxed);
  atomic_ref<std::uint64_t, scope::device>(h.page).store(page, memory_order_relaxed);
  frame_state(h).fetch_add(
      (std::uint64_t{1} << generation_shift) + phase_delta(phase::evicting, phase::filling) + 1,
      memory_order_relaxed);
}

/// filling -> ready, and the filler's pin goes. Release pairs with the acquire of pin() and of
/// those who wait for the phase: they see the bytes. The caller orders the bytes of other threads
/// before it by a barrier; if all bytes are settled, after_settling will do for `order`
/// (`outcome` lies in the same 32 bytes as the state, so that stores to them are performed in
/// order).
__device__ __forceinline__ void publish(frame_header& h, std::uint32_t valid,
                                        memory_order order = memory_order_release) {
  atomic_ref<std::uint32_t, scope::device>(h.outcome).store(valid, memory_order_relaxed);
  frame_state(h).fetch_add(phase_delta(phase::filling, phase::ready) - 1, order);
}

/// filling -> failed, and the filler's pin goes. The page must be out of the page table already.
__device__ __forceinline__ void fail(frame_header& h, std::int32_t error) {
  atomic_ref<std::uint32_t, scope::device>(h.outcome).store(static_cast<std::uint32_t>(error),
                                                            memory_order_relaxed);
  frame_state(h).fetch_add(phase_delta(phase::filling, phase::failed) - 1, memory_order_release);
}

/// The owner of an evicting frame, or the filler of one that never entered the page table (with its
/// pin), lets it go.
__device__ __forceinline__ void release_evicting(frame_header& h) {
  frame_state(h).fetch_add(phase_delta(phase::evicting, phase::empty), memory_order_release);
}
__device__ __forceinline__ void release_filling(frame_header& h) {
  frame_state(h).fetch_add(phase_delta(phase::filling, phase::empty) - 1, memory_order_release);
}

/// Pins and returns the state before. Whatever the phase was, the caller must unpin() again.
__device__ __forceinline__ std::uint64_t pin(frame_header& h) {
  return frame_state(h).fetch_add(1, memory_order_acquire);
}
__device__ __forceinline__ void unpin(frame_header& h) {
  frame_state(h).fetch_sub(1, memory_order_release);
}

/// Gives back pins of a frame that was only read. What must not happen is that the next owner's
/// stores reach the reader's loads. The loads have returned: the stores that pass their values on
/// are issued before this add in program order, by this thread or, for other lanes, before the
/// __syncwarp that precedes it. (A value that a lane has loaded into a register, as array does, may
/// still be on its way when the add is issued. The next owner's first store comes several trips to
/// memory after he has seen the add: he claims the frame, takes the old page out, enters the new
/// one and gets its bytes across the bus.) So on the GPU no fence is needed, which would wait for
/// everything its multiprocessor has on the way; elsewhere it is an ordinary release.
__device__ __forceinline__ void unpin_read(frame_header& h, std::uint32_t pins = 1) {
#if defined(__CUDACC__)
  frame_state(h).fetch_sub(pins, memory_order_relaxed);
#else
  frame_state(h).fetch_sub(pins, memory_order_release);
#endif
}

}  // namespace gpufs
