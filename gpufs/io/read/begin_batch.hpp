// Prepares the missing pages of a batch before bytes move: chunks, channels, frames, entries in the
// page table, requests, answers. The group's first warp does this. Page first + i belongs to lane
// i, and all lanes work at once.
#pragma once

#include <gpufs/cache/line_wait.hpp>
#include <gpufs/io/group.hpp>
#include <gpufs/io/read/batch.hpp>
#include <gpufs/io/read/enter_page.hpp>
#include <gpufs/ring/submit.hpp>
#include <gpufs/source/staged.hpp>
#include <gpufs/source/window.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::io {

using namespace base;

/// The address of the lane's page in a file window. Returns 0 if the page's bit in `absent` is not
/// set, if no file window has it, or if the file is written. `any`: of source::load_any_windows().
/// Any thread calls.
__device__ __forceinline__ std::uint64_t find_windows(fs_ref const& fs, batch const& b,
                                                      std::uint32_t absent, std::uint64_t any) {
  if (any == 0 || b.span.zero_filled || (absent >> lane_id() & 1) == 0) return 0;
  std::uint64_t const page = b.first + lane_id();
  return source::window_address(fs.self, b.span.version, page << b.span.page_shift,
                                b.span.name(page).expected);
}

/// The result of enter_pages(). A page is contested if its lane found a frame but could not enter
/// it. The page is there already, or its bucket was full. Contested pages must be looked up again.
struct entered_pages {
  std::uint32_t entered;
  std::uint32_t contested;
  bool short_of_channels;
};

/// Enters the pages whose bits are set in `absent`, and requests the bytes that no file window or
/// chunk has. `window` is the address of the lane's page in a file window, or 0. Entered pages get
/// their entries in `mine`. All lanes of the first warp call.
///
/// A page is entered only when its bytes have a way to arrive. So no caller waits for a channel or
/// a frame while others wait for its page.
__device__ __forceinline__ entered_pages enter_pages(fs_ref const& fs, batch const& b,
                                                     prefetch::readahead& chunks,
                                                     std::uint32_t absent, std::uint64_t window,
                                                     unsigned attempt, source::fill& mine) {
  unsigned const lane = lane_id();
  bool const registered = window != 0;
  std::uint32_t const unregistered = absent & ~__ballot_sync(all_lanes, registered);
  bool const wants = (absent >> lane & 1) != 0;
  source::page_name const name = b.span.name(b.first + lane);
  prefetch::chunk_position at{false, {}, 0};
  if (b.chunks != nullptr && unregistered != 0) {
    std::uint64_t const begin = name.page << b.span.page_shift;
    at = chunks.find(as_wanted(b), (unregistered >> lane & 1) != 0, begin, begin + name.expected);
  }
  // Each warp starts at channels of its own, and at others with each attempt.
  constexpr unsigned rounds = 4;
  std::uint32_t const from =
      (warp_number() * fs.channels.page.spacing + attempt * (rounds * warp_size + 1)) %
      fs.channels.page.count;
  ring::channel own;
  bool const has_source = registered || at.found;
  bool const has_channel =
      ring::try_channels(fs, fs.channels.page, from, rounds, wants && !has_source, own);
  entry_attempt const a =
      enter_each(fs, b.seat, wants && (has_source || has_channel), name.version, name.page);
  bool const entered = a.entered;
  auto const frame = static_cast<std::uint32_t>(a.taken.frame);
  std::uint32_t const all_entered = __ballot_sync(all_lanes, entered);
  if (b.chunks != nullptr) chunks.entered(as_wanted(b), all_entered);
  if (has_channel && !entered) ring::return_channel(fs.channels.page, own, true);  // never used
  bool const sends = entered && !has_source;
  bool const by_drives = source::read_by_drives<whole_warp>(fs, sends, name, own, 0);
  bool const by_daemon = sends && !by_drives;
  ring::submit_each(fs, by_daemon,
                    by_daemon ? source::page_request(fs, name, own, 0) : rpc::request{});
  if (entered)
    mine = registered ? source::fill::by_window(frame, window, name.expected)
           : at.found ? source::fill::by_chunk(frame, at.via, at.offset)
                      : source::fill::by_channel(frame, own);

  bool const found_full = a.taken.frame >= 0 && a.result == cache::insert_result::full;
  bool const made_room = found_full && make_room(fs, name);
  auto const evictions = count_lanes(__ballot_sync(all_lanes, a.taken.evicted)) +
                         count_lanes(__ballot_sync(all_lanes, made_room));
  auto const requests = count_lanes(__ballot_sync(all_lanes, sends));
  if (lane == 0) {
    handle::add(fs, handle::counter::evictions, evictions);
    handle::add(fs, handle::counter::requests, requests);
    handle::add(fs, handle::counter::read_requests, requests);
  }
  return {all_entered, __ballot_sync(all_lanes, a.taken.frame >= 0 && !entered),
          __ballot_sync(all_lanes, wants && !has_source && !has_channel) != 0};
}

