// Reads of one page that need little of the prefetcher: after a jump, by a seat that has no chunks,
// or one of many at a constant distance, whose page is in a chunk. This is the short way to find
// that out and to note the read.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/ring/channel.hpp>

#include <prefetcher/advised.hpp>
#include <prefetcher/readahead_state.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// A read within one page, which is not in the cache. The file is not written.
struct page_read {
  std::int32_t fd;
  std::uint64_t version;
  std::uint64_t begin;  ///< of the read
  std::uint64_t end;
  std::uint64_t page_begin;  ///< of its page
  std::uint64_t page_end;    ///< at most the end of the file
  std::uint32_t page_shift;
};

/// What readahead would do and note for such a read. All lanes of a warp of the seat's owner call
/// each function.
class lone_read {
 public:
  /// Where the bytes of the page come from.
  enum class way : std::uint32_t {
    longer,   ///< readahead must be asked, and nothing is to be noted
    request,  ///< a request of its own; nothing is to be requested beyond it
    chunk,    ///< chunk_via() brings them
  };

  /// Of a caller without a prefetcher.
  __device__ lone_read() : way_(way::request) {}
  /// Loads the seat's state; the loads are under way together.
  __device__ __forceinline__ lone_read(fs_ref const& fs, readahead_state const& state,
                                       page_read const& r)
      : way_(way::longer) {
    auto const load = [](std::uint32_t& word) {
      return atomic_ref<std::uint32_t, scope::device>(word).load(memory_order_relaxed);
    };
    std::uint32_t const changes = load(*fs.seats.advice_changes);
    std::uint32_t const callers = load(*fs.seats.claimed);
    reads_ = state.reads;
    strides const before = state.pieces;
    advice_seen const seen = state.advised;
    mine_ = state.entry[lane_id()];
    answered_ = state.answered;

    calls_ = seen.calls + 1;
    bool const known = seen.fd == r.fd && seen.changes == changes && calls_ % looks_apart != 0;
    auto const advised = static_cast<advice>(seen.value);
    bool const random = advised == advice::random;
    bool const same = reads_.version == r.version;
    std::uint64_t const page = std::uint64_t(1) << r.page_shift;
    bool const jump = kind_of(reads_, r.version, r.begin, page, advised) == read_kind::jump;
    bool const strided = fs.prefetch.automatic && !random;
    if (strided)
      pieces_ = (same ? before : strides{}).after({r.begin, r.end - r.begin}, ~std::uint32_t{0});
    reads_.shared = same && reads_.shared != 0 &&
                    !is_far(reads_, r.page_begin, chunks_per_context * fs.prefetch.chunk_bytes);
    reads_.depth = 0;
    std::uint64_t const own_end = reads_.own_end;
    bool const follows = reads_.follows(r.page_begin);
    reads_.bring_in(r.page_begin, r.page_begin + page);
    __syncwarp();  // all lanes have read the state
    has_chunks_ = __ballot_sync(base::all_lanes, mine_.length != 0) != 0;
    // Kernels may give advice meanwhile, so lanes may differ.
    if (__all_sync(base::all_lanes, known && jump && (strided || random)) == 0) return;
    if (!has_chunks_) {
      if (pieces_.depth == 0) way_ = way::request;
      return;
    }
    bool const covers = mine_.length != 0 && mine_.version == r.version &&
                        mine_.begin <= r.page_begin && r.page_end <= mine_.begin + mine_.length;
    unsigned const lanes = __ballot_sync(base::all_lanes, covers);
    // Others have brought in pages between: the caller may share them.
    bool const between = mine_.length != 0 && mine_.version == r.version &&
                         mine_.begin < r.page_begin && mine_.begin + mine_.length > own_end;
    bool const taken_over = !follows && __ballot_sync(base::all_lanes, between) != 0;
    if (lanes == 0 || taken_over || pieces_.repeats == 0) return;
    way_ = way::chunk;
    lane_ = base::lowest_lane(lanes);
    auto const together =
        static_cast<std::uint32_t>(chunks_ahead_together * fs.prefetch.chunk_bytes >> r.page_shift);
    pieces_.depth = base::least(
        pieces_.depth, depth_limit(base::warp_broadcast(callers), together, pieces_at_once(1)));
    bool const ahead = mine_.length != 0 && mine_.version == r.version && mine_.begin >= r.page_end;
    looks_ahead_ =
        !enough_ahead(base::count_lanes(__ballot_sync(base::all_lanes, ahead)), pieces_.depth);
  }

  [[nodiscard]] __device__ way found() const { return way_; }
  /// Whether the seat has chunks, which readahead may have to give back.
  [[nodiscard]] __device__ bool has_chunks() const { return has_chunks_; }
  /// way::chunk: whether readahead::look_ahead() must follow, for chunks that are missing.
  [[nodiscard]] __device__ bool looks_ahead() const { return looks_ahead_; }
  /// way::chunk: how the page's chunk comes, and where the page lies in it.
  [[nodiscard]] __device__ ring::channel chunk_via() const {
    return {base::warp_broadcast(mine_.number, lane_), base::warp_broadcast(mine_.sequence, lane_)};
  }
  [[nodiscard]] __device__ std::uint32_t chunk_offset(page_read const& r) const {
    return static_cast<std::uint32_t>(r.page_begin - base::warp_broadcast(mine_.begin, lane_));
  }

  /// Notes that the caller brings in the page out of a file window. Readahead has no part in it.
  __device__ __forceinline__ void note_window(readahead_state& state) const {
    if (lane_id() == 0) {
      state.reads.own_begin = reads_.own_begin;
      state.reads.own_end = reads_.own_end;
    }
    __syncwarp();
  }

  /// Notes the read. Its page is entered, and the caller brings it in. If it comes in a chunk, the
  /// answer has been seen.
  __device__ __forceinline__ void note(readahead_state& state) const {
    if (lane_id() == 0) {
      state.reads = reads_;
      state.pieces = pieces_;
      state.advised.calls = calls_;
      state.confined = 1;
      if (way_ == way::chunk) state.answered = answered_ | 1u << lane_;
    }
    __syncwarp();
  }

 private:
  way way_;
  bool has_chunks_ = false, looks_ahead_ = false;
  unsigned lane_ = 0;
  std::uint32_t calls_ = 0;
  std::uint32_t answered_ = 0;
  stream reads_;
  strides pieces_;
  chunk mine_{};
};

}  // namespace gpufs::prefetch
