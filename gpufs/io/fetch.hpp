// Bringing one page in: take a frame, enter it, ask the daemon, put the bytes in place, publish or fail. All by one warp.
#pragma once

#include <gpufs/cache/copy.hpp>
#include <gpufs/cache/page_table.hpp>
#include <gpufs/cache/sweep.hpp>
#include <gpufs/io/counters.hpp>
#include <gpufs/rpc/client.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

/// What became of a page that a warp set out to get. The frame is pinned in hit, waiting and fetching.
enum class page_status : std::uint32_t {
  hit,       ///< ready
  waiting,   ///< another caller is bringing it in
  fetching,  ///< this warp is bringing it in; it must end in finish_fetch()
  no_frame,  ///< all frames it looked at are pinned; nothing is held
  failed,    ///< `error` says why; nothing is held
};

/// The page a fetch is about. `expected` = bytes of it that the file should have (its end may cut it short).
struct page_name {
  std::uint64_t uid;
  std::uint64_t page;
  std::int32_t fd;
  std::uint64_t expected;
};

struct page_work {
  page_status status = page_status::failed;
  std::uint32_t frame = 0;
  channel via;
  std::int32_t error = 0;
};

/// What arrived: `got` bytes of the page, then (if not 0) the error that ended it.
struct arrival {
  std::uint64_t got;
  std::int32_t error;
};

