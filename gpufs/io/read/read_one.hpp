// Reads a page that is no longer than a slice and that was not in the cache, by one warp.
#pragma once

#include <gpufs/io/read/begin_batch.hpp>
#include <gpufs/io/read/end_batch.hpp>
#include <gpufs/io/read/move_pages.hpp>
#include <gpufs/io/read/pieces_ahead.hpp>
#include <gpufs/ring/submit.hpp>
#include <gpufs/source/staged.hpp>

#include <prefetcher/lone_read.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::io {

using namespace base;

// The short way. Most reads of one page are alone: no caller waits for a frame, the prefetcher has
// nothing to do, a channel and a frame are free, and nobody else brings in the page. The short way
// does the same as begin_batch() and end_batch(), in fewer trips to memory. What the prefetcher and
// the counters note waits until the request is sent. If something is not as supposed, the read
// takes the long way, which begins anew.
//
// A page should be entered before it is requested: then callers that miss it together request it
// once. But to enter it takes as long as half an answer. So a caller with a prefetcher that wants
// all of a page requests it first, once it had `reads_before_sending_first` pages of this way in a
// row to itself. If it cannot enter the page then, one request was in vain, and the row begins
// anew. The bytes cannot be too old: a version of a file that is not written yet is never written.

/// A page that a warp brings in by itself. The same in all lanes.
struct lone_page {
  source::fill entry;             ///< fetching; or none: take the long way
  bool contested = false;         ///< none: the page may be in the cache by now
  std::uint64_t ahead_since = 0;  ///< as batch_read::ahead_since
};

/// Waits for the answer to the request for a page and evaluates it. All lanes of a warp call.
__device__ __forceinline__ void await_page(fs_ref const& fs, source::page_name const& name,
                                           source::fill& e) {
  std::int32_t result = 0;
  std::uint32_t answered = 0;
  if (lane_id() == 0) {
    bool got = false;
    result = ring::await(fs, e.via, got);
    answered = got ? 1 : 0;
  }
  result = warp_broadcast(result);
  e.answered = warp_broadcast(answered);
  __syncwarp();  // all lanes come after lane 0's acquire
  if (!e.answered) {
    e.error = result;
    if (lane_id() == 0 && result == -ETIMEDOUT) handle::add(fs, handle::counter::timeouts);
  } else if (result >= 0 && rpc::bytes_read(result) == name.expected) {
    e.got = static_cast<std::uint32_t>(name.expected);
    e.in_twin = rpc::is_in_twin(result) ? 1 : 0;
  } else {
    e = source::complete_page(&fs, name, e, result);
  }
}

/// What a read that may be alone looks at first. All lanes of a warp call. The loads are under way
/// together with those of lone_read, as long as nothing needs their values.
struct first_looks {
  cache::page_location at;
  std::uint64_t entry;    ///< the lane's way of the page's bucket
  std::uint64_t line;     ///< the frame line's state
  std::uint64_t windows;  ///< not 0: there are file windows
  std::uint32_t from;     ///< number of the first page channel that the warp tries
  std::uint64_t channel;  ///< of look_at_channels()

  __device__ __forceinline__ first_looks(fs_ref const& fs, read_span const& span,
                                         std::uint64_t page)
      : at(cache::locate(fs.cache, span.version, page)),
        entry(cache::bucket_entry(fs.cache, at.bucket, lane_id()).load(memory_order_relaxed)),
        line(cache::line_state(*fs.cache.line).load(memory_order_relaxed)),
        windows(source::load_any_windows(fs)),
        from(warp_number() * fs.channels.page.spacing % fs.channels.page.count),
        channel(ring::look_at_channels(fs.channels.page, from)) {}

  /// Whether another caller seems to bring in the page since the look-up.
  [[nodiscard]] __device__ bool contested() const {
    return __ballot_sync(all_lanes, at.may_be(entry)) != 0;
  }
};

/// Counts the request for a page, if there was one. One thread calls.
__device__ __forceinline__ void count_request(fs_ref const& fs, bool sent) {
  handle::add(fs, handle::counter::requests, sent ? 1 : 0);
  handle::add(fs, handle::counter::read_requests, sent ? 1 : 0);
}

/// Finds where the bytes of a lone page come from, or leaves it at none. All lanes of a warp call.
__device__ __forceinline__ source::fill find_source(fs_ref const& fs, prefetch::page_read const& r,
                                                    prefetch::lone_read const& read,
                                                    first_looks const& seen) {
  // File windows need no readahead, so a read of any kind can use them.
  bool const alone = read.is_alone();
  bool const may =
      cache::is_empty(seen.line) && (alone || (seen.windows != 0 && !read.has_chunks()));
  if (__all_sync(all_lanes, may) == 0) return {};
  std::uint64_t const bytes = r.page_end - r.page_begin;
  std::uint64_t window = 0;
  if (seen.windows != 0 && lane_id() == 0)
    window = source::window_address(&fs, r.version, r.page_begin, bytes);
  window = warp_broadcast(window);
  if (window != 0) return source::fill::by_window(0, window, bytes);
  if (!alone) return {};
  ring::channel via;
  bool const got =
      ring::try_seen_channels(fs, fs.channels.page, seen.from, seen.channel, lane_id() == 0, via);
  if (__ballot_sync(all_lanes, got) == 0) return {};
  return source::fill::by_channel(0, {warp_broadcast(via.number), warp_broadcast(via.sequence)});
}

