// The readahead prefetcher: serves a seat's misses from private chunks, each filled by one request.
// It follows the GPUfs readahead paper, section 4. Two things differ: the readahead depth adapts,
// and the next chunks are under way while the kernel uses the current one.
#pragma once

#include <gpufs/dirty/write_counters.hpp>
#include <gpufs/handle/counters.hpp>
#include <gpufs/ring/channel.hpp>

#include <prefetcher/readahead_state.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// The file bytes of a batch that a group is about to read.
struct wanted {
  std::int32_t fd;
  std::uint64_t version;
  std::uint64_t size;   ///< of the file
  std::uint64_t begin;  ///< first byte of the batch's first page
  std::uint64_t end;    ///< end of its last page, at most `size`
  std::uint32_t page_shift;
  /// the file is or was written through this filesystem, so copies of its bytes can be too old
  bool written;
  bool sequential;
};

/// Where a page lies in a chunk.
struct chunk_position {
  bool found;
  ring::channel via;
  std::uint32_t offset;  ///< of the page in the chunk's staging piece
};

/// A warp's view of a seat's chunks; chunk i is in lane i. All lanes of the warp call each
/// function, unless it says otherwise.
class readahead {
 public:
  /// Loads the chunks of the seat with this `state`. The caller's context owns the seat. If `state`
  /// is null there are no chunks, and only find() may be called.
  __device__ readahead(fs_ref const& fs, readahead_state* state) : fs_(fs), state_(state) {
    if (state != nullptr) mine_ = state->entry[lane_id()];
  }

  __device__ stream& reads() { return state_->reads; }

  /// Requests chunks for the batch's absent pages that no chunk has, as channels allow. Bit i is
  /// page i. Notes the readahead depth for look_ahead().
  ///
  /// Before it requests, drops chunks that the batch makes useless, and after a jump those ahead.
  /// If a sequential read requests nothing here, look_ahead() drops the useless ones.
  __device__ __forceinline__ void cover(wanted const& w, std::uint32_t absent,
                                        depth_rule const& rule) {
    std::uint32_t const depth = next_depth(state_->reads.depth, w.sequential, rule);
    pending list;
    // With automatic `prefetch_size` or RANDOM advice, a read that is not sequential requests only
    // the batch.
    std::uint64_t const limit = rule.automatic && !w.sequential ? w.end : w.size;
    absent &= ~base::warp_union(pages_of(w));
    GPUFS_ROLLED
    while (absent != 0 && !list.full()) {
      unsigned const i = base::lowest_lane(absent);
      std::uint64_t const page = w.begin + (std::uint64_t(i) << w.page_shift);
      std::uint64_t const length = base::least(limit - page, fs_.prefetch.chunk_bytes);
      list.add(page, length);
      // Pages before its end are covered. So is the file's last page, which may be short.
      std::uint64_t const next = i + ((length + (1ull << w.page_shift) - 1) >> w.page_shift);
      absent = next >= 32 ? 0 : absent & ~((1u << next) - 1);
    }
    if (list.size() != 0 || !w.sequential) {
      drop([&](chunk const& c) { return useless(c, w) || (!w.sequential && c.begin >= w.end); });
      make_room(w, list.size());
      issue(w, list);
      save();
    }
    __syncwarp();  // all lanes have read the old depth
    if (lane_id() == 0) state_->reads.depth = depth;
    __syncwarp();
  }

