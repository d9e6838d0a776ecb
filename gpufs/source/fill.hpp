// State of one page of a batch while a group brings it in.
#pragma once

#include <gpufs/ring/channel.hpp>

#include <cstdint>

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

/// Flags in page_entry::chunk_offset. own_channel: the page has a channel of its own. in_twin: its
/// bytes are in the twin of staging.
inline constexpr std::uint32_t own_channel = 1u << 31;
inline constexpr std::uint32_t in_twin = 1u << 30;

/// page_entry::answered of a page in a file window. No request is made, and `via` has the address
/// of its bytes.
inline constexpr std::uint32_t from_window = 2;

struct page_entry {
  page_status status = page_status::none;
  std::uint32_t frame = 0;
  ring::channel via;  ///< fetching: the channel whose staging piece gets the bytes
  /// chunk position in the chunk of `via`, and flags
  std::uint32_t chunk_offset = own_channel;
  std::uint32_t got = 0;   ///< bytes of the page that are there
  std::int32_t error = 0;  ///< -errno that ended the page behind these bytes, or 0
  /// 1: the daemon has answered `via`; 0: given up; from_window: no answer needed
  std::uint32_t answered = 0;

  __device__ bool has_own_channel() const { return (chunk_offset & own_channel) != 0; }
  __device__ bool in_window() const { return answered == from_window; }
  __device__ std::uint64_t window_address() const {
    return std::uint64_t(via.sequence) << 32 | via.number;
  }

  /// An entry for a page of `bytes` bytes that this group is bringing in from a file window.
  __device__ static page_entry of_window(std::uint32_t frame, std::uint64_t address,
                                         std::uint64_t bytes) {
    ring::channel const at{static_cast<std::uint32_t>(address),
                           static_cast<std::uint32_t>(address >> 32)};
    return {page_status::fetching, frame, at, 0, static_cast<std::uint32_t>(bytes), 0, from_window};
  }
};
static_assert(sizeof(page_entry) == 32);

/// Returns lane `from`'s entry. All lanes of a warp call.
__device__ __forceinline__ page_entry warp_broadcast(page_entry const& e, int from) {
  return {static_cast<page_status>(warp_broadcast(static_cast<std::uint32_t>(e.status), from)),
          warp_broadcast(e.frame, from),
          {warp_broadcast(e.via.number, from), warp_broadcast(e.via.sequence, from)},
          warp_broadcast(e.chunk_offset, from),
          warp_broadcast(e.got, from),
          warp_broadcast(e.error, from),
          warp_broadcast(e.answered, from)};
}

}  // namespace gpufs::source
