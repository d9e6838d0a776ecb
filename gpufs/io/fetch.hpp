// The pieces of bringing pages in that concern one page or one answer.
#pragma once

#include <gpufs/cache/page_table.hpp>
#include <gpufs/cache/take.hpp>
#include <gpufs/io/counters.hpp>
#include <gpufs/io/page_entry.hpp>
#include <gpufs/rpc/client.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

/// The page a fetch is about. `expected` = bytes of it that the file should have (its end may cut
/// it short).
struct page_name {
  std::uint64_t uid;
  std::uint64_t page;
  std::int32_t fd;
  std::uint64_t expected;
  bool whole;  ///< the file is written: what its host file does not have of the page are zeros
};

/// The daemon's answer to one request: its result, or -EIO / -ETIMEDOUT if it was given up.
struct answer {
  std::int32_t result;
  bool answered;
};

namespace detail {

/// Whether a warp that has found nothing free since `since` (device_clock_ns; 0: from now on) must
/// stop trying: 0, -EIO (the daemon has stopped) or `late`. All lanes call.
__device__ __forceinline__ std::int32_t starved(fs_ref const& fs, std::uint64_t& since,
                                                std::int32_t late) {
  std::uint64_t const now = device_clock_ns();
  if (since == 0) since = now;
  std::int32_t error = 0;
  if (lane_id() == 0) error = daemon_stopped(fs) ? -EIO : now - since > fs.timeout_ns ? late : 0;
  return warp_broadcast(error);
}

/// Takes a page that is being filled back out of the table and lets everybody who waits for it see
/// the error. All lanes call.
__device__ __forceinline__ void fail_page(fs_ref const& fs, std::uint32_t frame,
                                          std::int32_t error) {
  remove(fs.cache, frame);
  if (lane_id() == 0) {
    fail(fs.cache.headers[frame], error);
    count(fs, counter::errors);
  }
  __syncwarp();
}

/// The request for bytes [from, expected) of a page over a page channel that is held.
__device__ __forceinline__ rpc::request page_request(fs_ref const& fs, page_name const& name,
                                                     channel const& via, std::uint64_t from) {
  rpc::request r;
  r.op = rpc::operation::read;
  r.flags = name.whole ? rpc::read_zeros_beyond_end : 0;
  r.channel = via.number;
  r.sequence = via.sequence;
  r.file = name.fd;
  r.offset = (name.page << fs.cache.page_shift) + from;
  r.length = name.expected - from;
  r.staging = staging_offset(fs.page_channels, via) + from;
  return r;
}

/// Where a page's bytes are, once they have arrived.
__device__ __forceinline__ std::byte* source_of(fs_ref const& fs, page_entry const& e) {
  if (e.in_window()) return reinterpret_cast<std::byte*>(e.window_address());
  std::byte* const base = (e.chunk_offset & in_twin) != 0 ? fs.twin : fs.shared.staging;
  return base +
         staging_offset(e.has_own_channel() ? fs.page_channels : fs.prefetch.channels, e.via) +
         e.chunk_offset % in_twin;
}

/// Waits, lane by lane, for the answers to up to 32 requests at once: `pending` lanes have one. All
/// lanes of a warp call.
__device__ __forceinline__ answer await_answers(fs_ref const& fs, bool pending,
                                                channel const& via) {
  answer got{0, false};
  std::uint64_t const start = device_clock_ns();
  unsigned pause = 0;
  for (unsigned round = 1;; ++round) {
    if (pending) {
      // Pairs with the daemon's release store: who sees the sequence sees the bytes in staging.
      std::uint64_t const word = load_completion(fs, via.number, memory_order_acquire);
      if (rpc::completion_sequence(word) == via.sequence) {
        got = {rpc::completion_result(word), true};
        pending = false;
      }
    }
    if (__ballot_sync(all_lanes, pending) == 0) return got;
    if (round % 16 == 0) {
      int error = 0;
      if (lane_id() == 0)
        error = daemon_stopped(fs)                          ? -EIO
                : device_clock_ns() - start > fs.timeout_ns ? -ETIMEDOUT
                                                            : 0;
      error = warp_broadcast(error);
      if (error != 0) {
        if (pending) got = {error, false};
        if (pending && error == -ETIMEDOUT) count(fs, counter::timeouts);
        __syncwarp();
        return got;
      }
    }
    backoff(pause, host_pause_ns);
  }
}

/// Takes the answer `result` to a page's own request, and asks for the rest until the page is
/// complete, at the file's end, or in error: short means any of these, and the next answer tells
/// which. Any single thread calls.
__device__ __forceinline__ void finish_page(fs_ref const& fs, page_name const& name, page_entry& e,
                                            std::int32_t result) {
  for (bool all_in_twin = true;;) {
    if (result < 0) {
      e.error = result;
      return;
    }
    e.got += rpc::bytes_read(result);
    // What is in the twin is in staging, too: unless all of it is in the twin, staging has it
    // together.
    all_in_twin = all_in_twin && rpc::is_in_twin(result);
    if (e.got >= name.expected || result == 0) {  // complete, or the file has become shorter
      if (all_in_twin) e.chunk_offset |= in_twin;
      return;
    }
    next_request(fs.page_channels, e.via);
    submit_alone(fs, page_request(fs, name, e.via, e.got));
    count(fs, counter::requests);
    count(fs, counter::read_requests);
    bool answered = false;
    result = await(fs, e.via, answered);
    e.answered = answered ? 1 : 0;
    if (!answered && result == -ETIMEDOUT) count(fs, counter::timeouts);
  }
}

/// The same for a warp: `e` is the page's entry, the same in all lanes, and so is what it becomes.
/// All lanes call.
GPUFS_STAGE inline page_entry complete_page(fs_ref const* handle, page_name const name,
                                            page_entry e, std::int32_t result) {
  if (lane_id() == 0) finish_page(*handle, name, e, result);
  __syncwarp();  // all lanes come after lane 0's acquires
  return warp_broadcast(e, 0);
}

}  // namespace detail

}  // namespace gpufs
