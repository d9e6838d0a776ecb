// Chunks of pieces at a constant distance.
#pragma once

#include <gpufs/cache/replacement/policies.hpp>

#include <prefetcher/seat_chunks.hpp>
#include <prefetcher/stride.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// A seat's chunks, and what of them pieces at a constant distance want. All lanes of its owner's
/// first warp call each function.
class piece_chunks : public seat_chunks {
 public:
  using seat_chunks::seat_chunks;

 protected:
  /// Whether pieces of `length` bytes come into the page cache ahead. If not, they come as chunks.
  __device__ __forceinline__ bool by_pages(wanted const& w, std::uint64_t length) const {
    return pieces_by_pages(length, 1ull << w.page_shift) && !w.written &&
           rpc::block_backing_of(w.version) == 0 && cache::has_queues(fs_.cache.policy);
  }

  /// Pieces of `bytes` bytes that a caller has ahead in chunks at most. All callers together have
  /// as many bytes as of chunks.
  __device__ std::uint32_t most_in_chunks(std::uint32_t callers, std::uint64_t bytes) const {
    std::uint64_t const together = chunks_ahead_together * chunk_bytes() / bytes;
    return depth_limit(callers, base::most(static_cast<std::uint32_t>(together), 1u),
                       pieces_at_once(chunks_in(bytes)));
  }
  __device__ std::uint32_t chunks_in(std::uint64_t bytes) const {
    return static_cast<std::uint32_t>((bytes + chunk_bytes() - 1) / chunk_bytes());
  }

  /// Lists the next pieces at a constant distance that are missing, as free chunks allow.
  __device__ __forceinline__ void list_pieces(wanted const& w, strides const& s, pending& list) {
    unsigned const free = base::count_lanes(__ballot_sync(base::all_lanes, mine_.length == 0));
    std::uint64_t const in_page = (1ull << w.page_shift) - 1;
    std::uint64_t at = s.begin + s.distance;
    GPUFS_ROLLED
    for (std::uint32_t n = 0; n < s.depth && at < w.size; ++n, at += s.distance) {
      std::uint64_t const last = base::least(at + s.length, w.size);
      std::uint64_t const end = base::least((last + in_page) & ~in_page, w.size);
      GPUFS_ROLLED
      for (std::uint64_t begin = at & ~in_page; begin < end; begin += chunk_bytes()) {
        std::uint64_t const length = base::least(end - begin, chunk_bytes());
        if (covering(w.version, begin, begin + length) >= 0) continue;
        if (list.size() == free) return;
        list.add(begin, length);
      }
    }
  }

  /// Chunks that the pieces within the depth have, about.
  __device__ std::uint32_t chunks_of(strides const& s) const {
    return s.depth * chunks_in(s.length);
  }
};

}  // namespace gpufs::prefetch
