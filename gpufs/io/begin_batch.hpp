// What a group's first warp does about the missing pages of a batch before bytes move: chunks,
// channels, frames, entries in the page table, requests, answers. Page first + i of the batch
// belongs to lane i, and all lanes work at once.
#pragma once

#include <gpufs/io/enter_page.hpp>
#include <gpufs/io/fetch.hpp>
#include <gpufs/io/group.hpp>
#include <gpufs/io/read_span.hpp>
#include <gpufs/io/windows.hpp>

#include <prefetcher/advised.hpp>
#include <prefetcher/readahead.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::detail {

/// The batch of pages first.. that a context's first warp manages.
struct batch {
  read_span span;
  std::uint64_t first;
  unsigned pages;
  std::int32_t slot;                  ///< the context's, or -1
  prefetch::readahead_state* chunks;  ///< the slot's, or null: no prefetching
};

/// The batch as the prefetcher sees it.
__device__ __forceinline__ prefetch::wanted as_wanted(batch const& b, bool sequential) {
  std::uint64_t const begin = b.first << b.span.page_shift;
  std::uint64_t const end = (b.first + b.pages) << b.span.page_shift;
  return {
      b.span.fd,         b.span.uid,   b.span.size, begin, end < b.span.size ? end : b.span.size,
      b.span.page_shift, b.span.whole, sequential};
}

/// Has chunks for the absent pages requested.
__device__ __forceinline__ void cover(fs_ref const& fs, batch const& b, prefetch::readahead& chunks,
                                      std::uint32_t absent) {
  advice const advised = prefetch::current_advice(fs, b.chunks, b.span.fd);
  std::uint64_t const begin = b.first << b.span.page_shift;
  std::uint64_t const from = b.span.begin > begin ? b.span.begin : begin;
  // Once its first batch is through, a read goes on where it stopped.
  prefetch::stream const reads =
      b.first == b.span.first_page() ? chunks.reads() : prefetch::stream{b.span.uid, from, 0};
  std::uint32_t callers = 0;
  if (lane_id() == 0)
    callers =
        atomic_ref<std::uint32_t, scope::device>(*fs.claimed_slots).load(memory_order_relaxed);
  callers = warp_broadcast(callers);
  prefetch::window_rule const rule{
      fs.prefetch.automatic || advised == advice::random,  // then requests are as long as the read
      fs.prefetch.depth,
      prefetch::window_limit(callers, prefetch::chunks_ahead_together,
                             prefetch::chunks_per_context - 2),
      advised == advice::sequential};
  chunks.cover(
      as_wanted(b, prefetch::is_sequential(reads, b.span.uid, from, b.span.page_bytes(), advised)),
      absent, rule);
}

/// Gives back the chunks that lie behind the batch or are of another file, and, if it `requests`,
/// asks for what is missing of the window. All lanes of the first warp call, while others move
/// bytes.
GPUFS_STAGE inline void look_ahead(fs_ref const* handle, batch const b, bool requests) {
  prefetch::readahead chunks(*handle, b.chunks);
  chunks.look_ahead(as_wanted(b, true), requests);
}

/// Where the lane's page, if its bit is set in `absent`, lies in a window; else 0.
__device__ __forceinline__ std::uint64_t find_windows(fs_ref const& fs, batch const& b,
                                                      std::uint32_t absent) {
  if (fs.windows.entries == nullptr || b.span.whole || (absent >> lane_id() & 1) == 0) return 0;
  std::uint64_t const page = b.first + lane_id();
  return window_address(fs.self, b.span.uid, page << b.span.page_shift, b.span.name(page).expected);
}

/// Pages that enter_pages() could enter, and those that turned out to be there already (or met a
/// full bucket): to be looked up.
struct entered_pages {
  std::uint32_t entered;
  std::uint32_t contested;
  bool short_of_channels;
};

