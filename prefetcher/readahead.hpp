// The readahead prefetcher (paper 001, section 4): a context's private chunks, filled by one request each, from which its misses are
// served. Beyond the paper: the window adapts, and the next chunks are on their way while the current one is consumed.
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
  std::uint64_t size;    ///< of the file
  std::uint64_t begin;   ///< first byte of the batch's first page
  std::uint64_t end;     ///< one past its last page's last byte, at most size
  std::uint32_t absent;  ///< bit i: the batch's page i is not in the cache
  std::uint32_t page_shift;
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
  /// The chunks of the slot `state` belongs to, which the caller's context owns. null: none; then only find() may be called.
  __device__ readahead(fs_ref const& fs, readahead_state* state) : fs_(fs), state_(state) {
    if (state != nullptr) mine_ = state->entry[lane_id()];
  }

  __device__ stream& reads() { return state_->reads; }

  /// Makes sure that absent pages are covered by chunks as far as channels allow, then that the window beyond the batch is on its way.
  __device__ __forceinline__ void plan(wanted const& w, window_rule const& rule) {
    std::uint32_t const window = next_window(state_->reads.window, w.sequential, rule);
    drop([&](chunk const& c) { return c.uid != w.uid || c.begin + c.length <= w.begin || (!w.sequential && c.begin >= w.end); });
    for (std::uint32_t left = w.absent; left != 0; left &= left - 1) {
      std::uint64_t const page = w.begin + (std::uint64_t(__ffs(static_cast<int>(left)) - 1) << w.page_shift);
      std::uint64_t const page_end = page + (1ull << w.page_shift) < w.size ? page + (1ull << w.page_shift) : w.size;
      if (covering(w.uid, page, page_end) >= 0) continue;
      // Without a fixed prefetch size, a read that is not sequential asks for no more than it wants.
      std::uint64_t const most = rule.automatic && !w.sequential ? w.end - page : w.size - page;
      if (!issue(w, page, most < fs_.prefetch.chunk_bytes ? most : fs_.prefetch.chunk_bytes)) break;
    }
    std::uint64_t ahead = w.end;
    for (std::uint32_t n = 0; n < window && ahead < w.size; ++n) {
      int const there = covering(w.uid, ahead, ahead + 1);
      std::uint64_t const left = w.size - ahead;
      std::uint64_t length = left < fs_.prefetch.chunk_bytes ? left : fs_.prefetch.chunk_bytes;
      if (there >= 0) {
        length = warp_broadcast(mine_.begin + mine_.length, there) - ahead;
      } else if (__ballot_sync(all_lanes, mine_.length == 0) == 0 || !issue(w, ahead, length)) {
        break;  // what is ahead already is worth more than what comes behind it
      }
      ahead += length;
    }
    state_->entry[lane_id()] = mine_;
    if (lane_id() == 0) state_->reads.window = window;
    __syncwarp();
  }

  /// Where the bytes [begin, end) of a page are or will be. The page is not in the cache, or is being filled by the caller: so a copy that was
  /// requested since it was last written to is good, and an older one is not used.
  __device__ __forceinline__ place find(std::uint64_t uid, std::uint64_t begin, std::uint64_t end) const {
    int const lane = covering(uid, begin, end);
    if (lane < 0) return {false, {}, 0};
    std::uint32_t overwritten = 0;
    if (lane_id() == static_cast<unsigned>(lane)) {
      overwritten = writes_counted(fs_, uid, mine_.begin, mine_.begin + mine_.length) != state_->writes[lane] ? 1 : 0;
    }
    if (warp_broadcast(overwritten, lane) != 0) return {false, {}, 0};
    return {true,
            {warp_broadcast(mine_.number, lane), warp_broadcast(mine_.sequence, lane)},
            static_cast<std::uint32_t>(begin - warp_broadcast(mine_.begin, lane))};
  }

  /// Gives all chunks back; those on their way keep their channels until they have landed.
  __device__ void drop_all() {
    drop([](chunk const&) { return true; });
    state_->entry[lane_id()] = mine_;
    __syncwarp();
  }

 private:
  /// The lane whose chunk has all of [begin, end), or -1.
  __device__ __forceinline__ int covering(std::uint64_t uid, std::uint64_t begin, std::uint64_t end) const {
    bool const covers = mine_.length != 0 && mine_.uid == uid && mine_.begin <= begin && end <= mine_.begin + mine_.length;
    return __ffs(static_cast<int>(__ballot_sync(all_lanes, covers))) - 1;
  }

  template <class Unwanted>
  __device__ void drop(Unwanted&& unwanted) {
    if (mine_.length != 0 && unwanted(mine_)) give_back();
    __syncwarp();
  }

  /// One lane gives its chunk back.
  __device__ void give_back() {
    channel const via{mine_.number, mine_.sequence};
    if (rpc::completion_sequence(load_completion(fs_, via.number, memory_order_relaxed)) == via.sequence) {
      release_channel(fs_.prefetch.channels, via);
    } else {
      abandon_channel(fs_.prefetch.channels, via);
    }
    mine_.length = 0;
  }

  /// Requests a chunk. False, with nothing changed, if all channels are busy or all chunks are needed for the batch.
  __device__ __forceinline__ bool issue(wanted const& w, std::uint64_t begin, std::uint64_t length) {
    int lane = __ffs(static_cast<int>(__ballot_sync(all_lanes, mine_.length == 0))) - 1;
    if (lane < 0) {
      // The oldest one that the batch does not need.
      bool const spare = mine_.begin + mine_.length <= w.begin || mine_.begin >= w.end;
      std::uint32_t const age = spare ? state_->serial - mine_.serial : 0;  // at least 1 for a chunk that was issued
      std::uint32_t oldest = 0;
      for (int i = 0; i < static_cast<int>(warp_size); ++i) {
        std::uint32_t const other = warp_broadcast(age, i);
        if (other <= oldest) continue;
        oldest = other;
        lane = i;
      }
      if (lane < 0) return false;
      if (lane_id() == static_cast<unsigned>(lane)) give_back();
      __syncwarp();
    }
    // Each slot looks at channels of its own first, the same ones again and again: what stays in the host's caches is pulled faster.
    std::uint32_t const home = static_cast<std::uint32_t>(state_ - fs_.prefetch.states) * chunks_per_context;
    channel via;
    if (!try_channels(fs_, fs_.prefetch.channels, home, via) &&
        !try_channels(fs_, fs_.prefetch.channels, home + warp_size, via)) {
      return false;
    }
    if (lane_id() == static_cast<unsigned>(lane)) {
      mine_ = {w.uid, begin, static_cast<std::uint32_t>(length), via.number, via.sequence, state_->serial};
      state_->writes[lane] = writes_counted(fs_, w.uid, begin, begin + length);
    }
    __syncwarp();
    rpc::request r;
    r.op = rpc::operation::read;
    r.channel = via.number;
    r.sequence = via.sequence;
    r.file = w.fd;
    r.offset = begin;
    r.length = length;
    r.staging = staging_offset(fs_.prefetch.channels, via);
    submit(fs_, r);
    if (lane_id() == 0) {
      ++state_->serial;
      count(fs_, counter::requests);
      count(fs_, counter::read_requests);
    }
    __syncwarp();
    return true;
  }

  fs_ref const& fs_;
  readahead_state* const state_;
  chunk mine_{};
};

}  // namespace gpufs::prefetch
