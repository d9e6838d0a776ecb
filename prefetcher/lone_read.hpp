// Reads of one page that need nothing of the prefetcher: after a jump, by a seat that has no
// chunks. This is the short way to find that out and to note the read.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>

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

  /// Whether the caller wants all of the page.
  [[nodiscard]] __device__ bool is_whole() const { return begin <= page_begin && page_end <= end; }
};

/// Notes that the caller did not have a page to itself, or requested it in vain. All lanes of the
/// first warp of the seat's owner call.
__device__ __forceinline__ void note_contested(readahead_state& state) {
  if (lane_id() == 0) state.uncontested = 0;
  __syncwarp();
}

/// What readahead would do and note for such a read. All lanes of a warp of the seat's owner call
/// each function.
class lone_read {
 public:
  /// Of a caller without a prefetcher.
  __device__ lone_read() : alone_(true) {}
  /// Loads the seat's state; the loads are under way together.
  __device__ __forceinline__ lone_read(fs_ref const& fs, readahead_state const& state,
                                       page_read const& r) {
    auto const load = [](std::uint32_t& word) {
      return atomic_ref<std::uint32_t, scope::device>(word).load(memory_order_relaxed);
    };
    std::uint32_t const changes = load(*fs.seats.advice_changes);
    callers_ = load(*fs.seats.claimed);
    uncontested_ = state.uncontested;
    reads_ = state.reads;
    pieces_ = state.pieces;
    advice_seen const seen = state.advised;
    std::uint32_t const chunk_length = state.entry[lane_id()].length;

    calls_ = seen.calls + 1;
    bool const known = seen.fd == r.fd && seen.changes == changes && calls_ % looks_apart != 0;
    auto const advised = static_cast<advice>(seen.value);
    bool const random = advised == advice::random;
    bool const same = reads_.version == r.version;
    std::uint64_t const page = std::uint64_t(1) << r.page_shift;
    bool const jump = kind_of(reads_, r.version, r.begin, page, advised) == read_kind::jump;
    bool const strided = fs.prefetch.automatic && !random;
    strided_ = strided && jump;
    if (!same) pieces_ = {};
    reads_.shared = same && reads_.shared != 0 &&
                    !is_far(reads_, r.page_begin, chunks_per_context * fs.prefetch.chunk_bytes);
    reads_.depth = 0;
    reads_.bring_in(r.page_begin, r.page_begin + page);
    __syncwarp();  // all lanes have read the state
    has_chunks_ = __ballot_sync(base::all_lanes, chunk_length != 0) != 0;
    // Kernels may give advice meanwhile, so lanes may differ.
    alone_ = __all_sync(base::all_lanes, known && jump && (strided || random)) != 0 && !has_chunks_;
  }

  /// Whether the page needs nothing but a request of its own. Otherwise readahead must be asked,
  /// and nothing is to be noted.
  [[nodiscard]] __device__ bool is_alone() const { return alone_; }
  /// Whether the caller may request its page before it is entered.
  [[nodiscard]] __device__ bool sends_first() const {
    return uncontested_ >= reads_before_sending_first;
  }
  /// Whether the seat has chunks, which readahead may have to give back.
  [[nodiscard]] __device__ bool has_chunks() const { return has_chunks_; }

  /// Notes that the caller brings in the page out of a file window. Readahead has no part in it.
  /// Returns as note().
  __device__ __forceinline__ bool note_window(fs_ref const& fs, readahead_state& state,
                                              page_read const& r) const {
    strides const now = pieces_after(fs, r);
    if (lane_id() == 0) {
      state.reads.own_begin = reads_.own_begin;
      state.reads.own_end = reads_.own_end;
      state.pieces = now;
    }
    __syncwarp();
    return now.entered != 0;
  }

  /// Notes the read. Its page is entered, and the caller brings it in. Returns whether pieces of
  /// its series are to come with it.
  __device__ __forceinline__ bool note(fs_ref const& fs, readahead_state& state,
                                       page_read const& r) const {
    strides const now = pieces_after(fs, r);
    if (lane_id() == 0) {
      state.reads = reads_;
      state.pieces = now;
      state.advised.calls = calls_;
      state.confined = 1;
      state.uncontested = base::least(uncontested_ + 1, reads_before_sending_first);
    }
    __syncwarp();
    return now.entered != 0;
  }

 private:
  /// The series of pieces after this read.
  __device__ __forceinline__ strides pieces_after(fs_ref const& fs, page_read const& r) const {
    if (!strided_) return {};
    strides now = pieces_.after({r.begin, r.end - r.begin}, reads_.next, most_pieces_entered);
    if (now.depth != 0)  // seldom, and a division takes long
      now.entered = pieces_entered(
          now, {base::warp_broadcast(callers_), fs.channels.page.count, fs.cache.frame_count},
          std::uint64_t(1) << r.page_shift);
    return now;
  }

  bool alone_ = false, has_chunks_ = false;
  bool strided_ = false;  ///< the read may be a piece at a constant distance
  std::uint32_t callers_ = 0;
  std::uint32_t uncontested_ = 0;  ///< readahead_state::uncontested
  std::uint32_t calls_ = 0;
  stream reads_;
  strides pieces_;  ///< before this read
};

}  // namespace gpufs::prefetch
