// A warp's share of a batch of pages, each page by one warp alone.
#pragma once

#include <gpufs/cache/pull_gate.hpp>
#include <gpufs/io/fetch.hpp>
#include <gpufs/io/group.hpp>
#include <gpufs/io/read_span.hpp>
#include <prefetcher/readahead.hpp>

#include <cstdint>

namespace gpufs::detail {

/// Pages a group works on between two of its barriers. A warp's share of it fits one page per lane even if there is only one warp.
inline constexpr unsigned warp_batch = warp_size;

/// The pages a warp has pinned or is filling, page i in lane i's registers.
class open_pages {
 public:
  __device__ unsigned size() const { return size_; }
  __device__ void add(std::uint64_t page, page_work const& work) {
    if (lane_id() == size_) {
      page_ = page;
      work_ = work;
    }
    ++size_;
  }
  __device__ std::uint64_t page(unsigned i) const { return warp_broadcast(page_, static_cast<int>(i)); }
  __device__ page_status status(unsigned i) const {
    return static_cast<page_status>(warp_broadcast(static_cast<std::uint32_t>(work_.status), static_cast<int>(i)));
  }
  __device__ page_work work(unsigned i) const {
    int const from = static_cast<int>(i);
    return {status(i),
            warp_broadcast(work_.frame, from),
            {warp_broadcast(work_.via.number, from), warp_broadcast(work_.via.sequence, from)},
            0,
            warp_broadcast(work_.chunk_offset, from)};
  }
  /// The page of this lane, if it has one.
  __device__ bool has_page() const { return lane_id() < size_; }
  __device__ std::uint64_t own_page() const { return page_; }
  __device__ page_work& own_work() { return work_; }

