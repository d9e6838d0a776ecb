// The state of one seat's prefetcher in GPU memory.
#pragma once

#include <gpufs/base/host_device.hpp>

#include <prefetcher/readahead_depth.hpp>
#include <prefetcher/stride.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// Consecutive pages requested together, under way or arrived. The bytes are in the staging piece
/// of its channel. length == 0: no chunk.
struct alignas(32) chunk {
  std::uint64_t version;
  std::uint64_t begin;     ///< byte offset in the file, a multiple of the page size
  std::uint32_t length;    ///< bytes requested
  std::uint32_t number;    ///< channel
  std::uint32_t sequence;  ///< of the request
  std::uint32_t serial;    ///< order of requests within the seat
};
static_assert(sizeof(chunk) == 32);

/// Chunks that one seat can have: one per lane.
inline constexpr unsigned chunks_per_context = 32;

/// Chunks that all contexts together have ahead with automatic `prefetch_size`. They keep every
/// daemon thread busy.
inline constexpr std::uint32_t chunks_ahead_together = 64;

/// The longest piece, in chunks, that is read ahead before it is wanted.
inline constexpr std::uint32_t longest_piece = 8;

/// Pieces of `chunks` chunks that one context has ahead at most, beside the current one.
GPUFS_HOST_DEVICE constexpr std::uint32_t pieces_at_once(std::uint32_t chunks) {
  return chunks <= 1 ? chunks_per_context - 2 : chunks_per_context / chunks - 1;
}

/// Batches of missing pages between two looks at the host's advice.
inline constexpr std::uint32_t looks_apart = 64;

/// Pages in a row that a caller must have had to itself before it requests one that is not entered.
inline constexpr std::uint32_t reads_before_sending_first = 16;

/// The advice that a seat's prefetcher uses, and the state in which it was read.
struct advice_seen {
  std::int32_t fd;        ///< 0: nothing is known
  std::uint32_t value;    ///< gpufs::advice
  std::uint32_t changes;  ///< *fs_ref::advice_changes
  std::uint32_t calls;    ///< of current_advice(), since the start of the filesystem
  std::uint64_t epoch;    ///< control_block::epoch
};

/// One per seat. Only the seat's owner uses it. It passes to the next owner with the release and
/// acquire of the seat.
struct readahead_state {
  chunk entry[chunks_per_context];
  /// writes_counted() for the chunk's bytes at its request
  std::uint32_t writes[chunks_per_context];
  stream reads;
  strides pieces;
  std::uint32_t serial;
  /// bit i: entry[i] is a chunk, and the answer to its request has been seen
  std::uint32_t answered;
  /// the current read began with a jump: nothing beyond its end is read ahead
  std::uint32_t confined;
  /// pages in a row that the caller has entered alone, up to `reads_before_sending_first`
  std::uint32_t uncontested;
  advice_seen advised;
};

}  // namespace gpufs::prefetch