/// Enters pages, whose bits are set in `absent`, into the page table and requests what neither a
/// window nor a chunk has. `window`: the address of the lane's page in a window, or 0. A page is
/// entered only when its bytes have a way to arrive: so nobody waits for a channel or a frame while
/// others wait for his page.
__device__ __forceinline__ entered_pages enter_pages(fs_ref const& fs, batch const& b,
                                                     prefetch::readahead const& chunks,
                                                     std::uint32_t absent, std::uint64_t window,
                                                     unsigned attempt, page_entry& mine) {
  unsigned const lane = lane_id();
  bool const mapped = window != 0;
  std::uint32_t const unmapped = absent & ~__ballot_sync(all_lanes, mapped);
  bool const wants = (absent >> lane & 1) != 0;
  page_name const name = b.span.name(b.first + lane);
  prefetch::place at{false, {}, 0};
  if (b.chunks != nullptr && unmapped != 0) {
    std::uint64_t const begin = name.page << b.span.page_shift;
    at = chunks.find(as_wanted(b, true), (unmapped >> lane & 1) != 0, begin, begin + name.expected);
  }
  // Each warp begins where no other does, and elsewhere with each attempt.
  constexpr unsigned rounds = 4;
  std::uint32_t const from =
      (warp_number() * fs.page_channels.spacing + attempt * (rounds * warp_size + 1)) %
      fs.page_channels.count;
  channel own;
  bool const has_source = mapped || at.found;
  bool const has_channel =
      try_channels(fs, fs.page_channels, from, rounds, wants && !has_source, own);
  entry_attempt const a =
      enter_each(fs, b.slot, wants && (has_source || has_channel), name.uid, name.page);
  bool const entered = a.entered;
  auto const frame = static_cast<std::uint32_t>(a.taken.frame);
  if (has_channel && !entered) return_channel(fs.page_channels, own, true);  // never used
  bool const sends = entered && !has_source;
  submit_each(fs, sends, sends ? page_request(fs, name, own, 0) : rpc::request{});
  if (entered)
    mine = {page_status::fetching,
            frame,
            at.found ? at.via : own,
            at.found ? at.offset : own_channel,
            0,
            0,
            0};
  if (entered && mapped) mine = page_entry::of_window(frame, window, name.expected);

  bool const found_full = a.taken.frame >= 0 && a.result == insert_result::full;
  bool const made_room = found_full && evict_from_bucket(fs.cache, name.uid, name.page);
  auto const evictions = static_cast<unsigned>(__popc(__ballot_sync(all_lanes, a.taken.evicted)) +
                                               __popc(__ballot_sync(all_lanes, made_room)));
  std::uint32_t const all_entered = __ballot_sync(all_lanes, entered);
  auto const requests = static_cast<unsigned>(__popc(__ballot_sync(all_lanes, sends)));
  if (lane == 0) {
    count(fs, counter::evictions, evictions);
    count(fs, counter::requests, requests);
    count(fs, counter::read_requests, requests);
  }
  return {all_entered, __ballot_sync(all_lanes, a.taken.frame >= 0 && !entered),
          __ballot_sync(all_lanes, wants && !has_source && !has_channel) != 0};
}

/// Waits for the answers to all pages that this warp fetches and settles what they mean. Returns
/// the pages whose chunk failed or came short: they are out of the table again, to be asked for by
/// requests of their own.
__device__ __forceinline__ std::uint32_t settle_answers(fs_ref const& fs, batch const& b,
                                                        prefetch::readahead const& chunks,
                                                        page_entry& mine) {
  unsigned const lane = lane_id();
  bool const fetching = mine.status == page_status::fetching && !mine.in_window();
  page_name const name = b.span.name(b.first + lane);
  answer const got = await_answers(fs, fetching, mine.via);
  if (fetching) mine.answered = got.answered ? 1 : 0;
  bool const own = fetching && mine.has_own_channel();
  bool const in_chunk = fetching && !own;
  std::uint64_t const there = got.result < 0 ? 0 : rpc::bytes_read(got.result);
  // Asked again now that the page is entered: while it was not, somebody may have written to it and
  // let it go.
  bool const stale = in_chunk && b.span.whole && chunks.overwritten(mine.via);
  bool const whole = in_chunk ? !stale && there >= mine.chunk_offset + name.expected
                              : own && there == name.expected;
  if (whole) {
    mine.got = static_cast<std::uint32_t>(name.expected);
    if (rpc::is_in_twin(got.result)) mine.chunk_offset |= in_twin;
  }
  if (fetching && !got.answered) mine.error = got.result;
  unsigned const from_chunks = __ballot_sync(all_lanes, in_chunk && whole);
  if (lane == 0) count(fs, counter::prefetch_hits, static_cast<unsigned>(__popc(from_chunks)));

  for (unsigned left = __ballot_sync(all_lanes, own && !whole && got.answered); left != 0;
       left &= left - 1) {
    int const i = __ffs(static_cast<int>(left)) - 1;
    page_entry const e = complete_page(fs.self, b.span.name(b.first + static_cast<unsigned>(i)),
                                       warp_broadcast(mine, i), warp_broadcast(got.result, i));
    if (lane == static_cast<unsigned>(i)) mine = e;
  }
  bool const chunk_failed = in_chunk && !whole && got.answered;
  unsigned const failed = __ballot_sync(all_lanes, chunk_failed);
  if (failed != 0) {
    remove_each(fs.cache, chunk_failed, mine.frame);
    if (chunk_failed) {
      release_filling(fs.cache.headers[mine.frame]);  // who waits for it looks it up again
      mine = {};
    }
    __syncwarp();
  }
  return failed;
}

