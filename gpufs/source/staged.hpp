// The staged source: requests for pages, their answers, and errors.
#pragma once

#include <gpufs/cache/page_table.hpp>
#include <gpufs/cache/take.hpp>
#include <gpufs/handle/counters.hpp>
#include <gpufs/ring/block_requests.hpp>
#include <gpufs/ring/channel.hpp>
#include <gpufs/ring/submit.hpp>
#include <gpufs/source/fill.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::source {

using namespace base;

/// Names the page to fetch. `expected` is its number of bytes in the file, whose end may cut it
/// short.
struct page_name {
  std::uint64_t version;
  std::uint64_t page;
  std::int32_t fd;
  std::uint64_t expected;
  /// the file is written, and bytes beyond its host file are zeros
  bool zero_filled;
};

/// The daemon's answer to a request: its result. If it was given up: -EIO or -ETIMEDOUT.
struct answer {
  std::int32_t result;
  bool answered;
};

/// Removes a filling page from the table and fails it, so that waiting callers see the error. All
/// lanes of a warp call.
__device__ __forceinline__ void fail_page(fs_ref const& fs, std::uint32_t frame,
                                          std::int32_t error) {
  cache::remove(fs.cache, frame);
  if (lane_id() == 0) {
    cache::fail(fs.cache.headers[frame], error);
    handle::add(fs, handle::counter::errors);
  }
  __syncwarp();
}

/// Returns the request for bytes [from, expected) of a page, through an owned page channel.
__device__ __forceinline__ rpc::request page_request(fs_ref const& fs, page_name const& name,
                                                     ring::channel const& via, std::uint64_t from) {
  rpc::request r;
  r.op = rpc::operation::read;
  r.flags = name.zero_filled ? rpc::read_zeros_beyond_end : 0;
  r.channel = via.number;
  r.sequence = via.sequence;
  r.file = name.fd;
  r.offset = (name.page << fs.cache.page_shift) + from;
  r.length = name.expected - from;
  r.staging = ring::staging_offset(fs.channels.page, via) + from;
  return r;
}

/// Whether a controller may owe the answer to a request for the page. Dirty bytes of a written file
/// are the daemon's to find.
__device__ __forceinline__ bool may_be_owed(page_name const& name) {
  return !name.zero_filled && rpc::block_backing_of(name.version) != 0;
}

/// Sends the reads of bytes [from, expected) of the lanes' pages to controllers, where files are
/// read so. All lanes of the team call; lanes with `wants` own their page channels. Returns true in
/// the lanes whose read was sent. The others' are the daemon's.
template <class Team>
__device__ __forceinline__ bool read_by_drives(fs_ref const& fs, bool wants, page_name const& name,
                                               ring::channel const& via, std::uint64_t from) {
  bool const may = wants && may_be_owed(name);
  if (Team::ballot(may) == 0) return false;
  return ring::send_reads<Team>(fs.self, may ? rpc::block_backing_of(name.version) : 0, via.number,
                                via.sequence, (name.page << fs.cache.page_shift) + from,
                                name.expected - from,
                                ring::staging_offset(fs.channels.page, via) + from);
}

/// Returns the address of a page's bytes that have arrived.
__device__ __forceinline__ std::byte* source_of(fs_ref const& fs, fill const& e) {
  if (e.kind == source_kind::window) return reinterpret_cast<std::byte*>(e.address);
  std::byte* const base = e.in_twin ? fs.link.twin : fs.link.shared.staging;
  return base +
         ring::staging_offset(
             e.kind == source_kind::chunk ? fs.prefetch.channels : fs.channels.page, e.via) +
         e.position;
}

