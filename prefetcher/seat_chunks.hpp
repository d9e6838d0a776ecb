// The chunks of a seat: which bytes they have, and their requests. Where to read ahead is decided
// in readahead.hpp.
#pragma once

#include <gpufs/dirty/write_counters.hpp>
#include <gpufs/handle/counters.hpp>
#include <gpufs/ring/block_requests.hpp>
#include <gpufs/ring/channel.hpp>
#include <gpufs/ring/submit.hpp>

#include <prefetcher/readahead_state.hpp>
#include <prefetcher/wanted.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// Says that several warps look at the chunks of a seat at the same time.
struct one_of_many_t {};
inline constexpr one_of_many_t one_of_many;

/// A warp's view of a seat's chunks; chunk i is in lane i. All lanes of the warp call each
/// function, unless it says otherwise.
class seat_chunks {
 public:
  /// Loads the chunks of the seat with this `state`. The caller's context owns the seat. If `state`
  /// is null there are no chunks, and only find() may be called.
  __device__ seat_chunks(fs_ref const& fs, readahead_state* state) : fs_(fs), state_(state) {
    if (state == nullptr) return;
    mine_ = state->entry[lane_id()];
    answered_ = state->answered;
  }
  /// The same for one of several warps at the same time. They may call find(), note_answers() and
  /// overwritten() only, and note nothing.
  __device__ seat_chunks(fs_ref const& fs, readahead_state* state, one_of_many_t)
      : fs_(fs), state_(state), notes_(false) {
    if (state != nullptr) mine_ = state->entry[lane_id()];
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

  /// Notes the chunks whose answers the caller has seen: those that arrive by `via` of lanes with
  /// `seen`. They can be given back without another look across the bus.
  __device__ __forceinline__ void note_answers(bool seen, ring::channel const& via) {
    unsigned left = __ballot_sync(base::all_lanes, seen);
    if (left == 0 || !notes_) return;
    auto const is = [](ring::channel const& a, std::uint32_t number, std::uint32_t sequence) {
      return a.number == number && a.sequence == sequence;
    };
    GPUFS_ROLLED
    while (left != 0) {
      unsigned const from = base::lowest_lane(left);
      std::uint32_t const number = base::warp_broadcast(via.number, from);
      std::uint32_t const sequence = base::warp_broadcast(via.sequence, from);
      bool const mine = mine_.length != 0 && is({mine_.number, mine_.sequence}, number, sequence);
      answered_ |= __ballot_sync(base::all_lanes, mine);
      left &= ~__ballot_sync(base::all_lanes, seen && is(via, number, sequence));
    }
    if (lane_id() == 0) state_->answered = answered_;
    __syncwarp();
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

 protected:
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
    /// Removes the requests from number `size` on, if there are any.
    __device__ void cut(unsigned size) { size_ = base::least(size_, size); }
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
    if (lane_id() == 0) state_->answered = answered_;
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

  __device__ std::uint64_t chunk_bytes() const { return fs_.prefetch.chunk_bytes; }

  /// Whether one of the chunks has bytes of [begin, end), which may be empty. All lanes call.
  __device__ __forceinline__ bool has_chunk_in(wanted const& w, std::uint64_t begin,
                                               std::uint64_t end) const {
    bool const has = mine_.length != 0 && mine_.version == w.version && begin < end &&
                     mine_.begin < end && mine_.begin + mine_.length > begin;
    return __ballot_sync(base::all_lanes, has) != 0;
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
    forget_answers();
  }

  /// Gives the calling lane's chunk back. One lane calls; forget_answers() follows.
  __device__ void give_back() {
    ring::channel const via{mine_.number, mine_.sequence};
    if ((answered_ >> lane_id() & 1) != 0) {
      // Its bytes are settled, as give_up_channel() wants it, too.
      ring::return_channel(fs_.prefetch.channels, via, true, base::after_settling);
    } else {
      ring::give_up_channel(fs_, fs_.prefetch.channels, via);
    }
    mine_.length = 0;
  }

  /// Forgets the answers of chunks that have been given back. All lanes call.
  __device__ void forget_answers() {
    __syncwarp();  // all lanes have read the state
    answered_ &= __ballot_sync(base::all_lanes, mine_.length != 0);
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
      forget_answers();
    }
  }

  /// Takes channels for the list, as free chunks and channels allow. Returns whether the calling
  /// lane's chunk is one of the list. send() must follow.
  __device__ __forceinline__ bool reserve(wanted const& w, pending const& list) {
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
    handle::channel_pool_ref const& pool = fs_.prefetch.channels;
    bool const got = ring::try_channels(fs_, pool, home, 2, takes, via);
    if (__ballot_sync(base::all_lanes, takes && !got) != 0)
      ring::help_drives<base::whole_warp>(fs_.self, true,
                                          pool.first + (home + lane_id()) % pool.count,
                                          static_cast<unsigned>(state_->serial));
    if (got) {
      mine_ = {w.version, begin, length, via.number, via.sequence, state_->serial + rank};
      state_->writes[lane_id()] =
          w.written ? dirty::writes_counted(fs_, w.version, begin, begin + length) : 0;
    }
    __syncwarp();
    if (lane_id() == 0) state_->serial += list.size();
    __syncwarp();
    return got;
  }

  /// Sends the request of each lane that `sends`; its chunk is reserved.
  __device__ __forceinline__ void send(wanted const& w, bool sends) {
    rpc::request r;
    r.op = rpc::operation::read;
    r.flags = rpc::read_is_chunk;
    r.channel = mine_.number;
    r.sequence = mine_.sequence;
    r.file = w.fd;
    r.offset = mine_.begin;
    r.length = mine_.length;
    ring::channel const via{mine_.number, mine_.sequence};
    r.staging = sends ? ring::staging_offset(fs_.prefetch.channels, via) : 0;
    std::uint8_t const backing = w.written ? 0 : rpc::block_backing_of(w.version);
    bool by_drives = false;
    if (backing != 0)
      by_drives =
          ring::send_reads<base::whole_warp>(fs_.self, sends ? backing : std::uint8_t{0}, r.channel,
                                             r.sequence, r.offset, r.length, r.staging);
    ring::submit_each(fs_, sends && !by_drives, r);
    auto const sent = base::count_lanes(__ballot_sync(base::all_lanes, sends));
    if (lane_id() == 0) {
      handle::add(fs_, handle::counter::requests, sent);
      handle::add(fs_, handle::counter::read_requests, sent);
    }
    __syncwarp();
  }

  fs_ref const& fs_;
  readahead_state* const state_;
  bool const notes_ = true;
  chunk mine_{};
  std::uint32_t answered_ = 0;  ///< readahead_state::answered, in all lanes
};

}  // namespace gpufs::prefetch
