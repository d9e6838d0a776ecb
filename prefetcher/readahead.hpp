// The readahead prefetcher: serves a seat's misses from private chunks, each filled by one request.
// It follows the GPUfs readahead paper, section 4. Three things differ: the readahead depth adapts,
// the next chunks are under way while the kernel uses the current one, and pieces at a constant
// distance are read ahead.
#pragma once

#include <gpufs/cache/page_table.hpp>
#include <gpufs/ring/channel.hpp>

#include <prefetcher/piece_chunks.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// The prefetcher of a seat. All lanes of its owner's first warp call each function, unless it says
/// otherwise.
class readahead : public piece_chunks {
 public:
  using piece_chunks::piece_chunks;

  __device__ stream& reads() { return state_->reads; }

  /// The end of the bytes from w.begin on that chunks have or will have without a gap, at most
  /// w.read_end. A written file's last page counts only if they have all of it.
  __device__ __forceinline__ std::uint64_t covered_end(wanted const& w) const {
    std::uint64_t const page = 1ull << w.page_shift;
    std::uint64_t at = w.begin;
    GPUFS_ROLLED
    for (int there = 0; at < w.read_end;) {
      there = covering(w.version, at, w.written ? at + page : base::least(at + page, w.read_end));
      if (there < 0) break;
      std::uint64_t const end = base::warp_broadcast(mine_.begin + mine_.length, there);
      at = end >= w.read_end ? w.read_end : end / page * page;
    }
    return at;
  }

  /// Prepares chunks for the batch's absent pages that no chunk has, as channels allow. Bit i is
  /// page i. Notes the readahead depth for look_ahead(). entered() must follow; it sends the
  /// requests.
  ///
  /// First drops chunks that the batch makes useless, and after a jump those ahead, unless `p`
  /// goes on at a constant distance. If a read that is no jump needs no chunk here, look_ahead()
  /// drops the useless ones. `p` is what the read wants. `jumped`: it began with a jump.
  ///
  /// A read of several batches that begins with a jump says nothing of the bytes behind its end.
  /// With automatic `prefetch_size` only its own bytes are read ahead.
  __device__ __forceinline__ void cover(wanted const& w, std::uint32_t absent, read_kind kind,
                                        depth_rule const& rule, piece const& p, bool jumped) {
    bool const jump = kind == read_kind::jump;
    strides const pieces = note_piece(w, jump, rule, p);
    bool const goes_on = pieces.repeats != 0;
    bool const careful = notice_sharing(w, absent, kind);
    std::uint32_t depth = next_depth(state_->reads.depth, !jump, rule);
    if (careful) depth = base::least(depth, cautious_limit(own_bytes(w, absent), chunk_bytes()));
    bool const confined = rule.automatic && jumped;
    pending list;
    // With automatic `prefetch_size` or RANDOM advice, only a caller that is alone on its pages
    // requests more than the batch.
    std::uint64_t const limit = rule.automatic && (jump || careful) ? w.end
                                : confined                          ? w.read_end
                                                                    : w.size;
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
      drop([&](chunk const& c) {
        return useless(c, w) || (jump && !goes_on && c.begin >= w.read_end);
      });
      if (list.size() != 0) {
        make_room(w, list.size());
        unsent_ = reserve(w, list);
      }
      save();
    }
    __syncwarp();  // all lanes have read the old depth
    if (lane_id() == 0) {
      state_->reads.depth = depth;
      state_->confined = confined ? 1 : 0;
    }
    requests_ahead_ = confined ? w.end < w.read_end : depth != 0;
    if (pieces.depth != 0) requests_ahead_ = true;
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
  /// batch. Does nothing while enough is under way (has_enough_ahead()).
  __device__ __forceinline__ void look_ahead(wanted const& w, bool requests, bool waits) {
    bool const shared = waits || has_chunk_in(w, state_->reads.own_end, w.begin);
    bool const enters = by_pages(w, state_->pieces.length);
    strides const pieces = waits || enters ? strides{} : state_->pieces;
    __syncwarp();  // all lanes have read the state
    if (lane_id() == 0) {
      if (shared) state_->reads.shared = 1;
      if (waits && !enters) state_->pieces = {};
    }
    bool const confined = state_->confined != 0;
    std::uint32_t const depth =
        confined ? base::most(state_->reads.depth, own_depth) : state_->reads.depth;
    if (requests && !shared && has_enough_ahead(w, base::most(depth, chunks_of(pieces)))) return;
    drop([&](chunk const& c) { return useless(c, w); });
    pending list;
    if (requests && (confined || pieces.depth == 0))
      list_chunks(w, depth, confined ? w.read_end : w.size, list);
    if (requests && pieces.depth != 0) list_pieces(w, pieces, list);
    cut_at_cached(w, list);
    if (list.size() != 0) send(w, reserve(w, list));
    save();
  }

