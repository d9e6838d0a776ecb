// What is known of one page of a batch while a group reads it.
#pragma once

#include <gpufs/rpc/client.hpp>

#include <cstdint>

namespace gpufs {

/// Pages a group works on between two of its barriers: one per lane of the warp that manages them.
inline constexpr unsigned batch_pages = warp_size;

/// What became of a page that a group set out to get. The frame is pinned in hit, waiting and
/// fetching.
enum class page_status : std::uint32_t {
  none,      ///< not wanted, or dealt with
  hit,       ///< ready
  waiting,   ///< another caller is bringing it in
  fetching,  ///< this group is bringing it in; end_batch() publishes it
  failed,    ///< `error` says why; nothing is held
};

/// page_entry::chunk_offset, besides the offset: the page has a channel to itself; its bytes are in
/// the twin of staging.
inline constexpr std::uint32_t own_channel = 1u << 31;
inline constexpr std::uint32_t in_twin = 1u << 30;

/// page_entry::answered of a page that lies in a window: no request is made for it, and `via` holds
/// the address of its bytes.
inline constexpr std::uint32_t from_window = 2;

struct page_entry {
  page_status status = page_status::none;
  std::uint32_t frame = 0;
  channel via;  ///< fetching: whose staging the bytes arrive in
  std::uint32_t chunk_offset =
      own_channel;         ///< where the page starts in the chunk of `via`, and flags
  std::uint32_t got = 0;   ///< bytes of the page that are there
  std::int32_t error = 0;  ///< what ended it behind them, or 0
  std::uint32_t answered =
      0;  ///< 1: the daemon has answered `via`; 0: given up; from_window: needs no answer

  __device__ bool has_own_channel() const { return (chunk_offset & own_channel) != 0; }
  __device__ bool in_window() const { return answered == from_window; }
  __device__ std::uint64_t window_address() const {
    return std::uint64_t(via.sequence) << 32 | via.number;
  }

  /// A page of `bytes` bytes that this group is bringing in from a window.
  __device__ static page_entry of_window(std::uint32_t frame, std::uint64_t address,
                                         std::uint64_t bytes) {
    channel const at{static_cast<std::uint32_t>(address),
                     static_cast<std::uint32_t>(address >> 32)};
    return {page_status::fetching, frame, at, 0, static_cast<std::uint32_t>(bytes), 0, from_window};
  }
};
static_assert(sizeof(page_entry) == 32);

/// Lane `from`'s entry in every lane.
__device__ __forceinline__ page_entry warp_broadcast(page_entry const& e, int from) {
  return {static_cast<page_status>(warp_broadcast(static_cast<std::uint32_t>(e.status), from)),
          warp_broadcast(e.frame, from),
          {warp_broadcast(e.via.number, from), warp_broadcast(e.via.sequence, from)},
          warp_broadcast(e.chunk_offset, from),
          warp_broadcast(e.got, from),
          warp_broadcast(e.error, from),
          warp_broadcast(e.answered, from)};
}

}  // namespace gpufs
