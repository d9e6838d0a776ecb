// The readahead prefetcher (paper 001, section 4): a context's private chunks, filled by one
// request each, from which its misses are served. Beyond the paper: the window adapts, and the next
// chunks are on their way while the current one is consumed.
#pragma once

#include <gpufs/cache/write_counters.hpp>
#include <gpufs/io/counters.hpp>
#include <gpufs/rpc/client.hpp>

#include <prefetcher/readahead_state.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// The file bytes a group is about to read, as far as the prefetcher cares.
struct wanted {
  std::int32_t fd;
  std::uint64_t uid;
  std::uint64_t size;   ///< of the file
  std::uint64_t begin;  ///< first byte of the batch's first page
  std::uint64_t end;    ///< one past its last page's last byte, at most size
  std::uint32_t page_shift;
  bool written;  ///< the file is or was written to through this filesystem: copies of its bytes can
                 ///< be overtaken
  bool sequential;
};

/// A page's place in a chunk.
struct place {
  bool found;
  channel via;
  std::uint32_t offset;  ///< of the page in the chunk's staging piece
};

/// A warp's view of a slot's chunks: chunk i in lane i. All lanes call everything.
class readahead {
 public:
  /// The chunks of the slot `state` belongs to, which the caller's context owns. null: none; then
  /// only find() may be called.
  __device__ readahead(fs_ref const& fs, readahead_state* state) : fs_(fs), state_(state) {
    if (state != nullptr) mine_ = state->entry[lane_id()];
  }

  __device__ stream& reads() { return state_->reads; }

  /// Requests chunks for those of the batch's absent pages, bit i for page i, that no chunk has, as
  /// far as channels allow; notes the window for look_ahead(). Chunks that the batch makes useless
  /// go before that; if there is nothing to request, look_ahead() sees to them.
  __device__ __forceinline__ void cover(wanted const& w, std::uint32_t absent,
                                        window_rule const& rule) {
    std::uint32_t const window = next_window(state_->reads.window, w.sequential, rule);
    pending list;
    // Without a fixed prefetch size, a read that is not sequential asks for no more than it wants.
    std::uint64_t const limit = rule.automatic && !w.sequential ? w.end : w.size;
    absent &= ~warp_union(pages_of(w));
    GPUFS_ROLLED
    while (absent != 0 && !list.full()) {
      unsigned const i = static_cast<unsigned>(__ffs(static_cast<int>(absent)) - 1);
      std::uint64_t const page = w.begin + (std::uint64_t(i) << w.page_shift);
      std::uint64_t const length =
          limit - page < fs_.prefetch.chunk_bytes ? limit - page : fs_.prefetch.chunk_bytes;
      list.add(page, length);
      // The pages before its end are seen to, the last one of the file, too, which may be short.
      std::uint64_t const next = i + ((length + (1ull << w.page_shift) - 1) >> w.page_shift);
      absent = next >= 32 ? 0 : absent & ~((1u << next) - 1);
    }
    if (list.size() != 0 || !w.sequential) {
      drop([&](chunk const& c) { return useless(c, w) || (!w.sequential && c.begin >= w.end); });
      make_room(w, list.size());
      issue(w, list);
      save();
    }
    __syncwarp();  // all lanes have read the window that was
    if (lane_id() == 0) state_->reads.window = window;
    __syncwarp();
  }

