// The baseline's state, as its kernels and its host threads see it.
#pragma once

#include <gpufs/base/host_device.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpufs::apps::original {

/// A place of the shared queue, in pinned host memory. The device alone writes it: the request,
/// then (release) its number.
struct alignas(64) request_slot {
  std::uint64_t offset;  ///< bytes
  std::uint64_t bytes;
  std::uint32_t number;  ///< of the last request; 0: none yet
};

/// Its answer. A host thread alone writes it, with one release store: number << 32 | uint32(bytes
/// read or -errno).
struct alignas(64) answer_slot {
  std::uint64_t word;
};

/// The bytes [begin, end) of the file that lie in a slot's staging memory, from its start on.
/// Guarded by the slot's lock.
struct staged_range {
  std::uint64_t begin, end;
};

/// What the global lock guards, in device memory. Every frame is in the free list, in the FIFO, or
/// in the hands of the lock's holder.
struct frame_lists {
  std::uint32_t free_count;
  std::uint32_t fifo_first;  ///< index of the oldest in fifo[]
  std::uint32_t fifo_count;
};

//  63        32 31 30 29        0
//  frame       | phase | pins      phase: empty -> filling -> ready -> empty
//
/// A page's word in the page table: one word for each page of the file, a radix tree of a single
/// level.
enum class page_phase : std::uint64_t { empty, filling, ready };
inline constexpr unsigned pin_bits = 30;
inline constexpr unsigned phase_bits = 2;
static_assert(pin_bits + phase_bits == 32);
inline constexpr std::uint32_t no_frame = 0xffffffffu;

constexpr std::uint64_t page_word(page_phase phase, std::uint32_t frame, std::uint64_t pins) {
  return std::uint64_t(frame) << 32 | static_cast<std::uint64_t>(phase) << pin_bits | pins;
}
constexpr std::uint32_t frame_of(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}
constexpr page_phase phase_of(std::uint64_t word) {
  return page_phase(word >> pin_bits & ((1u << phase_bits) - 1));
}
constexpr std::uint64_t pins_of(std::uint64_t word) {
  return word & ((std::uint64_t(1) << pin_bits) - 1);
}

/// Counters of the device.
enum class counter : unsigned { hits, misses, waits, evictions, requests };
inline constexpr unsigned counters = 5;

/// What a kernel needs. Trivially copyable; valid while its file_system lives.
struct ref {
  // Pinned host memory.
  request_slot* requests = nullptr;
  answer_slot* answers = nullptr;
  std::uint32_t slots = 0;
  // Device memory: one of each for every slot.
  std::uint32_t* slot_locks = nullptr;
  std::uint32_t* slot_numbers = nullptr;  ///< of the slot's last request
  staged_range* staged = nullptr;
  /// for each slot a page and what is read ahead: where the host's copies land
  std::byte* staging = nullptr;
  // The page cache.
  std::uint64_t* pages = nullptr;
  std::byte* frames = nullptr;
  std::uint64_t* frame_page = nullptr;  ///< the page a frame was last given to
  std::uint32_t* free_frames = nullptr;
  std::uint32_t* fifo = nullptr;  ///< a ring of frame_count frames, the oldest first
  frame_lists* lists = nullptr;
  std::uint32_t* lock = nullptr;
  std::uint64_t* counts = nullptr;
  std::uint32_t frame_count = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t readahead_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t timeout_ns = 0;

  [[nodiscard]] GPUFS_HOST_DEVICE std::byte* staging_of(std::uint32_t slot) const {
    return staging + slot * (page_bytes + readahead_bytes);
  }
};
static_assert(std::is_trivially_copyable_v<ref>);

}  // namespace gpufs::apps::original