/// Looks pages up whose bits are set in `unknown`, pins those that are there or on their way, and
/// returns the bits of the absent ones.
__device__ __forceinline__ std::uint32_t look_up(fs_ref const& fs, batch const& b,
                                                 std::uint32_t unknown, page_entry& mine) {
  std::uint32_t absent = 0;
  for (std::uint32_t left = unknown; left != 0; left &= left - 1) {
    unsigned const i = static_cast<unsigned>(__ffs(static_cast<int>(left)) - 1);
    lookup const found = find_and_pin(fs.cache, b.span.uid, b.first + i);
    if (found.result == lookup_result::absent) {
      absent |= 1u << i;
    } else if (lane_id() == i) {
      mine = {};
      mine.status = found.result == lookup_result::hit ? page_status::hit : page_status::waiting;
      mine.frame = found.frame;
      mine.got = found.valid;
    }
  }
  return absent;
}

/// Does what is to be done about pages `todo` before their bytes can move, of which `absent` were
/// in nobody's hands a moment ago; leaves each page's entry in `*entry`, one per lane. Returns when
/// it holds at least one page, or with an error. All lanes of the group's first warp call; the
/// group holds no page. `again` in the result: the pages that found no frame or no channel.
/// `b.chunks` may be null.
GPUFS_STAGE inline batch_step begin_batch(fs_ref const* handle, batch const b, std::uint32_t todo,
                                          std::uint32_t absent, page_entry* entry) {
  fs_ref const& fs = *handle;
  unsigned const lane = lane_id();
  prefetch::readahead chunks(fs, b.chunks);
  page_entry mine;
  std::uint64_t starving_since = 0;
  bool short_of_channels = false;
  unsigned pause = 0;
  for (unsigned attempt = 0; todo != 0; ++attempt) {
    absent = (absent & todo) | look_up(fs, b, todo & ~absent, mine);
    todo &= absent;
    std::uint32_t contested = 0;
    if (absent != 0) {
      std::uint64_t const window = find_windows(fs, b, absent);
      std::uint32_t const unmapped = absent & ~__ballot_sync(all_lanes, window != 0);
      if (attempt == 0 && b.chunks != nullptr && unmapped != 0) cover(fs, b, chunks, unmapped);
      entered_pages const e = enter_pages(fs, b, chunks, absent, window, attempt, mine);
      todo &= ~e.entered;
      contested = e.contested;
      short_of_channels = e.short_of_channels;
    }
    absent = 0;  // by now, what is left may be there
    if (contested != 0 && attempt < 4) continue;
    if (__ballot_sync(all_lanes, mine.status != page_status::none) != 0) break;
    std::int32_t const error =
        starved(fs, starving_since, short_of_channels ? -ETIMEDOUT : -ENOMEM);
    if (error != 0) {
      // The first of them ends the read.
      if (lane == static_cast<unsigned>(__ffs(static_cast<int>(todo)) - 1)) {
        mine.status = page_status::failed;
        mine.error = error;
      }
      todo = 0;
    }
    backoff(pause, device_pause_ns);
  }
  std::uint32_t const chunk_failed = settle_answers(fs, b, chunks, mine);
  *entry = mine;
  bool const moves =
      (mine.status == page_status::fetching || mine.status == page_status::hit) && mine.got != 0;
  unsigned const hits = __ballot_sync(all_lanes, mine.status == page_status::hit);
  if (lane == 0) count(fs, counter::hits, static_cast<unsigned>(__popc(hits)));
  batch_step step;
  step.moving = __ballot_sync(all_lanes, moves);
  step.waiting = __ballot_sync(all_lanes, mine.status == page_status::waiting);
  step.again = todo | chunk_failed;
  step.chunk_failed = chunk_failed;
  step.mapped = __ballot_sync(all_lanes, moves && mine.in_window());
  return step;
}

}  // namespace gpufs::detail
