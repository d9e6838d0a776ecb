// Bringing one page in: take a frame, enter it, ask the daemon, put the bytes in place, publish or fail. All by one warp.
#pragma once

#include <gpufs/cache/copy.hpp>
#include <gpufs/cache/lra.hpp>
#include <gpufs/cache/page_table.hpp>
#include <gpufs/io/counters.hpp>
#include <gpufs/rpc/client.hpp>
#include <prefetcher/readahead.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

/// What became of a page that a warp set out to get. The frame is pinned in hit, waiting and fetching.
enum class page_status : std::uint32_t {
  hit,       ///< ready
  waiting,   ///< another caller is bringing it in
  fetching,  ///< this warp is bringing it in; it must end in end_fetch() or publish_batch()
  no_frame,  ///< all frames it looked at are pinned; nothing is held
  failed,    ///< `error` says why; nothing is held
};

/// The page a fetch is about. `expected` = bytes of it that the file should have (its end may cut it short).
struct page_name {
  std::uint64_t uid;
  std::uint64_t page;
  std::int32_t fd;
  std::uint64_t expected;
  bool whole;  ///< the file is written: what its host file does not have of the page are zeros
};

/// page_work::chunk_offset of a page that has a channel to itself.
inline constexpr std::uint32_t own_channel = 0xffffffffu;

struct page_work {
  page_status status = page_status::failed;
  std::uint32_t frame = 0;
  channel via;
  std::int32_t error = 0;
  std::uint32_t chunk_offset = own_channel;  ///< where the page starts in the chunk of `via`, or own_channel
  std::uint32_t valid = 0;                   ///< hit: bytes that the page has
};

/// What arrived: `got` bytes of the page, then (if not 0) the error that ended it.
struct arrival {
  std::uint64_t got;
  std::int32_t error;
};

namespace detail {

/// Takes a frame from the slot's queue, or from all. Returns it in phase evicting, or -1.
__device__ __forceinline__ std::int64_t take_frame(fs_ref const& fs, std::int32_t slot) {
  bool const own = fs.cache.policy == replacement::lra && slot >= 0;
  taken_frame const t = own ? take_lra(fs.cache, slot) : sweep(fs.cache);
  if (t.evicted && lane_id() == 0) count(fs, counter::evictions);
  return t.frame;
}

/// Whether a warp that has found every frame pinned since `since` (device_clock_ns; 0: from now on) must stop trying: 0, -EIO or
/// -ENOMEM. All lanes call.
__device__ __forceinline__ std::int32_t starved(fs_ref const& fs, std::uint64_t& since) {
  std::uint64_t const now = device_clock_ns();
  if (since == 0) since = now;
  std::int32_t error = 0;
  if (lane_id() == 0) error = daemon_stopped(fs) ? -EIO : now - since > fs.timeout_ns ? -ENOMEM : 0;
  return warp_broadcast(error);
}

/// Takes the page back out of the table and lets everybody who waits for it see the error.
__device__ __forceinline__ void fail_page(fs_ref const& fs, std::uint32_t frame, std::int32_t error) {
  remove(fs.cache, frame);
  if (lane_id() == 0) {
    fail(fs.cache.headers[frame], error);
    count(fs, counter::errors);
  }
  __syncwarp();
}

/// Asks for bytes [from, expected) of the page over a channel that is held.
__device__ __forceinline__ void submit_read(fs_ref const& fs, page_name const& name, channel const& via, std::uint64_t from) {
  rpc::request r;
  r.op = rpc::operation::read;
  r.flags = name.whole ? rpc::read_zeros_beyond_end : 0;
  r.channel = via.number;
  r.sequence = via.sequence;
  r.file = name.fd;
  r.offset = (name.page << fs.cache.page_shift) + from;
  r.length = name.expected - from;
  r.staging = staging_offset(fs.page_channels, via) + from;
  submit(fs, r);
  if (lane_id() == 0) {
    count(fs, counter::requests);
    count(fs, counter::read_requests);
  }
}

__device__ __forceinline__ void end_channel(fs_ref const& fs, channel const& via, bool answered) {
  if (answered) {
    release_channel(fs.page_channels, via);
  } else {
    abandon_channel(fs.page_channels, via);
  }
}

}  // namespace detail

