// The readahead prefetcher: serves a seat's misses from private chunks, each filled by one request.
// It follows the GPUfs readahead paper, section 4. Three things differ: the readahead depth adapts,
// the next chunks are under way while the kernel uses the current one, and pieces at a constant
// distance are read ahead, a chunk each.
#pragma once

#include <gpufs/cache/page_table.hpp>
#include <gpufs/ring/channel.hpp>

#include <prefetcher/seat_chunks.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// The prefetcher of a seat. All lanes of its owner's first warp call each function, unless it says
/// otherwise.
class readahead : public seat_chunks {
 public:
  using seat_chunks::seat_chunks;

  __device__ stream& reads() { return state_->reads; }

  /// Prepares chunks for the batch's absent pages that no chunk has, as channels allow. Bit i is
  /// page i. Notes the readahead depth for look_ahead(). entered() must follow; it sends the
  /// requests.
  ///
  /// First drops chunks that the batch makes useless, and after a jump those ahead, unless `p`
  /// goes on at a constant distance. If a read that is no jump needs no chunk here, look_ahead()
  /// drops the useless ones. `p` is what the read wants, if this batch is all of it.
  __device__ __forceinline__ void cover(wanted const& w, std::uint32_t absent, read_kind kind,
                                        depth_rule const& rule, piece const& p) {
    bool const jump = kind == read_kind::jump;
    bool const goes_on = note_piece(w, jump, rule, p);
    bool const careful = notice_sharing(w, absent, kind);
    std::uint32_t depth = next_depth(state_->reads.depth, !jump, rule);
    if (careful) depth = base::least(depth, cautious_limit(own_bytes(w, absent), chunk_bytes()));
    pending list;
    // With automatic `prefetch_size` or RANDOM advice, only a caller that is alone on its pages
    // requests more than the batch.
    std::uint64_t const limit = rule.automatic && (jump || careful) ? w.end : w.size;
    absent &= ~base::warp_union(pages_of(w));
    if (limit == w.end) absent &= ~lone_pages(w, absent);
    GPUFS_ROLLED
    while (absent != 0 && !list.full()) {
      unsigned const i = base::lowest_lane(absent);
      std::uint64_t const page = w.begin + (std::uint64_t(i) << w.page_shift);
      std::uint64_t const length = base::least(limit - page, chunk_bytes());
      list.add(page, length);
      // Pages before its end are covered. So is the file's last page, which may be short.
      std::uint64_t const next = i + ((length + (1ull << w.page_shift) - 1) >> w.page_shift);
      absent = next >= 32 ? 0 : absent & ~((1u << next) - 1);
    }
    if (list.size() != 0 || jump) {
      drop([&](chunk const& c) { return useless(c, w) || (jump && !goes_on && c.begin >= w.end); });
      if (list.size() != 0) {
        make_room(w, list.size());
        unsent_ = reserve(w, list);
      }
      save();
    }
    __syncwarp();  // all lanes have read the old depth
    if (lane_id() == 0) state_->reads.depth = depth;
    __syncwarp();
  }

  /// The caller has entered the batch's pages `pages` and brings them in. Sends the requests for
  /// the chunks of cover() that have one of these pages, and gives the others back: other callers
  /// bring in their pages. So callers that miss a page at the same time request it once.
  __device__ __forceinline__ void entered(wanted const& w, std::uint32_t pages) {
    if (__ballot_sync(base::all_lanes, unsent_) != 0) {
      bool const needed = unsent_ && (pages_of(w) & pages) != 0;
      if (unsent_ && !needed) {
        // It was never used, so there is nothing to settle.
        ring::return_channel(fs_.prefetch.channels, {mine_.number, mine_.sequence}, true,
                             base::after_settling);
        mine_.length = 0;
      }
      unsent_ = false;
      __syncwarp();
      send(w, needed);
      save();
    }
    if (pages != 0 && lane_id() == 0) note_own(w, pages);
    __syncwarp();
  }

  /// Drops chunks that the batch makes useless. If it `requests`, also requests the missing chunks
  /// within the readahead depth, as free chunks allow. It stops at the first page that the cache
  /// has: from there on another caller reads, or has read. `waits`: others bring in pages of the
  /// batch.
  __device__ __forceinline__ void look_ahead(wanted const& w, bool requests, bool waits) {
    bool const shared = waits || has_chunk_in(w, state_->reads.own_end, w.begin);
    strides const pieces = waits ? strides{} : state_->pieces;
    __syncwarp();  // all lanes have read the state
    if (lane_id() == 0) {
      if (shared) state_->reads.shared = 1;
      if (waits) state_->pieces = {};
    }
    drop([&](chunk const& c) { return useless(c, w); });
    pending list;
    if (requests && pieces.depth != 0) {
      list_pieces(w, pieces, list);
    } else if (requests) {
      list_chunks(w, state_->reads.depth, list);
    }
    if (list.size() != 0) send(w, reserve(w, list));
    save();
  }

  /// Gives all chunks back. Channels of chunks under way are quarantined until the answers are
  /// there.
  __device__ void drop_all() {
    drop([](chunk const&) { return true; });
    save();
  }