/// Brings in the page of a read that is alone, as above. All lanes of a warp call. The page was
/// absent in a look-up just before. `entries`: where those of pages ahead go.
__device__ __forceinline__ lone_page bring_in_alone(fs_ref const& fs, batch const& b,
                                                    source::fill* entries) {
  read_span const& span = b.span;
  if (span.zero_filled || b.seat < 0 || span.first_page() != span.last_page() ||
      !cache::has_queues(fs.cache.policy) || rpc::block_backing_of(span.version) != 0)
    return {};
  source::page_name const name = span.name(b.first);
  std::uint64_t const page_begin = b.first << span.page_shift;
  prefetch::page_read const r{span.fd,        span.version, span.begin,
                              span.end,       page_begin,   page_begin + name.expected,
                              span.page_shift};
  first_looks const seen(fs, span, b.first);
  prefetch::lone_read read;
  if (b.chunks != nullptr) read = prefetch::lone_read(fs, *b.chunks, r);
  if (seen.contested()) return {{}, true};
  lone_page mine{find_source(fs, r, read, seen)};
  if (mine.entry.status == source::page_status::none) return {};
  bool const own = mine.entry.kind == source::source_kind::channel;
  bool const sends_first = own && read.sends_first() && r.is_whole();
  bool const first_lane = lane_id() == 0;
  if (sends_first) ring::submit(fs, source::page_request(fs, name, mine.entry.via, 0));
  std::uint64_t const drawn = first_lane ? cache::draw_next(fs.cache, b.seat) : 0;
  cache::one_entered const one = enter_alone(&fs, b.seat, drawn, span.version, b.first);
  if (one.evicted && first_lane) handle::add(fs, handle::counter::evictions);
  if (!one.taken || one.result != cache::insert_result::inserted) {
    if (first_lane) {
      if (sends_first)
        ring::give_up_channel(fs, fs.channels.page, mine.entry.via);
      else if (own)
        ring::return_channel(fs.channels.page, mine.entry.via, true);  // never used
      if (one.taken) cache::release_filling(fs.cache.headers[one.frame]);
      count_request(fs, sends_first);
    }
    if (sends_first) prefetch::note_contested(*b.chunks);
    return {{}, one.taken};
  }
  mine.entry.frame = one.frame;
  if (own && !sends_first) ring::submit(fs, source::page_request(fs, name, mine.entry.via, 0));
  bool ahead = false;
  if (b.chunks != nullptr)
    ahead = mine.entry.kind == source::source_kind::window ? read.note_window(fs, *b.chunks, r)
                                                           : read.note(fs, *b.chunks, r);
  if (first_lane) count_request(fs, own);
  // Out of file windows the read may be of any kind, and the advice unknown.
  if (ahead && !read.is_alone())
    ahead = prefetch::current_advice(fs, b.chunks, span.fd) != advice::random;
  if (ahead) mine.ahead_since = enter_ahead(&fs, b, entries);
  if (own) await_page(fs, name, mine.entry);
  return mine;
}

/// Ends the read of a page that came in full. All lanes of a warp call. Its bytes are settled.
__device__ __forceinline__ void end_alone(fs_ref const& fs, batch const& b, source::fill const& e) {
  if (lane_id() == 0) {
    cache::publish(fs.cache.headers[e.frame], e.got, after_settling);
    if (e.kind == source::source_kind::channel)
      ring::return_channel(fs.channels.page, e.via, true, after_settling);
    handle::count(fs, b.span.fd, handle::file_counter::misses);
    handle::add(fs,
                e.kind == source::source_kind::window ? handle::counter::bytes_registered
                : e.in_twin                           ? handle::counter::bytes_dma
                                                      : handle::counter::bytes_pulled,
                e.got);
  }
  __syncwarp();
}

/// Reads the missing page of a batch of one. All lanes of the group's first warp call. `entries`:
/// where those of pages ahead go.
GPUFS_LIBRARY_STAGE batch_read read_one_missing(fs_ref const* __restrict__ handle,
                                                batch const whole, missing_pages missing,
                                                source::fill* entries) {
  batch b = whole;
  batch_read done;
  source::fill entry;
  if (missing.absent != 0) {
    lone_page const alone = bring_in_alone(*handle, b, entries);
    if (alone.contested) missing.absent = 0;
    entry = alone.entry;
    done.ahead_since = alone.ahead_since;
    if (entry.status != source::page_status::none) {
      if (entry.got != 0) move_page(handle, b.span, b.first, entry);
      if (entry.error == 0 && entry.got == b.span.name(b.first).expected) {
        end_alone(*handle, b, entry);
        return done;
      }
      if (lane_id() != 0) entry = {};  // one entry per page, in the lane of the page
      done.stop = end_batch(handle, b, &entry);
      return done;
    }
  }
  if (missing.absent == 0 && b.chunks != nullptr) prefetch::note_contested(*b.chunks);
  bool fetched = false;
  for (bool first_round = true;; first_round = false) {
    batch_step step = begin_batch(handle, b, missing.todo, missing.absent, &entry);
    if (step.chunk_failed != 0) b.chunks = nullptr;  // requests of their own show the error
    b.waits_since = 0;                               // and their waits begin anew
    if (first_round && step.ahead != 0) look_ahead(handle, whole, &entry, step.registered == 0);
    fetched = fetched || step.fetching != 0;
    if (step.moving != 0) move_page(handle, b.span, b.first, entry);
    done.stop.note(end_batch(handle, b, &entry));
    if (step.waiting != 0) {
      batch_step const others = await_others(handle, b, &entry);
      if (others.moving != 0) move_page(handle, b.span, b.first, entry);
      done.stop.note(end_batch(handle, b, &entry));
      step.again |= others.again;
    }
    if (step.again == 0) break;
    missing = {step.again, 0};
  }
  if (fetched && done.stop.none() && has_pieces_ahead(whole))
    done.ahead_since = enter_ahead(handle, whole, entries);
  return done;
}

}  // namespace gpufs::io
