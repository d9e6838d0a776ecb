// A warp's share of a batch of pages, each page by one warp alone.
#pragma once

#include <gpufs/io/fetch.hpp>
#include <gpufs/io/read_span.hpp>

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
  __device__ page_work work(unsigned i) const {
    int const from = static_cast<int>(i);
    return {static_cast<page_status>(warp_broadcast(static_cast<std::uint32_t>(work_.status), from)), warp_broadcast(work_.frame, from),
            {warp_broadcast(work_.via.number, from), warp_broadcast(work_.via.sequence, from)}, 0};
  }
  __device__ void clear() { size_ = 0; }

 private:
  unsigned size_ = 0;
  std::uint64_t page_ = 0;
  page_work work_;
};

/// Copies the wanted part of a ready, pinned page out and unpins it.
__device__ inline void deliver(fs_ref const& fs, read_span const& span, std::uint64_t page, std::uint32_t frame, std::uint64_t got,
                               read_stop& stop) {
  page_target const t = span.target(page, got);
  warp_copy(t.base + t.begin, frame_bytes(fs.cache, frame) + t.begin, t.end - t.begin);
  __syncwarp();  // all lanes have read before the pin goes
  if (lane_id() == 0) unpin(fs.cache.headers[frame]);
  stop.note_page(span, page, {got, 0});
}

/// Completes what a warp has open: first the pages it owes others, then those it waits for (a caller that waits for another's page
/// owes nobody one, so waits cannot form a circle).
__device__ inline void complete(fs_ref const& fs, read_span const& span, open_pages& open, read_stop& stop) {
  for (unsigned i = 0; i < open.size(); ++i) {
    page_work work = open.work(i);
    if (work.status != page_status::fetching) continue;
    std::uint64_t const page = open.page(i);
    bool answered = false;
    arrival const a = await_page(fs, span.name(page), work, answered);
    if (a.got != 0) {
      warp_pull(frame_bytes(fs.cache, work.frame), staging_bytes(fs, fs.page_channels, work.via), 0, span.page_bytes(), a.got,
                span.target(page, a.got));
    }
    end_fetch(fs, work, a, answered);
    stop.note_page(span, page, a);
  }
  for (unsigned i = 0; i < open.size(); ++i) {
    page_work const work = open.work(i);
    if (work.status != page_status::waiting) continue;
    std::uint64_t const page = open.page(i);
    arrival const a = await_other(fs, work.frame);
    if (a.error == 0) {
      deliver(fs, span, page, work.frame, a.got, stop);
    } else {
      if (lane_id() == 0) unpin(fs.cache.headers[work.frame]);
      __syncwarp();
      stop.note_page(span, page, a);
    }
  }
  open.clear();
}

/// Pages first + warp, first + warp + warps, ... below first + batch. All lanes of the warp call; warps go on independently.
__device__ inline void read_by_warp(fs_ref const& fs, read_span const& span, std::uint64_t first, unsigned batch, unsigned warp,
                                    unsigned warps, read_stop& stop) {
  open_pages open;
  std::uint64_t hits = 0;
  for (unsigned i = warp; i < batch && stop.none();) {
    std::uint64_t const page = first + i;
    page_name const name = span.name(page);
    page_work work = enter_page(fs, name, open.size() == 0);
    if (work.status == page_status::fetching) request_page(fs, name, work);
    switch (work.status) {
      case page_status::hit: {
        std::uint32_t valid = 0;
        if (lane_id() == 0) valid = fs.cache.headers[work.frame].valid;
        deliver(fs, span, page, work.frame, warp_broadcast(valid), stop);
        ++hits;
        break;
      }
      case page_status::waiting:
      case page_status::fetching: open.add(page, work); break;
      case page_status::no_frame: complete(fs, span, open, stop); continue;  // then ask again, holding nothing
      case page_status::failed: stop.note_page(span, page, {0, work.error}); break;
    }
    i += warps;
  }
  complete(fs, span, open, stop);
  if (lane_id() == 0) count(fs, counter::hits, hits);
}

}  // namespace gpufs::detail