 private:
  unsigned size_ = 0;
  std::uint64_t page_ = 0;
  page_work work_;
};

/// Copies the wanted part of a ready, pinned page out and unpins it.
__device__ __forceinline__ void deliver(fs_ref const& fs, read_span const& span, std::uint64_t page, std::uint32_t frame,
                                        std::uint64_t got, read_stop& stop) {
  page_target const t = span.target(page, got);
  warp_copy(t.base + t.begin, frame_bytes(fs.cache, frame) + t.begin, t.end - t.begin);
  __syncwarp();  // all lanes have read before the pin goes
  if (lane_id() == 0) unpin_read(fs.cache.headers[frame]);
  stop.note_page(span, page, {got, 0});
}

/// Pulls what has arrived of a page into its frame and on to the caller's buffer.
__device__ __forceinline__ void pull_page(fs_ref const& fs, read_span const& span, std::uint64_t page, page_work const& work,
                                          arrival const& a) {
  if (a.got == 0) return;
  pull_gate const gate(fs, (work.chunk_offset & in_twin) == 0);
  warp_pull(frame_bytes(fs.cache, work.frame), source_of(fs, work), 0, span.page_bytes(), a.got, span.target(page, a.got));
}

/// Waits, lane by lane, for the answers to up to 32 requests at once: `pending` lanes have one. All lanes of a warp call.
__device__ __forceinline__ answer await_answers(fs_ref const& fs, bool pending, channel const& via) {
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
      if (lane_id() == 0) error = daemon_stopped(fs) ? -EIO : device_clock_ns() - start > fs.timeout_ns ? -ETIMEDOUT : 0;
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

/// The three steps of bringing pages in, for a warp that is alone: a tile.
template <class Group>
struct fetch_steps {
  __device__ static void fetch(fs_ref const& fs, Group const&, read_span const& span, std::uint64_t, open_pages& open, bool,
                               read_stop& stop) {
    answer const mine =
        await_answers(fs, open.has_page() && open.own_work().status == page_status::fetching, open.own_work().via);
    for (unsigned i = 0; i < open.size(); ++i) {
      if (open.status(i) != page_status::fetching) continue;
      page_work work = open.work(i);
      std::uint64_t const page = open.page(i);
      answer got{warp_broadcast(mine.result, static_cast<int>(i)),
                 warp_broadcast(std::uint32_t(mine.answered), static_cast<int>(i)) != 0};
      arrival const a = settle(fs, span.name(page), work, got);
      pull_page(fs, span, page, work, a);
      stop.note_page(span, page, a);
      if (work.status == page_status::fetching) end_fetch(fs, work, a, got.answered);
    }
  }
};

/// The same for the warps of a block, with its barrier between the steps. The first warp waits for everybody's answers, since each look at
/// one crosses the bus; and it publishes everybody's pages, with one release. Which pages they are, the scratch tells.
template <>
struct fetch_steps<cooperative_groups::thread_block> {
  using group = cooperative_groups::thread_block;
  using ops = group_ops<group>;

  __device__ static void fetch(fs_ref const& fs, group const& g, read_span const& span, std::uint64_t first, open_pages& open,
                               bool works, read_stop& stop) {
    bool const mine = works && open.has_page() && open.own_work().status == page_status::fetching;
    team_entry* const entry = mine ? &scratch().entry[open.own_page() - first] : nullptr;
    std::uint32_t bits = 0;
    if (works) {
      if (mine) {
        page_work const& work = open.own_work();
        *entry = {0, work.frame, work.via.number, work.via.sequence, 0, 0, work.chunk_offset, 0, 0};
      }
      for (unsigned i = 0; i < open.size(); ++i) {
        if (open.status(i) == page_status::fetching) bits |= 1u << (open.page(i) - first);
      }
    }
    std::uint32_t const fetching = ops::gather(g, gathering::fetching, bits);
    if (fetching == 0) return;
    bool const chief = ops::warp(g) == 0;
    bool const served = chief && (fetching >> lane_id() & 1) != 0;  // lane l of the first warp serves the batch's page l
    if (chief) {
      team_entry& e = scratch().entry[lane_id()];
      channel const via = served ? channel{e.channel_number, e.channel_sequence} : channel{};
      answer const got = await_answers(fs, served, via);
      if (served) {
        e.answer = got.result;
        e.answered = got.answered ? 1 : 0;
      }
    }
    __syncthreads();
    if (works) {
      for (unsigned i = 0; i < open.size(); ++i) {
        if (open.status(i) != page_status::fetching) continue;
        page_work work = open.work(i);
        std::uint64_t const page = open.page(i);
        team_entry& e = scratch().entry[page - first];
        answer got{e.answer, e.answered != 0};
        arrival const a = settle(fs, span.name(page), work, got);
        pull_page(fs, span, page, work, a);
        stop.note_page(span, page, a);
        __syncwarp();  // all lanes have read the entry
        if (lane_id() == 0) {
          e = {static_cast<std::uint32_t>(work.status),
               work.frame,
               work.via.number,
               work.via.sequence,
               a.got,
               a.error,
               work.chunk_offset,
               0,
               got.answered ? 1u : 0u};
        }
      }
    }
    __syncthreads();
    ops::gathered(g, gathering::fetching);
    if (chief) publish_batch(fs, served);
  }

 private:
  /// Publishes or fails the pages of the scratch's entries, lane by lane. All lanes of the first warp call.
  __device__ static void publish_batch(fs_ref const& fs, bool served) {
    team_entry const e = served ? scratch().entry[lane_id()] : team_entry{};
    bool const entered = served && static_cast<page_status>(e.status) == page_status::fetching;
    release_all();
    if (entered) {
      if (e.error == 0) publish(fs.cache.headers[e.frame], static_cast<std::uint32_t>(e.got), after_release);
      count(fs, arrival_counter(e.chunk_offset), e.got);
      if ((e.chunk_offset & own_channel) != 0) {
        channel const via{e.channel_number, e.channel_sequence};
        set_channel(fs.page_channels, via, e.answered != 0 ? channel_phase::free : channel_phase::quarantined, after_release);
      }
    }
    for (unsigned failed = __ballot_sync(all_lanes, entered && e.error != 0); failed != 0; failed &= failed - 1) {
      int const from = __ffs(static_cast<int>(failed)) - 1;
      fail_page(fs, warp_broadcast(e.frame, from), warp_broadcast(e.error, from));
    }
    __syncwarp();
  }
};

/// Waits for the pages that others bring in. Only now that this warp owes nobody a page: so waits cannot form a circle. Returns the bits
/// (relative to `first`) of pages that were about other pages when looked at closely, and have to be looked up again.
__device__ __forceinline__ std::uint32_t deliver_awaited(fs_ref const& fs, read_span const& span, std::uint64_t first,
                                                         open_pages const& open, read_stop& stop) {
  std::uint32_t again = 0;
  for (unsigned i = 0; i < open.size(); ++i) {
    if (open.status(i) != page_status::waiting) continue;
    std::uint32_t const frame = open.work(i).frame;
    std::uint64_t const page = open.page(i);
    awaited const a = await_other(fs, span.name(page), frame);
    if (a.what == awaited::ready) {
      deliver(fs, span, page, frame, a.got, stop);
      continue;
    }
    if (lane_id() == 0) unpin_read(fs.cache.headers[frame]);
    __syncwarp();
    if (a.what == awaited::another) {
      again |= 1u << (page - first);
    } else {
      stop.note_page(span, page, {0, a.error});
    }
  }
  return again;
}

/// The pages of a batch that fall to a warp, bit i for page i.
__device__ __forceinline__ std::uint32_t own_pages(unsigned batch, unsigned warp, unsigned warps) {
  std::uint32_t mine = 0;
  for (unsigned i = warp; i < batch; i += warps) mine |= 1u << i;
  return mine;
}

/// What read_hits() leaves.
struct hits_read {
  std::uint32_t left;    ///< pages that were not delivered
  std::uint32_t absent;  ///< those of them that nobody is bringing in
  read_stop stop;
};

/// Delivers those pages of a batch whose bits are set in `mine` and that are in the cache. All lanes of the warp call.
GPUFS_STAGE inline hits_read read_hits(fs_ref const* handle, read_span const span, std::uint64_t first, std::uint32_t mine) {
  fs_ref const& fs = *handle;
  read_stop stop;
  std::uint32_t absent = 0;
  std::uint64_t hits = 0;
  for (std::uint32_t left = mine; left != 0; left &= left - 1) {
    unsigned const i = static_cast<unsigned>(__ffs(static_cast<int>(left)) - 1);
    lookup const found = find_and_pin(fs.cache, span.uid, first + i);
    if (found.result == lookup_result::hit) {
      deliver(fs, span, first + i, found.frame, found.valid, stop);
      mine &= ~(1u << i);
      ++hits;
    } else if (found.result == lookup_result::absent) {
      absent |= 1u << i;
    } else if (lane_id() == 0) {
      unpin_read(fs.cache.headers[found.frame]);  // it is waited for when nothing is owed to anybody
    }
  }
  __syncwarp();
  if (lane_id() == 0) count(fs, counter::hits, hits);
  return {mine, absent, stop};
}

/// Reads the pages of a batch whose bits are set in `mine`. Misses are served from the chunks of `chunk_state` (may be null) where those have
/// them. All threads of the group call.
///
/// In rounds: every warp enters and requests its pages; the answers are waited for; every warp pulls what it fetches; the pages are
/// published. The group's barriers between these steps are there for speed: a release waits for the loads that other warps of the
/// multiprocessor have on the bus, so that releases among pulls cost a hundred microseconds instead of one. A page that finds every frame pinned waits for the next
/// round, when the group holds none: so nobody waits for a frame while holding one.
template <class Group>
GPUFS_STAGE read_stop read_misses(fs_ref const* handle, Group const& group, std::int32_t slot,
                                  prefetch::readahead_state* chunk_state, read_span const span, std::uint64_t first,
                                  std::uint32_t mine) {
  using ops = group_ops<Group>;
  fs_ref const& fs = *handle;
  bool const works = ops::warp(group) < ops::warps(group);
  prefetch::readahead const chunks(fs, works ? chunk_state : nullptr);
  read_stop stop;
  std::uint64_t hits = 0;
  std::uint64_t starving_since = 0;
  for (unsigned pause = 0;;) {
    open_pages open;
    bool got_any = false;
    for (std::uint32_t left = works && stop.none() ? mine : 0; left != 0; left &= left - 1) {
      unsigned const i = static_cast<unsigned>(__ffs(static_cast<int>(left)) - 1);
      page_name const name = span.name(first + i);
      page_work work = enter_page(fs, slot, name);
      if (work.status == page_status::no_frame) break;
      got_any = true;
      mine &= ~(1u << i);
      if (work.status == page_status::fetching) request_or_find(fs, chunks, name, work);
      if (work.status == page_status::hit) {
        deliver(fs, span, first + i, work.frame, work.valid, stop);
        ++hits;
      } else if (work.status == page_status::failed) {
        stop.note_page(span, first + i, {0, work.error});
      } else {
        open.add(first + i, work);
      }
    }
    fetch_steps<Group>::fetch(fs, group, span, first, open, works, stop);
    if (works) {
      mine |= deliver_awaited(fs, span, first, open, stop);
      if (mine != 0 && stop.none() && !got_any) {
        if (std::int32_t const error = starved(fs, starving_since); error != 0) {
          stop.note_page(span, first + static_cast<unsigned>(__ffs(static_cast<int>(mine)) - 1), {0, error});
        }
        backoff(pause, device_pause_ns);
      }
    }
    if (!ops::any(group, mine != 0 && stop.none())) break;
  }
  if (works && lane_id() == 0) count(fs, counter::hits, hits);
  return stop;
}

}  // namespace gpufs::detail