namespace detail {

/// Whether a warp that finds everything pinned since `start` (device_clock_ns) must stop trying: 0, -EIO or -ENOMEM. All lanes call.
__device__ inline std::int32_t give_up(fs_ref const& fs, std::uint64_t start) {
  std::int32_t error = 0;
  if (lane_id() == 0) error = daemon_stopped(fs) ? -EIO : device_clock_ns() - start > fs.timeout_ns ? -ENOMEM : 0;
  return warp_broadcast(error);
}

/// Takes a frame. With `may_wait` (only for a caller that holds no frame: nobody who holds one waits for another, so holders always
/// get on) waits up to the timeout. Returns the frame in phase evicting, or -1, or -ENOMEM / -EIO.
__device__ inline std::int64_t take_frame(fs_ref const& fs, bool may_wait) {
  std::uint64_t const start = device_clock_ns();
  for (unsigned pause = 0;;) {
    taken_frame const t = sweep(fs.cache);
    if (t.frame >= 0) {
      if (t.evicted && lane_id() == 0) count(fs, counter::evictions);
      return t.frame;
    }
    if (!may_wait) return -1;
    if (std::int32_t const error = give_up(fs, start); error != 0) return error;
    backoff(pause);
  }
}

/// Takes the page back out of the table and lets everybody who waits for it see the error.
__device__ inline void fail_page(fs_ref const& fs, std::uint32_t frame, std::int32_t error) {
  remove(fs.cache, frame);
  if (lane_id() == 0) {
    fail(fs.cache.headers[frame], error);
    unpin(fs.cache.headers[frame]);
    count(fs, counter::errors);
  }
  __syncwarp();
}

/// Asks for bytes [from, expected) of the page over a channel that is held.
__device__ inline void submit_read(fs_ref const& fs, page_name const& name, channel const& via, std::uint64_t from) {
  rpc::request r;
  r.op = rpc::operation::read;
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

__device__ inline void end_channel(fs_ref const& fs, channel const& via, bool answered) {
  if (answered) {
    release_channel(fs.page_channels, via);
  } else {
    abandon_channel(fs.page_channels, via);
  }
}

}  // namespace detail

/// Finds a page or claims the task of bringing it in: frame taken and entered, filling, pinned. Sends no request. status: hit, waiting,
/// fetching, no_frame, failed.
__device__ inline page_work enter_page(fs_ref const& fs, page_name const& name, bool may_wait) {
  std::uint64_t const start = device_clock_ns();
  for (;;) {
    lookup const found = find_and_pin(fs.cache, name.uid, name.page);
    if (found.result == lookup_result::hit) return {page_status::hit, found.frame, {}, 0};
    if (found.result == lookup_result::filling) return {page_status::waiting, found.frame, {}, 0};

    std::int64_t const taken = detail::take_frame(fs, may_wait);
    if (taken == -1) return {page_status::no_frame, 0, {}, 0};
    if (taken < 0) return {page_status::failed, 0, {}, static_cast<std::int32_t>(taken)};
    auto const frame = static_cast<std::uint32_t>(taken);
    if (lane_id() == 0) begin_fill(fs.cache.headers[frame], name.uid, name.page);
    __syncwarp();
    insert_result const entered = insert(fs.cache, name.uid, name.page, frame);
    if (entered == insert_result::inserted) return {page_status::fetching, frame, {}, 0};

    if (lane_id() == 0) release_filling(fs.cache.headers[frame]);
    __syncwarp();
    if (entered == insert_result::duplicate) continue;
    if (evict_from_bucket(fs.cache, name.uid, name.page)) {
      if (lane_id() == 0) count(fs, counter::evictions);
    } else if (!may_wait) {
      return {page_status::no_frame, 0, {}, 0};
    } else if (std::int32_t const error = detail::give_up(fs, start); error != 0) {
      return {page_status::failed, 0, {}, error};
    }
  }
}

/// Sends the request for a page this warp entered. Changes `work` to failed, with the page failed for all, if no channel can be had.
__device__ inline void request_page(fs_ref const& fs, page_name const& name, page_work& work) {
  std::int32_t error = 0;
  if (lane_id() == 0) {
    error = acquire_channel(fs, fs.page_channels, work.via);
    count(fs, counter::misses);
  }
  error = warp_broadcast(error);
  if (error != 0) {
    detail::fail_page(fs, work.frame, error);
    work.status = page_status::failed;
    work.error = error;
    return;
  }
  work.via.number = warp_broadcast(work.via.number);
  work.via.sequence = warp_broadcast(work.via.sequence);
  detail::submit_read(fs, name, work.via, 0);
}

/// Waits for the bytes of a page this warp requested. `answered` tells what end_fetch() must do with the channel.
__device__ inline arrival await_page(fs_ref const& fs, page_name const& name, page_work& work, bool& answered) {
  arrival a{0, 0};
  for (;;) {
    std::int32_t result = 0;
    bool ok = false;
    if (lane_id() == 0) {
      result = await(fs, work.via, ok);
      if (!ok && result == -ETIMEDOUT) count(fs, counter::timeouts);
    }
    result = warp_broadcast(result);
    answered = warp_broadcast(static_cast<std::uint32_t>(ok)) != 0;
    if (result < 0) {
      a.error = result;
      return a;
    }
    a.got += static_cast<std::uint32_t>(result);
    if (a.got >= name.expected || result == 0) return a;  // complete, or the file has become shorter
    // Short: the end of the file, or an error behind the bytes. Asking for the rest tells which.
    if (lane_id() == 0) next_request(fs.page_channels, work.via);
    work.via.sequence = warp_broadcast(work.via.sequence);
    detail::submit_read(fs, name, work.via, a.got);
  }
}

/// Ends a fetch, after a barrier with all who pulled: the page is published, or failed if an error ended it. The frame stays pinned
/// only for those who wait for it.
__device__ inline void end_fetch(fs_ref const& fs, page_work const& work, arrival const& a, bool answered) {
  __syncwarp();
  if (a.error != 0) {
    detail::fail_page(fs, work.frame, a.error);
  } else if (lane_id() == 0) {
    publish(fs.cache.headers[work.frame], static_cast<std::uint32_t>(a.got));
    unpin(fs.cache.headers[work.frame]);
  }
  if (lane_id() == 0) {
    count(fs, counter::bytes_pulled, a.got);
    detail::end_channel(fs, work.via, answered);
  }
  __syncwarp();
}

/// Waits until the page another caller is bringing in is there. Only for a caller that owes nobody a page. `got` = bytes it has. The pin
/// stays in any case.
__device__ inline arrival await_other(fs_ref const& fs, std::uint32_t frame) {
  std::int32_t error = 0;
  std::uint32_t valid = 0;
  if (lane_id() == 0) {
    frame_header& h = fs.cache.headers[frame];
    phase now = phase::filling;
    // Pairs with publish() and fail(). The filler waits for the daemon only, within its own timeout; ours may run out a little earlier.
    error = spin_until(fs, [&] { return (now = phase_of(frame_state(h).load(memory_order_acquire))) != phase::filling; });
    if (error == 0 && now == phase::failed) error = atomic_ref<std::int32_t, scope::device>(h.error).load(memory_order_relaxed);
    if (error == 0) valid = atomic_ref<std::uint32_t, scope::device>(h.valid).load(memory_order_relaxed);
    count(fs, counter::waits);
  }
  error = warp_broadcast(error);
  return {warp_broadcast(valid), error};
}

}  // namespace gpufs
