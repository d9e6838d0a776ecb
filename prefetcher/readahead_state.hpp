// What one context slot's prefetcher keeps in GPU memory.
#pragma once

#include <prefetcher/window_policy.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// A request for consecutive pages that is on its way or has landed; its bytes are in the staging
/// piece of its channel. length == 0: none.
struct alignas(32) chunk {
  std::uint64_t uid;
  std::uint64_t begin;     ///< byte offset in the file, a multiple of the page size
  std::uint32_t length;    ///< bytes asked for
  std::uint32_t number;    ///< channel
  std::uint32_t sequence;  ///< of the request
  std::uint32_t serial;    ///< order of issue within the slot
};
static_assert(sizeof(chunk) == 32);

/// Chunks one context can hold: one per lane.
inline constexpr unsigned chunks_per_context = 32;

/// Chunks that contexts together have ahead under the automatic window: enough for every host
/// thread to be busy.
inline constexpr std::uint32_t chunks_ahead_together = 64;

/// Batches of missing pages between two looks at what the host has advised.
inline constexpr std::uint32_t looks_apart = 64;

/// The advice that a context's prefetcher goes by, and what it was read under.
struct advice_seen {
  std::int32_t fd;        ///< 0 = nothing is known
  std::uint32_t value;    ///< gpufs::advice
  std::uint32_t changes;  ///< *fs_ref::advice_changes
  std::uint32_t calls;    ///< since the slot was made
  std::uint64_t epoch;    ///< control_block::epoch
};

/// One per context slot. Touched by the slot's owner only; ownership passes on with acquire and
/// release of the slot.
struct readahead_state {
  chunk entry[chunks_per_context];
  std::uint32_t
      writes[chunks_per_context];  ///< writes_counted() in the chunk's bytes when it was requested
  stream reads;
  std::uint32_t serial;
  advice_seen advised;
};

}  // namespace gpufs::prefetch