  /// Drops what the batch makes useless, and, if it `requests`, has the chunks requested that are
  /// missing in the window behind it, as far as there are free ones.
  __device__ __forceinline__ void look_ahead(wanted const& w, bool requests) {
    drop([&](chunk const& c) { return useless(c, w); });
    std::uint32_t const window = requests ? state_->reads.window : 0;
    unsigned const free =
        static_cast<unsigned>(__popc(__ballot_sync(all_lanes, mine_.length == 0)));
    pending list;
    std::uint64_t ahead = w.end;
    GPUFS_ROLLED
    for (std::uint32_t n = 0; n < window && ahead < w.size; ++n) {
      std::uint64_t const page = 1ull << w.page_shift;
      std::uint64_t const left = w.size - ahead;
      int const there = covering(w.uid, ahead, left < page ? w.size : ahead + page);
      if (there >= 0) {
        // A chunk may end within a page: there the file ended when it was requested, and has grown
        // since. It does not have that page.
        std::uint64_t const end = warp_broadcast(mine_.begin + mine_.length, there);
        ahead = end >= w.size ? w.size : end / page * page;
        continue;
      }
      if (list.size() == free)
        break;  // what is ahead already is worth more than what comes behind it
      std::uint64_t const length =
          left < fs_.prefetch.chunk_bytes ? left : fs_.prefetch.chunk_bytes;
      list.add(ahead, length);
      ahead += length;
    }
    if (list.size() != 0) issue(w, list);
    save();
  }

  /// Where the bytes [begin, end) of the calling lane's page of the batch, if it wants one, are or
  /// will be. The page is not in the cache, or is being filled by the caller: so a copy that was
  /// requested since it was last written to is good, and an older one is not used.
  __device__ __forceinline__ place find(wanted const& w, bool wants, std::uint64_t begin,
                                        std::uint64_t end) const {
    place at{false, {}, 0};
    std::uint32_t const pages = __ballot_sync(all_lanes, wants);
    GPUFS_ROLLED
    for (unsigned left = __ballot_sync(all_lanes, (pages_of(w) & pages) != 0); left != 0;
         left &= left - 1) {
      int const lane = __ffs(static_cast<int>(left)) - 1;
      if (w.written) {
        bool const overtaken = lane_id() == static_cast<unsigned>(lane) &&
                               writes_counted(fs_, mine_.uid, mine_.begin,
                                              mine_.begin + mine_.length) != state_->writes[lane];
        if (__ballot_sync(all_lanes, overtaken) != 0) continue;
      }
      std::uint64_t const first = warp_broadcast(mine_.begin, lane);
      std::uint32_t const length = warp_broadcast(mine_.length, lane);
      channel const via{warp_broadcast(mine_.number, lane), warp_broadcast(mine_.sequence, lane)};
      if (wants && first <= begin && end <= first + length)
        at = {true, via, static_cast<std::uint32_t>(begin - first)};
    }
    return at;
  }

  /// Whether bytes of the chunk that arrives by `via` may have been written to since it was
  /// requested. Any single thread calls.
  __device__ bool overwritten(channel const& via) const {
    GPUFS_ROLLED
    for (unsigned i = 0; i < chunks_per_context; ++i) {
      chunk const& c = state_->entry[i];
      if (c.length == 0 || c.number != via.number || c.sequence != via.sequence) continue;
      return writes_counted(fs_, c.uid, c.begin, c.begin + c.length) != state_->writes[i];
    }
    return true;
  }

  /// Gives all chunks back; those on their way keep their channels until they have landed.
  __device__ void drop_all() {
    drop([](chunk const&) { return true; });
    save();
  }

