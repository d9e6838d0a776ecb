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
    return {status(i), warp_broadcast(work_.frame, from),
            {warp_broadcast(work_.via.number, from), warp_broadcast(work_.via.sequence, from)}, 0, warp_broadcast(work_.chunk_offset, from)};
  }
  /// Keeps what became of page i until it is published.
  __device__ void arrived(unsigned i, page_work const& work, arrival const& a, bool answered) {
    if (lane_id() != i) return;
    work_ = work;
    got_ = a;
    answered_ = answered;
  }
  __device__ arrival got(unsigned i) const {
    int const from = static_cast<int>(i);
    return {warp_broadcast(got_.got, from), warp_broadcast(got_.error, from)};
  }
  __device__ bool answered(unsigned i) const { return warp_broadcast(std::uint32_t(answered_), static_cast<int>(i)) != 0; }

 private:
  unsigned size_ = 0;
  std::uint64_t page_ = 0;
  page_work work_;
  arrival got_{0, 0};
  bool answered_ = false;
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

/// Waits for the pages this warp fetches and pulls them into place.
__device__ __forceinline__ void pull_fetched(fs_ref const& fs, read_span const& span, open_pages& open, read_stop& stop) {
  for (unsigned i = 0; i < open.size(); ++i) {
    if (open.status(i) != page_status::fetching) continue;
    page_work work = open.work(i);
    std::uint64_t const page = open.page(i);
    bool answered = false;
    arrival const a = await_page(fs, span.name(page), work, answered);
    if (a.got != 0) {
      pull_gate const gate(fs);
      warp_pull(frame_bytes(fs.cache, work.frame), source_of(fs, work), 0, span.page_bytes(), a.got, span.target(page, a.got));
    }
    stop.note_page(span, page, a);
    open.arrived(i, work, a, answered);
  }
}

__device__ __forceinline__ void publish_fetched(fs_ref const& fs, open_pages const& open) {
  for (unsigned i = 0; i < open.size(); ++i) {
    if (open.status(i) == page_status::fetching) end_fetch(fs, open.work(i), open.got(i), open.answered(i));
  }
}

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
/// In rounds of three steps with the group's barrier between them: every warp enters and requests its pages; pulls what it fetches;
/// publishes it. The barriers are there for speed: a release waits for the loads that other warps of the multiprocessor have on the
/// bus, so that releases among pulls cost a hundred microseconds instead of one. A page that finds every frame pinned waits for the next
/// round, when the group holds none: so nobody waits for a frame while holding one.
template <class Group>
GPUFS_STAGE read_stop read_misses(fs_ref const* handle, Group const& group, std::int32_t slot,
                                  prefetch::readahead_state* chunk_state, read_span const span, std::uint64_t first, std::uint32_t mine) {
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
    ops::sync(group);
    if (works) pull_fetched(fs, span, open, stop);
    ops::sync(group);
    if (works) {
      publish_fetched(fs, open);
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
