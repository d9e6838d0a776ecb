// The baseline's page cache: one word per page, frames given out under one global lock, the oldest
// thrown out first.
#pragma once

#include <apps/baseline/original_wait.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::apps::original {

__device__ inline atomic_ref<std::uint64_t, scope::device> word_of(ref const& fs,
                                                                   std::uint64_t page) {
  return atomic_ref<std::uint64_t, scope::device>(fs.pages[page]);
}

enum class pin_result { pinned, must_fill, filling };

/// Pins a page that is there, or takes on the task of filling it. One thread calls. `frame`: the
/// pinned page's.
__device__ inline pin_result try_pin(ref const& fs, std::uint64_t page, std::uint32_t& frame) {
  auto const word = word_of(fs, page);
  std::uint64_t seen = word.load(memory_order_relaxed);
  for (;;) {
    if (phase_of(seen) == page_phase::filling) return pin_result::filling;
    bool const ready = phase_of(seen) == page_phase::ready;
    std::uint64_t const wanted = ready ? seen + 1 : page_word(page_phase::filling, no_frame, 0);
    // Acquire pairs with publish(): who sees the page ready sees its bytes.
    if (!word.compare_exchange_weak(seen, wanted, memory_order_acquire, memory_order_relaxed))
      continue;
    frame = frame_of(wanted);
    return ready ? pin_result::pinned : pin_result::must_fill;
  }
}

/// The page's bytes are in place: pinned once, for the caller. Pairs with try_pin().
__device__ inline void publish(ref const& fs, std::uint64_t page, std::uint32_t frame) {
  word_of(fs, page).store(page_word(page_phase::ready, frame, 1), memory_order_release);
}

/// The page could not be filled: the next caller tries again. Its frame, if any, stays in the
/// FIFO until its turn comes.
__device__ inline void abandon_fill(ref const& fs, std::uint64_t page) {
  word_of(fs, page).store(page_word(page_phase::empty, no_frame, 0), memory_order_release);
}

/// Pairs with the acquire in free_oldest(): what was read from the frame has been read.
__device__ inline void unpin(ref const& fs, std::uint64_t page) {
  word_of(fs, page).fetch_sub(1, memory_order_release);
}

/// Moves the oldest frame that nobody uses from the FIFO to the free list; frames in use go to its
/// end. The lock's holder calls. False if all are in use.
__device__ inline bool free_oldest(ref const& fs) {
  frame_lists& lists = *fs.lists;
  for (std::uint32_t left = lists.fifo_count; left != 0; --left) {
    std::uint32_t const frame = fs.fifo[lists.fifo_first];
    auto const word = word_of(fs, fs.frame_page[frame]);
    std::uint64_t seen = word.load(memory_order_relaxed);
    bool usable = true;  // a page that names no frame, or another one, has given this one up
    if (phase_of(seen) != page_phase::empty && frame_of(seen) == frame) {
      // Acquire pairs with unpin(): its readers are done.
      usable = phase_of(seen) == page_phase::ready && pins_of(seen) == 0 &&
               word.compare_exchange_strong(seen, page_word(page_phase::empty, no_frame, 0),
                                            memory_order_acquire, memory_order_relaxed);
      if (usable) count(fs, counter::evictions);
    }
    lists.fifo_first = lists.fifo_first + 1 == fs.frame_count ? 0 : lists.fifo_first + 1;
    if (usable) {
      --lists.fifo_count;
      fs.free_frames[lists.free_count++] = frame;
      return true;
    }
    std::uint64_t const last = std::uint64_t(lists.fifo_first) + lists.fifo_count - 1;
    fs.fifo[last % fs.frame_count] = frame;
  }
  return false;
}

/// Gives a page that the caller is filling a frame. One thread calls. Returns 0, -ETIMEDOUT (the
/// lock was not to be had) or -ENOMEM (all frames stayed in use for as long as the timeout).
__device__ inline int allocate_frame(ref const& fs, std::uint64_t page, std::uint32_t& frame) {
  bool locked = true;
  bool const found = wait_until(fs, [&] {
    locked = take_lock(fs, *fs.lock);
    if (!locked) return true;
    frame_lists& lists = *fs.lists;
    bool const any = lists.free_count != 0 || free_oldest(fs);
    if (any) {
      frame = fs.free_frames[--lists.free_count];
      fs.frame_page[frame] = page;
      word_of(fs, page).store(page_word(page_phase::filling, frame, 0),
                              memory_order_relaxed);  // ordered by the lock
      fs.fifo[(std::uint64_t(lists.fifo_first) + lists.fifo_count++) % fs.frame_count] = frame;
    }
    give_lock(*fs.lock);
    return any;
  });
  return !locked ? -ETIMEDOUT : found ? 0 : -ENOMEM;
}

}  // namespace gpufs::apps::original