 private:
  /// Requests to be made, number i in lane i.
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
      return warp_broadcast(begin_, static_cast<int>(i));
    }
    __device__ std::uint32_t length(unsigned i) const {
      return warp_broadcast(length_, static_cast<int>(i));
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

  /// Behind the batch, or of another file.
  __device__ static bool useless(chunk const& c, wanted const& w) {
    return c.uid != w.uid || c.begin + c.length <= w.begin;
  }

  /// Bits of the batch's pages of which the calling lane's chunk has all the bytes that the file
  /// has.
  __device__ __forceinline__ std::uint32_t pages_of(wanted const& w) const {
    std::uint64_t const end = mine_.begin + mine_.length;
    if (mine_.length == 0 || mine_.uid != w.uid || end <= w.begin || mine_.begin >= w.end) return 0;
    std::uint64_t const round_up = (1ull << w.page_shift) - 1;
    std::uint64_t const from =
        mine_.begin <= w.begin ? 0 : (mine_.begin - w.begin + round_up) >> w.page_shift;
    std::uint64_t const to = end >= w.end ? warp_size : (end - w.begin) >> w.page_shift;
    if (from >= to) return 0;
    return (to == warp_size ? all_lanes : (1u << to) - 1) & ~((1u << from) - 1);
  }

  /// The lane whose chunk has all of [begin, end), or -1.
  __device__ __forceinline__ int covering(std::uint64_t uid, std::uint64_t begin,
                                          std::uint64_t end) const {
    bool const covers = mine_.length != 0 && mine_.uid == uid && mine_.begin <= begin &&
                        end <= mine_.begin + mine_.length;
    return __ffs(static_cast<int>(__ballot_sync(all_lanes, covers))) - 1;
  }

  template <class Unwanted>
  __device__ void drop(Unwanted&& unwanted) {
    if (mine_.length != 0 && unwanted(mine_)) give_back();
    __syncwarp();
  }

  /// One lane gives its chunk back.
  __device__ void give_back() {
    give_up_channel(fs_, fs_.prefetch.channels, {mine_.number, mine_.sequence});
    mine_.length = 0;
  }

  /// Gives back the oldest chunks ahead of the batch until `n` are free, or none is left to give.
  /// Those behind it are gone.
  __device__ void make_room(wanted const& w, unsigned n) {
    GPUFS_ROLLED
    while (static_cast<unsigned>(__popc(__ballot_sync(all_lanes, mine_.length == 0))) < n) {
      bool const spare = mine_.length != 0 && mine_.begin >= w.end;
      std::uint32_t const age =
          spare ? state_->serial - mine_.serial : 0;  // at least 1 for a chunk that was issued
      std::uint32_t oldest = 0;
      int lane = -1;
      GPUFS_ROLLED
      for (int i = 0; i < static_cast<int>(warp_size); ++i) {
        std::uint32_t const other = warp_broadcast(age, i);
        if (other <= oldest) continue;
        oldest = other;
        lane = i;
      }
      if (lane < 0) return;
      if (lane_id() == static_cast<unsigned>(lane)) give_back();
      __syncwarp();
    }
  }

  /// Sends the requests of the list, as many as there are free chunks and channels.
  __device__ __forceinline__ void issue(wanted const& w, pending const& list) {
    unsigned const free = __ballot_sync(all_lanes, mine_.length == 0);
    unsigned const rank = rank_in(free);
    bool const takes = mine_.length == 0 && rank < list.size();
    // Any lane's value; those of lanes that take no request do not matter.
    std::uint64_t const begin = list.begin(rank % warp_size);
    std::uint32_t const length = list.length(rank % warp_size);
    // Each slot looks at channels of its own first, the same ones again and again: what stays in
    // the host's caches is pulled faster.
    std::uint32_t const home =
        static_cast<std::uint32_t>(state_ - fs_.prefetch.states) * chunks_per_context;
    channel via;
    bool const sends = try_channels(fs_, fs_.prefetch.channels, home, 2, takes, via);
    if (sends) {
      mine_ = {w.uid, begin, length, via.number, via.sequence, state_->serial + rank};
      state_->writes[lane_id()] = w.written ? writes_counted(fs_, w.uid, begin, begin + length) : 0;
    }
    rpc::request r;
    r.op = rpc::operation::read;
    r.channel = via.number;
    r.sequence = via.sequence;
    r.file = w.fd;
    r.offset = begin;
    r.length = length;
    r.staging = sends ? staging_offset(fs_.prefetch.channels, via) : 0;
    submit_each(fs_, sends, r);
    auto const sent = static_cast<std::uint32_t>(__popc(__ballot_sync(all_lanes, sends)));
    if (lane_id() == 0) {
      state_->serial += list.size();
      count(fs_, counter::requests, sent);
      count(fs_, counter::read_requests, sent);
    }
    __syncwarp();
  }

  fs_ref const& fs_;
  readahead_state* const state_;
  chunk mine_{};
};

}  // namespace gpufs::prefetch