/// Waits for the answers to up to 32 requests at once. All lanes of a warp call; lanes with
/// `pending` have a request each. `owed`: controllers may owe the answers. Then the first look is
/// at GPU memory. `start`: of device_clock_ns(), from when on rpc_timeout counts. If it is over,
/// the answers that are there are still taken.
__device__ __forceinline__ answer await_answers(fs_ref const& fs, bool pending,
                                                ring::channel const& via, bool owed,
                                                std::uint64_t start = device_clock_ns()) {
  answer got{0, false};
  unsigned pause = 0;
  for (unsigned round = 1;; ++round) {
    if (pending && !owed) {
      // Pairs with the daemon's release. A thread that sees the sequence also sees the bytes in
      // staging.
      std::uint64_t const word = ring::load_completion(fs, via.number, memory_order_acquire);
      if (rpc::completion_sequence(word) == via.sequence) {
        got = {rpc::completion_result(word), true};
        pending = false;
      }
    }
    if (__ballot_sync(all_lanes, pending) == 0) return got;
    bool const owes = __ballot_sync(all_lanes, owed) != 0;
    if (owes || round % 2 == 0)
      owed = ring::help_drives<whole_warp>(fs.self, pending, via.number, round);
    // Waits for controllers have more rounds. They look across the bus as often as others.
    if (round % (owes ? 128 : 16) == 0) {
      int error = 0;
      if (lane_id() == 0) error = handle::wait_error(fs, start);
      error = warp_broadcast(error);
      if (error != 0) {
        if (pending) got = {error, false};
        if (pending && error == -ETIMEDOUT) {
          handle::add(fs, handle::counter::timeouts);
          ring::note_no_answer(fs, via.number);
        }
        __syncwarp();
        return got;
      }
      if (owed && handle::past_deadline(fs, start, 2)) ring::note_late_answer(fs.self, via.number);
    }
    if (owes && __ballot_sync(all_lanes, owed) == 0) continue;  // the answers are there
    backoff(pause, owes ? handle::device_pause_ns : handle::host_pause_ns);
  }
}

/// ring::await() for the answer to a read: helps the controller that may owe it. `owed` as above.
/// One thread calls.
__device__ __forceinline__ std::int32_t await_answer(fs_ref const& fs, ring::channel const& c,
                                                     bool owed, bool& answered) {
  std::uint64_t word = 0;
  unsigned round = 0;
  unsigned const longest_pause = owed ? handle::device_pause_ns : handle::host_pause_ns;
  std::uint64_t const start = device_clock_ns();
  int const error = handle::spin_until(fs, longest_pause, [&] {
    ++round;
    if (owed || round % 2 == 0) owed = ring::help_drives<one_lane>(fs.self, true, c.number, round);
    if (owed && round % 128 == 0 && handle::past_deadline(fs, start, 2))
      ring::note_late_answer(fs.self, c.number);
    if (owed) return false;
    // Pairs as in await_answers().
    word = ring::load_completion(fs, c.number, memory_order_acquire);
    return rpc::completion_sequence(word) == c.sequence;
  });
  answered = error == 0;
  if (error == -ETIMEDOUT) ring::note_no_answer(fs, c.number);
  return answered ? rpc::completion_result(word) : error;
}

/// Takes the answer `result` to a page's own request, and requests the rest until the page is
/// finished: complete, at the file's end, or failed. A short answer can mean each of these; the
/// next answer decides. Controllers may ask for another try. Any single thread calls.
__device__ __forceinline__ void finish_page(fs_ref const& fs, page_name const& name, fill& e,
                                            std::int32_t result) {
  unsigned tries = 0;
  for (bool all_in_twin = true;;) {
    bool const again = result == ring::try_again && tries++ < nvme::most_retries;
    if (result < 0 && !again) {
      e.error = result == ring::try_again ? -EIO : result;
      return;
    }
    if (!again) e.got += rpc::bytes_read(result);
    // Staging has all bytes in any case. The twin is used only if it has all of them, too.
    all_in_twin = all_in_twin && rpc::is_in_twin(result);
    if (!again &&
        (e.got >= name.expected || result == 0)) {  // complete, or the file has become shorter
      if (all_in_twin) e.in_twin = 1;
      return;
    }
    ring::next_request(fs.channels.page, e.via);
    if (!read_by_drives<one_lane>(fs, true, name, e.via, e.got))
      ring::submit_alone(fs, page_request(fs, name, e.via, e.got));
    handle::add(fs, handle::counter::requests);
    handle::add(fs, handle::counter::read_requests);
    bool answered = false;
    result = await_answer(fs, e.via, may_be_owed(name), answered);
    e.answered = answered;
    if (!answered && result == -ETIMEDOUT) handle::add(fs, handle::counter::timeouts);
  }
}

/// The same for a warp. All lanes call with the same entry, and get the same result.
GPUFS_LIBRARY_STAGE fill complete_page(fs_ref const* __restrict__ handle, page_name const name,
                                       fill e, std::int32_t result) {
  if (lane_id() == 0) finish_page(*handle, name, e, result);
  __syncwarp();  // all lanes come after lane 0's acquires
  return warp_broadcast(e, 0);
}

}  // namespace gpufs::source