__device__ __forceinline__ page_work hit_page(lookup const& found) {
  return {page_status::hit, found.frame, {}, 0, own_channel, found.valid};
}

/// Finds a page or claims the task of bringing it in: frame taken and entered, filling, pinned. Sends no request. status: hit, waiting,
/// fetching, no_frame, failed. `slot`: the context's, whose queue the frame comes from, or -1.
__device__ __forceinline__ page_work enter_page(fs_ref const& fs, std::int32_t slot, page_name const& name) {
  for (;;) {
    lookup const found = find_and_pin(fs.cache, name.uid, name.page);
    if (found.result == lookup_result::hit) return hit_page(found);
    if (found.result == lookup_result::filling) return {page_status::waiting, found.frame, {}, 0};

    std::int64_t const taken = detail::take_frame(fs, slot);
    if (taken < 0) return {page_status::no_frame, 0, {}, 0};
    auto const frame = static_cast<std::uint32_t>(taken);
    if (lane_id() == 0) begin_fill(fs.cache.headers[frame], name.uid, name.page);
    __syncwarp();
    insert_result const entered = insert(fs.cache, name.uid, name.page, frame);
    if (entered == insert_result::inserted) {
      if (lane_id() == 0) count(fs, counter::misses);
      return {page_status::fetching, frame, {}, 0};
    }
    if (lane_id() == 0) release_filling(fs.cache.headers[frame]);
    __syncwarp();
    if (entered == insert_result::duplicate) continue;
    if (!evict_from_bucket(fs.cache, name.uid, name.page)) return {page_status::no_frame, 0, {}, 0};
    if (lane_id() == 0) count(fs, counter::evictions);
  }
}

/// Sends the request for a page this warp entered. Changes `work` to failed, with the page failed for all, if no channel can be had.
__device__ __forceinline__ void request_page(fs_ref const& fs, page_name const& name, page_work& work) {
  if (std::int32_t const error = acquire_channel(fs, fs.page_channels, work.via); error != 0) {
    detail::fail_page(fs, work.frame, error);
    work.status = page_status::failed;
    work.error = error;
    return;
  }
  detail::submit_read(fs, name, work.via, 0);
}

/// Sees that the bytes of a page this warp entered are on their way: in a chunk, or by a request of its own.
__device__ __forceinline__ void request_or_find(fs_ref const& fs, prefetch::readahead const& chunks, page_name const& name,
                                                page_work& work) {
  std::uint64_t const begin = name.page << fs.cache.page_shift;
  prefetch::place const at = chunks.find(name.uid, begin, begin + name.expected);
  if (at.found) {
    work.via = at.via;
    work.chunk_offset = at.offset;
  } else {
    request_page(fs, name, work);
  }
}

/// Where a page's bytes land.
__device__ __forceinline__ std::byte* source_of(fs_ref const& fs, page_work const& work) {
  if (work.chunk_offset == own_channel) return staging_bytes(fs, fs.page_channels, work.via);
  return staging_bytes(fs, fs.prefetch.channels, work.via) + work.chunk_offset;
}

/// The daemon's answer to one request: its result, or -EIO / -ETIMEDOUT if it was given up.
struct answer {
  std::int32_t result;
  bool answered;
};

/// Waits for the answer to `via`. All lanes call.
__device__ __forceinline__ answer await_answer(fs_ref const& fs, channel const& via) {
  std::int32_t result = 0;
  bool ok = false;
  if (lane_id() == 0) {
    result = await(fs, via, ok);
    if (!ok && result == -ETIMEDOUT) count(fs, counter::timeouts);
  }
  result = warp_broadcast(result);
  bool const answered = warp_broadcast(static_cast<std::uint32_t>(ok)) != 0;
  __syncwarp();  // all lanes come after lane 0's acquire
  return {result, answered};
}