/// Waits for the answers to all pages that this warp fetches and evaluates them. All lanes of the
/// warp call, each with the `name` of its page. Returns the pages whose chunk failed, came
/// short, or is older than a write. These are out of the table again and need requests of their
/// own. `start` as for await_answers().
__device__ __forceinline__ std::uint32_t settle_answers(fs_ref const& fs, batch const& b,
                                                        prefetch::readahead& chunks,
                                                        source::fill& mine,
                                                        source::page_name const& name,
                                                        std::uint64_t start) {
  unsigned const lane = lane_id();
  bool const fetching =
      mine.status == source::page_status::fetching && mine.kind != source::source_kind::window;
  bool const owed = source::may_be_owed(name);
  source::answer const got = source::await_answers(fs, fetching, mine.via, owed, start);
  if (fetching) mine.answered = got.answered;
  bool const own = fetching && mine.kind == source::source_kind::channel;
  bool const in_chunk = fetching && !own;
  chunks.note_answers(in_chunk && got.answered, mine.via);
  std::uint64_t const there = got.result < 0 ? 0 : rpc::bytes_read(got.result);
  // Checked now that the page is in the table: until then a writer may have written it and gone.
  bool const stale = in_chunk && b.span.zero_filled && chunks.overwritten(mine.via);
  bool const whole =
      in_chunk ? !stale && there >= mine.position + name.expected : own && there == name.expected;
  if (whole) {
    mine.got = static_cast<std::uint32_t>(name.expected);
    if (rpc::is_in_twin(got.result)) mine.in_twin = 1;
  }
  if (fetching && !got.answered) mine.error = got.result;
  unsigned const from_chunks = __ballot_sync(all_lanes, in_chunk && whole);
  if (lane == 0) handle::add(fs, handle::counter::prefetch_hits, count_lanes(from_chunks));

  for_each_lane(__ballot_sync(all_lanes, own && !whole && got.answered), [&](unsigned i) {
    source::fill const e =
        source::complete_page(fs.self, b.span.name(warp_broadcast(name.page, static_cast<int>(i))),
                              warp_broadcast(mine, i), warp_broadcast(got.result, i));
    if (lane == i) mine = e;
  });
  bool const chunk_failed = in_chunk && !whole && got.answered;
  unsigned const failed = __ballot_sync(all_lanes, chunk_failed);
  if (failed != 0) {
    cache::remove_each(fs.cache, chunk_failed, mine.frame);
    if (chunk_failed) {
      // callers that wait for it look it up again
      cache::release_filling(fs.cache.headers[mine.frame]);
      mine = {};
    }
    __syncwarp();
  }
  return failed;
}

/// Looks up the pages whose bits are set in `unknown`. Pages that are ready or on their way get a
/// pin and an entry in `mine`. All lanes of the first warp call. Returns the bits of the absent
/// pages.
__device__ __forceinline__ std::uint32_t look_up(fs_ref const& fs, batch const& b,
                                                 std::uint32_t unknown, source::fill& mine) {
  std::uint32_t absent = 0;
  for_each_lane(unknown, [&](unsigned i) {
    cache::lookup const found = cache::find_and_pin(fs.cache, b.span.version, b.first + i);
    if (found.result == cache::lookup_result::absent) {
      absent |= 1u << i;
    } else if (lane_id() == i) {
      mine = source::fill::by_look_up(found);
    }
  });
  return absent;
}

