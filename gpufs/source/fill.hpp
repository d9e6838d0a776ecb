// The record of a page while a group brings it in: how its bytes come, and what has come.
#pragma once

#include <gpufs/cache/page_table.hpp>
#include <gpufs/ring/channel.hpp>

#include <cstdint>
#include <cstring>

namespace gpufs::source {

using namespace base;
using base::warp_broadcast;

/// Pages of a batch: one per lane of the warp that manages them.
inline constexpr unsigned batch_pages = warp_size;

/// State of a page in a batch. The frame is pinned in hit, waiting and fetching.
enum class page_status : std::uint32_t {
  none,      ///< not needed, or finished
  hit,       ///< ready
  waiting,   ///< another caller is bringing it in
  fetching,  ///< this group is bringing it in and will publish it
  failed,    ///< `error` has the reason; no frame is pinned
};

/// How the bytes of a page come.
enum class source_kind : std::uint32_t {
  channel,  ///< to the staging piece of a page channel that is the page's own
  chunk,    ///< within a chunk of the prefetcher
  window,   ///< from a file window, which the GPU reads; no request is made
};

/// A page of a batch on its way into its frame.
struct fill {
  page_status status = page_status::none;
  std::uint32_t frame = 0;
  union {
    ring::channel via{};    ///< channel, chunk: whose staging piece gets the bytes
    std::uint64_t address;  ///< window: of the page's bytes
  };
  std::uint32_t position = 0;  ///< chunk: the chunk position; else 0
  std::uint32_t got = 0;       ///< bytes of the page that are there
  std::int32_t error = 0;      ///< -errno that ended the page behind these bytes, or 0
  // One word: these live in registers.
  source_kind kind : 8 = source_kind::channel;
  std::uint32_t answered : 1 = 0;  ///< the daemon has answered `via`; 0: not asked, or given up
  std::uint32_t in_twin : 1 = 0;   ///< channel, chunk: the bytes are in the twin of staging, too
  std::uint32_t ahead : 1 = 0;     ///< channel: requested by array::prefetch(), not for this miss
  std::uint32_t reserved : 21 = 0;

  fill() = default;

  /// A page that a look-up has found and pinned: ready, or being filled by another caller.
  __device__ static fill by_look_up(cache::lookup const& found) {
    fill f;
    f.status = found.result == cache::lookup_result::hit ? page_status::hit : page_status::waiting;
    f.frame = found.frame;
    f.got = found.valid;
    return f;
  }
  /// A page that this group is bringing in by `channel`.
  __device__ static fill by_channel(std::uint32_t in_frame, ring::channel const& channel) {
    fill f;
    f.status = page_status::fetching;
    f.frame = in_frame;
    f.via = channel;
    return f;
  }
  /// The same from byte `at` of the chunk that `channel` gets.
  __device__ static fill by_chunk(std::uint32_t in_frame, ring::channel const& channel,
                                  std::uint32_t at) {
    fill f = by_channel(in_frame, channel);
    f.kind = source_kind::chunk;
    f.position = at;
    return f;
  }
  /// The same from a file window, which has the page's `bytes` bytes at `from`.
  __device__ static fill by_window(std::uint32_t in_frame, std::uint64_t from,
                                   std::uint64_t bytes) {
    fill f;
    f.status = page_status::fetching;
    f.frame = in_frame;
    f.address = from;
    f.got = static_cast<std::uint32_t>(bytes);
    f.kind = source_kind::window;
    return f;
  }
};
static_assert(sizeof(fill) == 32);

/// Returns another lane's record: `shuffle` gets each 32-bit word of it from there.
template <class Shuffle>
__device__ __forceinline__ fill shuffled(fill const& mine, Shuffle shuffle) {
  constexpr unsigned words = sizeof(fill) / 4;
  std::uint32_t word[words];
  std::memcpy(word, &mine, sizeof mine);
  GPUFS_UNROLL
  for (unsigned i = 0; i < words; ++i) word[i] = shuffle(word[i]);
  fill theirs;
  std::memcpy(&theirs, word, sizeof theirs);
  return theirs;
}

/// Returns lane `from`'s record. All lanes of a warp call.
__device__ __forceinline__ fill warp_broadcast(fill const& mine, int from) {
  return shuffled(mine, [from](std::uint32_t word) { return warp_broadcast(word, from); });
}

}  // namespace gpufs::source