 private:
  /// Lists the missing chunks within the readahead depth behind the batch, as free chunks allow.
  __device__ __forceinline__ void list_chunks(wanted const& w, std::uint32_t depth, pending& list) {
    unsigned const free = base::count_lanes(__ballot_sync(base::all_lanes, mine_.length == 0));
    std::uint64_t ahead = w.end;
    GPUFS_ROLLED
    for (std::uint32_t n = 0; n < depth && ahead < w.size; ++n) {
      std::uint64_t const page = 1ull << w.page_shift;
      std::uint64_t const left = w.size - ahead;
      int const there = covering(w.version, ahead, left < page ? w.size : ahead + page);
      if (there >= 0) {
        // A chunk may end within a page: the file ended there at the request and has grown since.
        // The chunk does not have that page.
        std::uint64_t const end = base::warp_broadcast(mine_.begin + mine_.length, there);
        ahead = end >= w.size ? w.size : end / page * page;
        continue;
      }
      if (list.size() == free)
        break;  // chunks that are ahead already are worth more than later ones
      if (cache::may_have(fs_.cache, w.version, ahead >> w.page_shift)) break;
      std::uint64_t const length = base::least(left, chunk_bytes());
      list.add(ahead, length);
      ahead += length;
    }
  }

  /// Lists the next pieces at a constant distance that are missing, as free chunks allow.
  __device__ __forceinline__ void list_pieces(wanted const& w, strides const& s, pending& list) {
    unsigned const free = base::count_lanes(__ballot_sync(base::all_lanes, mine_.length == 0));
    std::uint64_t const page = 1ull << w.page_shift;
    std::uint64_t at = s.begin + s.distance;
    GPUFS_ROLLED
    for (std::uint32_t n = 0; n < s.depth && at < w.size; ++n, at += s.distance) {
      std::uint64_t const begin = at / page * page;
      std::uint64_t const last = base::least(at + s.length, w.size);
      std::uint64_t const end = base::least((last + page - 1) / page * page, w.size);
      if (covering(w.version, begin, end) >= 0) continue;
      if (list.size() == free) break;
      if (cache::may_have(fs_.cache, w.version, begin >> w.page_shift)) break;
      list.add(begin, end - begin);
    }
  }

  /// Notes the piece that the caller is about to bring in. Returns whether its chunks ahead are
  /// still of use: it goes on at a constant distance.
  __device__ __forceinline__ bool note_piece(wanted const& w, bool jump, depth_rule const& rule,
                                             piece const& p) {
    strides const before = state_->reads.version == w.version ? state_->pieces : strides{};
    strides now{};
    if (jump && rule.automatic && !rule.random) {
      std::uint64_t const bytes = w.end - w.begin;
      // Two pieces whose pages overlap are no jump, so the distance is over a page.
      now = before.after(bytes <= chunk_bytes() ? p : piece{},
                         depth_limit(rule.callers, pieces_together(bytes), chunks_per_context - 2));
    }
    __syncwarp();  // all lanes have read the state
    if (lane_id() == 0) state_->pieces = now;
    __syncwarp();
    return now.repeats != 0;
  }

  /// Pieces of `bytes` bytes that all contexts have ahead together: as many bytes as of chunks.
  __device__ std::uint32_t pieces_together(std::uint64_t bytes) const {
    return static_cast<std::uint32_t>(chunks_ahead_together *
                                      base::most<std::uint64_t>(chunk_bytes() / bytes, 1));
  }

  /// The absent pages that a chunk would have nothing beside. They get requests of their own, which
  /// leave no chunk to be given back.
  __device__ std::uint32_t lone_pages(wanted const& w, std::uint32_t absent) const {
    return 1ull << w.page_shift >= chunk_bytes() ? absent
                                                 : absent & ~(absent << 1) & ~(absent >> 1);
  }

  /// Offset of the batch's first absent page.
  __device__ static std::uint64_t first_of(wanted const& w, std::uint32_t absent) {
    return w.begin + (std::uint64_t(base::lowest_lane(absent)) << w.page_shift);
  }

  /// Notes that the caller brings in `pages` of the batch: its own run ends with the last of them.
  /// One lane calls.
  __device__ void note_own(wanted const& w, std::uint32_t pages) {
    auto const above = static_cast<unsigned>(__clz(static_cast<int>(pages)));
    auto const run = static_cast<unsigned>(__clz(static_cast<int>(~(pages << above))));
    unsigned const end = base::warp_size - above;
    state_->reads.bring_in(w.begin + (std::uint64_t(end - run) << w.page_shift),
                           w.begin + (std::uint64_t(end) << w.page_shift));
  }

  /// Bytes that the caller has brought in without interruption up to the batch's absent pages.
  __device__ std::uint64_t own_bytes(wanted const& w, std::uint32_t absent) const {
    stream const& s = state_->reads;
    return s.follows(first_of(w, absent)) ? s.own_end - s.own_begin : 0;
  }

  /// Whether others may bring in pages ahead of the caller: it leaves out bytes that they may read,
  /// or they have brought in pages that it read or had requested. Notes the latter, until the
  /// caller jumps out of the reach of its chunks.
  __device__ __forceinline__ bool notice_sharing(wanted const& w, std::uint32_t absent,
                                                 read_kind kind) {
    stream& s = state_->reads;
    std::uint64_t const first = first_of(w, absent);
    bool const far =
        kind == read_kind::jump &&
        (first < s.own_begin || first > s.own_end + chunks_per_context * chunk_bytes());
    bool const taken_over = !s.follows(first) && has_chunk_in(w, s.own_end, first);
    bool const known = s.version == w.version && s.shared != 0;
    bool const shared = !far && (taken_over || known);
    __syncwarp();  // all lanes have read the state
    if (lane_id() == 0) s.shared = shared ? 1 : 0;
    __syncwarp();
    return shared || kind == read_kind::gap;
  }

  bool unsent_ = false;  ///< cover() has reserved the lane's chunk
};

}  // namespace gpufs::prefetch