/// What the answer means for a page this warp requested, or whose chunk it is; asks for what is missing. `got.answered` tells what
/// end_fetch() must do with the page's own channel.
__device__ __forceinline__ arrival settle(fs_ref const& fs, page_name const& name, page_work& work, answer& got) {
  if (work.chunk_offset != own_channel) {
    if (!got.answered) return {0, got.result};
    if (got.result >= 0 && static_cast<std::uint32_t>(got.result) >= work.chunk_offset + name.expected) {
      if (lane_id() == 0) count(fs, counter::prefetch_hits);
      return {name.expected, 0};
    }
    // The chunk failed or came short: what that means for this page, a request of its own tells.
    work.chunk_offset = own_channel;
    request_page(fs, name, work);
    if (work.status == page_status::failed) return {0, work.error};
    got = await_answer(fs, work.via);
  }
  arrival a{0, 0};
  for (;;) {
    if (got.result < 0) {
      a.error = got.result;
      return a;
    }
    a.got += static_cast<std::uint32_t>(got.result);
    if (a.got >= name.expected || got.result == 0) return a;  // complete, or the file has become shorter
    // Short: the end of the file, or an error behind the bytes. Asking for the rest tells which.
    if (lane_id() == 0) next_request(fs.page_channels, work.via);
    work.via.sequence = warp_broadcast(work.via.sequence);
    detail::submit_read(fs, name, work.via, a.got);
    got = await_answer(fs, work.via);
  }
}

/// Ends a fetch, after a barrier with all who pulled: the page is published, or failed if an error ended it. The frame stays pinned
/// only for those who wait for it.
__device__ __forceinline__ void end_fetch(fs_ref const& fs, page_work const& work, arrival const& a, bool answered) {
  __syncwarp();
  if (a.error != 0) {
    detail::fail_page(fs, work.frame, a.error);
  } else if (lane_id() == 0) {
    publish(fs.cache.headers[work.frame], static_cast<std::uint32_t>(a.got));
  }
  if (lane_id() == 0) {
    count(fs, counter::bytes_pulled, a.got);
    if (work.chunk_offset == own_channel) detail::end_channel(fs, work.via, answered);
  }
  __syncwarp();
}

/// What a wait for another caller's page came to.
struct awaited {
  enum outcome : std::uint32_t {
    ready,    ///< `got` bytes are there
    failed,   ///< `error`
    another,  ///< the frame holds, or was to hold, another page: look up again
  };
  outcome what;
  std::uint32_t got;
  std::int32_t error;
};

/// Waits until the page another caller is bringing in is there. Only for a caller that owes nobody a page. The pin stays in any case.
__device__ __forceinline__ awaited await_other(fs_ref const& fs, page_name const& name, std::uint32_t frame) {
  std::int32_t error = 0;
  std::uint32_t valid = 0;
  std::uint32_t ours = 1;
  if (lane_id() == 0) {
    frame_header& h = fs.cache.headers[frame];
    // The filler waits for the daemon only, within its own timeout; ours may run out a little earlier.
    error =
        spin_until(fs, device_pause_ns, [&] { return phase_of(frame_state(h).load(memory_order_relaxed)) != phase::filling; });
    if (error == 0) {
      phase const now = phase_of(frame_state(h).load(memory_order_acquire));  // pairs with publish() and fail()
      ours = names(h, name.uid, name.page);
      if (now == phase::failed) error = atomic_ref<std::int32_t, scope::device>(h.error).load(memory_order_relaxed);
      if (now != phase::failed && now != phase::ready)
        ours = 0;  // its filler found the page entered by somebody else, and let go
      valid = atomic_ref<std::uint32_t, scope::device>(h.valid).load(memory_order_relaxed);
    }
    count(fs, counter::waits);
  }
  ours = warp_broadcast(ours);
  error = warp_broadcast(error);
  valid = warp_broadcast(valid);
  __syncwarp();  // all lanes come after lane 0's acquire
  return {ours == 0 ? awaited::another : error != 0 ? awaited::failed : awaited::ready, valid, error};
}

}  // namespace gpufs