  /// Whether look_ahead() has something to do behind cover() and entered(), if they were called:
  /// chunks to request or to give back, or sharing to note. `waits` as there.
  __device__ __forceinline__ bool has_work(bool waits) const {
    return state_ != nullptr &&
           (waits || requests_ahead_ || __ballot_sync(base::all_lanes, mine_.length != 0) != 0);
  }

  /// Gives all chunks back. Channels of chunks under way are quarantined until the answers are
  /// there.
  __device__ void drop_all() {
    drop([](chunk const&) { return true; });
    save();
  }

 private:
  /// The least readahead depth within a read. The caller wants these bytes in any case.
  static constexpr std::uint32_t own_depth = 2;

  /// Whether enough chunks are ahead of the batch.
  __device__ __forceinline__ bool has_enough_ahead(wanted const& w, std::uint32_t depth) const {
    bool const ahead = mine_.length != 0 && mine_.version == w.version && mine_.begin >= w.end;
    return enough_ahead(base::count_lanes(__ballot_sync(base::all_lanes, ahead)), depth);
  }

  /// Lists the missing chunks within the readahead depth behind the batch and before byte `limit`,
  /// as free chunks allow.
  __device__ __forceinline__ void list_chunks(wanted const& w, std::uint32_t depth,
                                              std::uint64_t limit, pending& list) {
    unsigned const free = base::count_lanes(__ballot_sync(base::all_lanes, mine_.length == 0));
    std::uint64_t ahead = w.end;
    GPUFS_ROLLED
    for (std::uint32_t n = 0; n < depth && ahead < limit; ++n) {
      std::uint64_t const page = 1ull << w.page_shift;
      std::uint64_t const left = limit - ahead;
      int const there = covering(w.version, ahead, left < page ? limit : ahead + page);
      if (there >= 0) {
        // A chunk may end within a page: the file ended there at the request and has grown since.
        // The chunk does not have that page.
        std::uint64_t const end = base::warp_broadcast(mine_.begin + mine_.length, there);
        ahead = end >= limit ? limit : end / page * page;
        continue;
      }
      if (list.size() == free)
        break;  // chunks that are ahead already are worth more than later ones
      std::uint64_t const length = base::least(left, chunk_bytes());
      list.add(ahead, length);
      ahead += length;
    }
  }

  /// Removes the first request whose first page the cache may have, and those behind it.
  __device__ __forceinline__ void cut_at_cached(wanted const& w, pending& list) {
    constexpr unsigned at_once = 4;  // loads under way
    GPUFS_ROLLED
    for (unsigned first = 0; first < list.size(); first += at_once) {
      std::uint64_t page[at_once];
      GPUFS_UNROLL
      for (unsigned i = 0; i < at_once; ++i)
        page[i] = list.begin((first + i) % base::warp_size) >> w.page_shift;
      unsigned const had = cache::may_have_each(fs_.cache, w.version, page);
      // Bits behind the list's end stand for no request.
      if (had != 0) list.cut(first + base::lowest_lane(had));
    }
  }

  /// Notes the piece that the caller is about to bring in. Returns its strides, if chunks bring the
  /// next pieces. If they repeat, the caller goes on at a constant distance, and its chunks ahead
  /// are still of use. A piece that another caller brings in ends a series of chunks, which nobody
  /// else can use.
  __device__ __forceinline__ strides note_piece(wanted const& w, bool jump, depth_rule const& rule,
                                                piece const& p) {
    stream const reads = state_->reads;
    strides const before = reads.version == w.version ? state_->pieces : strides{};
    bool const enters = by_pages(w, p.length);
    if (w.begin > w.read_begin) return enters ? strides{} : before;  // the first batch has noted it
    strides now{};
    if (jump && rule.automatic && !rule.random) {
      std::uint64_t const bytes = w.read_end - w.begin;
      now = before.after(bytes <= longest_piece * chunk_bytes() ? p : piece{},
                         enters ? reads.next : before.begin + before.length, ~std::uint32_t{0});
      if (now.depth != 0 && enters)  // seldom, and divisions take long
        now.entered =
            pieces_entered(now, {rule.callers, fs_.channels.page.count, fs_.cache.frame_count},
                           1ull << w.page_shift);
      else if (now.depth != 0)
        now.depth = base::least(now.depth, most_in_chunks(rule.callers, bytes));
    }
    __syncwarp();  // all lanes have read the state
    if (lane_id() == 0) state_->pieces = now;
    __syncwarp();
    return enters ? strides{} : now;
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
        kind == read_kind::jump && is_far(s, first, chunks_per_context * chunk_bytes());
    bool const taken_over = !s.follows(first) && has_chunk_in(w, s.own_end, first);
    bool const known = s.version == w.version && s.shared != 0;
    bool const shared = !far && (taken_over || known);
    __syncwarp();  // all lanes have read the state
    if (lane_id() == 0) s.shared = shared ? 1 : 0;
    __syncwarp();
    return shared || kind == read_kind::gap;
  }

  bool unsent_ = false;          ///< cover() has reserved the lane's chunk
  bool requests_ahead_ = false;  ///< cover() wants chunks beyond the batch
};

}  // namespace gpufs::prefetch