  /// Drops chunks that the batch makes useless. If it `requests`, also requests the missing chunks
  /// within the readahead depth, as free chunks allow.
  __device__ __forceinline__ void look_ahead(wanted const& w, bool requests) {
    drop([&](chunk const& c) { return useless(c, w); });
    std::uint32_t const depth = requests ? state_->reads.depth : 0;
    unsigned const free = base::count_lanes(__ballot_sync(base::all_lanes, mine_.length == 0));
    pending list;
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
      std::uint64_t const length = base::least(left, fs_.prefetch.chunk_bytes);
      list.add(ahead, length);
      ahead += length;
    }
    if (list.size() != 0) issue(w, list);
    save();
  }

  /// Where the bytes [begin, end) of the calling lane's page are or will be, if it `wants` one. The
  /// page is not in the cache, or the caller is filling it. So a chunk is good if it was requested
  /// after the last write to its bytes. Older chunks are not used.
  __device__ __forceinline__ chunk_position find(wanted const& w, bool wants, std::uint64_t begin,
                                                 std::uint64_t end) const {
    chunk_position at{false, {}, 0};
    std::uint32_t const pages = __ballot_sync(base::all_lanes, wants);
    GPUFS_ROLLED
    for (unsigned left = __ballot_sync(base::all_lanes, (pages_of(w) & pages) != 0); left != 0;
         left &= left - 1) {
      unsigned const lane = base::lowest_lane(left);
      if (w.written) {
        bool const overtaken =
            lane_id() == lane &&
            dirty::writes_counted(fs_, mine_.version, mine_.begin, mine_.begin + mine_.length) !=
                state_->writes[lane];
        if (__ballot_sync(base::all_lanes, overtaken) != 0) continue;
      }
      std::uint64_t const first = base::warp_broadcast(mine_.begin, lane);
      std::uint32_t const length = base::warp_broadcast(mine_.length, lane);
      ring::channel const via{base::warp_broadcast(mine_.number, lane),
                              base::warp_broadcast(mine_.sequence, lane)};
      if (wants && first <= begin && end <= first + length)
        at = {true, via, static_cast<std::uint32_t>(begin - first)};
    }
    return at;
  }

  /// Whether bytes of the chunk that arrives by `via` may have been written since its request. Also
  /// true if the seat has no such chunk. Any single thread calls.
  __device__ bool overwritten(ring::channel const& via) const {
    GPUFS_ROLLED
    for (unsigned i = 0; i < chunks_per_context; ++i) {
      chunk const& c = state_->entry[i];
      if (c.length == 0 || c.number != via.number || c.sequence != via.sequence) continue;
      return dirty::writes_counted(fs_, c.version, c.begin, c.begin + c.length) !=
             state_->writes[i];
    }
    return true;
  }

  /// Gives all chunks back. Channels of chunks under way are quarantined until the answers are
  /// there.
  __device__ void drop_all() {
    drop([](chunk const&) { return true; });
    save();
  }

 private:
  /// Requests to be sent; number i is in lane i.
  class pending {
   public:
    __device__ unsigned size() const { return size_; }
    __device__ bool full() const { return size_ == chunks_per_context; }
    __device__ void add(std::uint64_t begin, std::uint64_t length) {
      if (lane_id() == size_) {
        begin_ = begin;
        length_ = static_cast<std::uint32_t>(length);
      }
      ++size_;
    }
    __device__ std::uint64_t begin(unsigned i) const {
      return base::warp_broadcast(begin_, static_cast<int>(i));
    }
    __device__ std::uint32_t length(unsigned i) const {
      return base::warp_broadcast(length_, static_cast<int>(i));
    }

   private:
    unsigned size_ = 0;
    std::uint64_t begin_ = 0;
    std::uint32_t length_ = 0;
  };

  __device__ void save() {
    state_->entry[lane_id()] = mine_;
    __syncwarp();
  }

  /// The chunk lies behind the batch's start, or has another file version.
  __device__ static bool useless(chunk const& c, wanted const& w) {
    return c.version != w.version || c.begin + c.length <= w.begin;
  }

  /// Bits of the batch's pages that the calling lane's chunk covers, up to the end of the file.
  __device__ __forceinline__ std::uint32_t pages_of(wanted const& w) const {
    std::uint64_t const end = mine_.begin + mine_.length;
    if (mine_.length == 0 || mine_.version != w.version || end <= w.begin || mine_.begin >= w.end)
      return 0;
    std::uint64_t const round_up = (1ull << w.page_shift) - 1;
    std::uint64_t const from =
        mine_.begin <= w.begin ? 0 : (mine_.begin - w.begin + round_up) >> w.page_shift;
    std::uint64_t const to = end >= w.end ? base::warp_size : (end - w.begin) >> w.page_shift;
    if (from >= to) return 0;
    return (to == base::warp_size ? base::all_lanes : (1u << to) - 1) & ~((1u << from) - 1);
  }

  /// The lane whose chunk has all of [begin, end), or -1. All lanes call.
  __device__ __forceinline__ int covering(std::uint64_t version, std::uint64_t begin,
                                          std::uint64_t end) const {
    bool const covers = mine_.length != 0 && mine_.version == version && mine_.begin <= begin &&
                        end <= mine_.begin + mine_.length;
    return __ffs(static_cast<int>(__ballot_sync(base::all_lanes, covers))) - 1;
  }

  template <class Unwanted>
  __device__ void drop(Unwanted&& unwanted) {
    if (mine_.length != 0 && unwanted(mine_)) give_back();
    __syncwarp();
  }

  /// Gives the calling lane's chunk back. One lane calls.
  __device__ void give_back() {
    ring::give_up_channel(fs_, fs_.prefetch.channels, {mine_.number, mine_.sequence});
    mine_.length = 0;
  }

  /// Gives back the oldest chunks ahead of the batch until `n` are free or none is left. Chunks
  /// behind the batch are gone already.
  __device__ void make_room(wanted const& w, unsigned n) {
    GPUFS_ROLLED
    while (base::count_lanes(__ballot_sync(base::all_lanes, mine_.length == 0)) < n) {
      bool const spare = mine_.length != 0 && mine_.begin >= w.end;
      std::uint32_t const age =
          spare ? state_->serial - mine_.serial : 0;  // at least 1 for a requested chunk
      std::uint32_t oldest = 0;
      int lane = -1;
      GPUFS_ROLLED
      for (int i = 0; i < static_cast<int>(base::warp_size); ++i) {
        std::uint32_t const other = base::warp_broadcast(age, i);
        if (other <= oldest) continue;
        oldest = other;
        lane = i;
      }
      if (lane < 0) return;
      if (lane_id() == static_cast<unsigned>(lane)) give_back();
      __syncwarp();
    }
  }

  /// Sends the requests of the list, as free chunks and channels allow.
  __device__ __forceinline__ void issue(wanted const& w, pending const& list) {
    unsigned const free = __ballot_sync(base::all_lanes, mine_.length == 0);
    unsigned const rank = base::rank_in(free);
    bool const takes = mine_.length == 0 && rank < list.size();
    // Lanes that take no request get some other lane's value and do not use it.
    std::uint64_t const begin = list.begin(rank % base::warp_size);
    std::uint32_t const length = list.length(rank % base::warp_size);
    // Each seat tries channels of its own first, so it uses the same ones again. Assumption: the
    // GPU pulls faster from staging pieces that stay in the host's CPU caches. No test covers this.
    std::uint32_t const home =
        static_cast<std::uint32_t>(state_ - fs_.prefetch.states) * chunks_per_context;
    ring::channel via;
    bool const sends = ring::try_channels(fs_, fs_.prefetch.channels, home, 2, takes, via);
    if (sends) {
      mine_ = {w.version, begin, length, via.number, via.sequence, state_->serial + rank};
      state_->writes[lane_id()] =
          w.written ? dirty::writes_counted(fs_, w.version, begin, begin + length) : 0;
    }
    rpc::request r;
    r.op = rpc::operation::read;
    r.channel = via.number;
    r.sequence = via.sequence;
    r.file = w.fd;
    r.offset = begin;
    r.length = length;
    r.staging = sends ? ring::staging_offset(fs_.prefetch.channels, via) : 0;
    ring::submit_each(fs_, sends, r);
    auto const sent = base::count_lanes(__ballot_sync(base::all_lanes, sends));
    if (lane_id() == 0) {
      state_->serial += list.size();
      handle::add(fs_, handle::counter::requests, sent);
      handle::add(fs_, handle::counter::read_requests, sent);
    }
    __syncwarp();
  }

  fs_ref const& fs_;
  readahead_state* const state_;
  chunk mine_{};
};

}  // namespace gpufs::prefetch