/// Counts the hits of a batch and says what is to be done with its pages. All lanes of the first
/// warp call.
__device__ __forceinline__ batch_step as_step(fs_ref const& fs, std::int32_t fd,
                                              source::fill const& mine,
                                              prefetch::readahead const& chunks,
                                              std::uint32_t again, std::uint32_t chunk_failed) {
  bool const moves =
      (mine.status == source::page_status::fetching || mine.status == source::page_status::hit) &&
      mine.got != 0;
  unsigned const hits = __ballot_sync(all_lanes, mine.status == source::page_status::hit);
  if (lane_id() == 0) handle::count(fs, fd, handle::file_counter::hits, count_lanes(hits));
  batch_step step;
  step.moving = __ballot_sync(all_lanes, moves);
  step.fetching = __ballot_sync(all_lanes, mine.status == source::page_status::fetching);
  step.waiting = __ballot_sync(all_lanes, mine.status == source::page_status::waiting);
  step.again = again;
  step.chunk_failed = chunk_failed;
  step.registered = __ballot_sync(all_lanes, moves && mine.kind == source::source_kind::window);
  step.ahead = chunks.has_work(step.waiting != 0) ? 1 : 0;
  return step;
}

/// Prepares the pages `todo`. Pages in `absent` were missing in a look-up just before and are not
/// looked up again. All lanes of the group's first warp call. The group has no page pinned.
/// `b.chunks` may be null.
///
/// Leaves one entry per lane in `*entry`. Waits until it has at least one page, or an error for
/// one: it tries for a while, and then in its turn in the frame line. Returns the pages to be
/// moved, those that others bring in, and `again`. The last are pages that found no frame or
/// channel, and pages whose chunk was of no use.
GPUFS_LIBRARY_STAGE batch_step begin_batch(fs_ref const* __restrict__ handle, batch const b,
                                           std::uint32_t todo, std::uint32_t absent,
                                           source::fill* entry) {
  fs_ref const& fs = *handle;
  unsigned const lane = lane_id();
  prefetch::readahead chunks(fs, b.chunks);
  source::fill mine;
  cache::line_wait<> wait(*fs.cache.line);
  bool covered = false;
  bool waited = false;  // for frames or channels: that is no wait for an answer
  for (unsigned attempt = 0; todo != 0; ++attempt) {
    // Under way with the loads of the look-ups, so that they cost no trip of their own.
    std::uint64_t const waiting = wait.look();
    std::uint64_t const any_windows = source::load_any_windows(fs);
    absent = (absent & todo) | look_up(fs, b, todo & ~absent, mine);
    todo &= absent;
    std::uint32_t contested = 0;
    bool short_of_channels = false;
    if (absent != 0) {
      std::uint64_t const window = find_windows(fs, b, absent, any_windows);
      std::uint32_t const unregistered = absent & ~__ballot_sync(all_lanes, window != 0);
      if (wait.may_take(waiting)) {
        if (!covered && b.chunks != nullptr && unregistered != 0)
          cover(fs, b, chunks, unregistered);
        covered = true;
        entered_pages const e = enter_pages(fs, b, chunks, absent, window, attempt, mine);
        todo &= ~e.entered;
        contested = e.contested;
        short_of_channels = e.short_of_channels;
        if (short_of_channels) help_channels<whole_warp>(fs, attempt);
      }
    }
    absent = 0;  // from now on the rest may be in the cache
    if (contested != 0 && attempt < 4) continue;
    if (__ballot_sync(all_lanes, mine.status != source::page_status::none) != 0) break;
    waited = true;
    std::int32_t const error = wait.try_again(fs, short_of_channels ? -ETIMEDOUT : -ENOMEM);
    if (error != 0) {
      // The first of these pages ends the read.
      if (lane == lowest_lane(todo)) {
        mine.status = source::page_status::failed;
        mine.error = error;
      }
      todo = 0;
    }
  }
  bool const got = mine.status != source::page_status::none && mine.error == 0;
  wait.leave(__ballot_sync(all_lanes, got) != 0);
  std::uint32_t const chunk_failed =
      settle_answers(fs, b, chunks, mine, b.span.name(b.first + lane),
                     b.waits_since != 0 && !waited ? b.waits_since : device_clock_ns());
  *entry = mine;
  return as_step(fs, b.span.fd, mine, chunks, todo | chunk_failed, chunk_failed);
}

}  // namespace gpufs::io
