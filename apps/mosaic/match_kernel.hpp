// The kernel of the mosaic. A threadblock takes one place of the picture after the other:
// histogram, keys, candidates, the nearest of them.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/gpufs.hpp>

#include <apps/mosaic/match_job.hpp>
#include <apps/mosaic/match_source.hpp>

#include <cstdint>

namespace gpufs::apps {

namespace detail {

inline constexpr unsigned seen_slots = 1024;  // over three times as many as there are ever entries

/// A block's shared memory.
struct match_scratch {
  float record[most_match_rows][histogram_bins];  // each warp's, or the first one the block's
  std::uint32_t bins[histogram_bins];
  std::int32_t sums[lsh_dimensions];
  std::uint8_t signs[most_tables * most_key_bits];
  std::uint32_t begin[most_tables];
  std::uint32_t length[most_tables];
  std::uint32_t list[most_tables][list_limit];
  std::uint32_t seen[seen_slots];
  std::uint32_t candidate[candidate_limit];
  std::uint32_t candidates;
  std::uint64_t best[most_match_rows];
  std::uint64_t place;
};

/// Nothing found, and: a histogram could not be read. Both above any distance with a candidate's
/// number.
inline constexpr std::uint64_t nothing = ~0ull;
inline constexpr std::uint64_t unreadable = ~0ull - 1;

/// The histogram of a place, then its 192 sums. Ends with a barrier.
__device__ inline void take_histogram(match_scratch& s, std::uint32_t const* pixels,
                                      std::int32_t subtract, unsigned rank, unsigned threads) {
  for (unsigned b = rank; b < histogram_bins; b += threads) s.bins[b] = 0;
  __syncthreads();
  for (unsigned p = rank; p < tile_pixels; p += threads) {
    std::uint32_t const pixel = pixels[p];
    for (unsigned c = 0; c < 3; ++c)
      atomicAdd(&s.bins[c * channel_bins + (pixel >> (8 * c) & 255)], 1u);
  }
  __syncthreads();
  for (unsigned d = rank; d < lsh_dimensions; d += threads) {
    s.sums[d] = static_cast<std::int32_t>(s.bins[4 * d] + s.bins[4 * d + 1] + s.bins[4 * d + 2] +
                                          s.bins[4 * d + 3]) -
                subtract;
  }
  __syncthreads();
}

/// The sign of each of the index's dot products, a thread for each. Ends with a barrier.
__device__ inline void take_signs(match_scratch& s, lsh_view const& index, unsigned rank,
                                  unsigned threads) {
  unsigned const vectors = index.tables * index.bits;
  for (unsigned v = rank; v < vectors; v += threads) {
    std::int32_t dot = 0;
    GPUFS_UNROLL
    for (unsigned d = 0; d < lsh_dimensions; ++d)
      dot += s.sums[d] * index.coefficients[d * vectors + v];
    s.signs[v] = dot > 0 ? 1 : 0;
  }
  __syncthreads();
}

/// Where the list of the place's key in table `t` lies. One thread calls.
__device__ inline void find_list(match_scratch& s, lsh_view const& index, unsigned t) {
  std::uint32_t key = 0;
  for (unsigned b = 0; b < index.bits; ++b) key = key << 1 | s.signs[t * index.bits + b];
  std::uint32_t low = index.table_begin[t];
  std::uint32_t const end = index.table_begin[t + 1];
  for (std::uint32_t high = end; low < high;) {
    std::uint32_t const middle = low + (high - low) / 2;
    if (index.keys[middle] < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  bool const there = low < end && index.keys[low] == key;
  s.begin[t] = there ? index.list_begin[low] : 0;
  s.length[t] = there ? index.list_begin[low + 1] - s.begin[t] : 0;
}

/// Puts an id into the set of those seen. True for the one caller that does.
__device__ inline bool is_new(match_scratch& s, std::uint32_t id) {
  for (std::uint32_t at = id * 2654435761u >> 22;; at = (at + 1) % seen_slots) {
    std::uint32_t const found = atomicCAS(&s.seen[at], no_tile, id);
    if (found == no_tile) return true;
    if (found == id) return false;
  }
}

/// The lists in the order of their tables become candidates, each id once. One warp calls.
__device__ inline void merge_lists(match_scratch& s, unsigned tables) {
  std::uint32_t count = 0;
  for (unsigned t = 0; t < tables && count < candidate_limit; ++t) {
    bool const fresh = lane_id() < s.length[t] && is_new(s, s.list[t][lane_id()]);
    unsigned const all = __ballot_sync(base::all_lanes, fresh);
    std::uint32_t const at = count + base::rank_in(all);
    if (fresh && at < candidate_limit) s.candidate[at] = s.list[t][lane_id()];
    count += static_cast<unsigned>(__popc(all));
  }
  if (lane_id() == 0) s.candidates = count < candidate_limit ? count : candidate_limit;
}

/// The candidates of the place. Ends with a barrier.
__device__ inline void take_candidates(match_scratch& s, lsh_view const& index, unsigned rank,
                                       unsigned threads) {
  static_assert(most_tables <= base::warp_size && list_limit <= base::warp_size &&
                seen_slots == 1 << (32 - 22));
  for (unsigned i = rank; i < seen_slots; i += threads) s.seen[i] = no_tile;
  if (rank < index.tables) find_list(s, index, rank);
  __syncthreads();
  for (unsigned t = rank / base::warp_size; t < index.tables; t += threads / base::warp_size) {
    if (lane_id() < s.length[t]) s.list[t][lane_id()] = index.ids[s.begin[t] + lane_id()];
  }
  __syncthreads();
  if (rank < base::warp_size) merge_lists(s, index.tables);
  __syncthreads();
}

/// Squared distance between the place and a record: whole numbers, so that the order of the sum
/// does not matter. Collective; the result is every thread's of a tile, and the first thread's of a
/// block.
template <class Group>
__device__ std::uint32_t record_distance(match_scratch& s, Group const& group,
                                         float const* record) {
  auto const size = static_cast<unsigned>(group.size());
  auto const rank = static_cast<unsigned>(group.thread_rank());
  float sum = 0;
  for (unsigned b = rank; b < histogram_bins; b += size) {
    float const difference = static_cast<float>(s.bins[b]) - record[b];
    sum += difference * difference;
  }
  for (unsigned step = 1; step < base::warp_size; step *= 2)
    sum += __shfl_xor_sync(base::all_lanes, sum, static_cast<int>(step));
  if constexpr (io::is_block<Group>) {
    __shared__ float part[most_match_rows];
    __syncthreads();  // the last record's are used up
    if (lane_id() == 0) part[rank / base::warp_size] = sum;
    __syncthreads();
    sum = 0;
    for (unsigned w = 0; w < size / base::warp_size; ++w) sum += part[w];
  }
  return sum < static_cast<float>(no_distance) ? static_cast<std::uint32_t>(sum) : no_distance;
}

/// The nearest of the group's share of the candidates: distance << 32 | number, or `nothing`, or
/// `unreadable`. Collective over the group.
template <class Group, class Reader>
__device__ std::uint64_t nearest(match_scratch& s, Group const& group, Reader& reader,
                                 unsigned first, unsigned step, match_failure* failure) {
  std::uint64_t best = nothing;
  for (unsigned i = first; i < s.candidates; i += step) {
    std::uint32_t const id = s.candidate[i];
    ssize_t result = 0;
    float const* const record = reader.read(id, s.record[first], result);
    if (record == nullptr) {
      // Relaxed: elects one writer; the host reads after the kernel.
      if (group.thread_rank() == 0 && atomic_ref<std::uint32_t, scope::device>(failure->taken)
                                              .exchange(1, memory_order_relaxed) == 0) {
        failure->id = id;
        failure->result = result;
      }
      return unreadable;
    }
    std::uint32_t const d = record_distance(s, group, record);
    reader.done();
    std::uint64_t const found = std::uint64_t{d} << 32 | i;
    if (d != no_distance && found < best) best = found;
  }
  return best;
}

template <bool ByWarp>
__device__ auto match_group() {
  auto const block = cooperative_groups::this_thread_block();
  if constexpr (ByWarp) {
    return cooperative_groups::tiled_partition<32>(block);
  } else {
    return block;
  }
}

}  // namespace detail

/// Finds the best tile for every place. Blocks of 32 x 1 to 32 x most_match_rows threads, any
/// number of them. ByWarp: each warp reads and compares candidates of its own, as many records at a
/// time as there are warps; else the whole block one after the other. What it finds is the same.
template <class Source, bool ByWarp>
__global__ void __launch_bounds__(32 * most_match_rows, 2)
    match_tiles(Source source, match_job job) {
  __shared__ detail::match_scratch s;
  auto const group = detail::match_group<ByWarp>();
  typename Source::template reader<std::remove_const_t<decltype(group)>> reader(source, group);
  unsigned const threads = blockDim.x * blockDim.y;
  unsigned const rank = threadIdx.x + blockDim.x * threadIdx.y;
  unsigned const groups = ByWarp ? threads / base::warp_size : 1;
  unsigned const mine = ByWarp ? rank / base::warp_size : 0;
  for (;;) {
    if (rank == 0) s.place = atomicAdd(job.next, 1ull);
    __syncthreads();
    std::uint64_t const place = s.place;
    if (place >= job.places) return;
    detail::take_histogram(s, job.pixels + place * tile_pixels, job.index.subtract, rank, threads);
    detail::take_signs(s, job.index, rank, threads);
    detail::take_candidates(s, job.index, rank, threads);
    std::uint64_t const found = detail::nearest(s, group, reader, mine, groups, job.failure);
    if (group.thread_rank() == 0) s.best[mine] = found;
    __syncthreads();
    std::uint64_t best = detail::nothing;
    bool failed = false;
    for (unsigned g = 0; g < groups; ++g) {
      failed = failed || s.best[g] == detail::unreadable;
      best = s.best[g] < best ? s.best[g] : best;
    }
    if (failed) return;
    if (rank == 0) {
      job.best[place] = best == detail::nothing
                            ? tile_match{}
                            : tile_match{s.candidate[static_cast<std::uint32_t>(best)],
                                         static_cast<std::uint32_t>(best >> 32)};
      atomicAdd(job.compared, s.candidates);
    }
    __syncthreads();  // the scratch is free again
  }
}

}  // namespace gpufs::apps
