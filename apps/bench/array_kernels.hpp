// The kernels for reads of cached pages (array_rates.hpp). They add up elements of a plain buffer,
// of an array, or through a pointer.
#pragma once

#include <gpufs/gpufs.hpp>

#include <apps/common/generator.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

inline constexpr unsigned hot_threads = 256;
// Blocks per multiprocessor: all that fit. The kernels of array get as many as leave each thread 64
// registers.
inline constexpr unsigned plain_blocks = 8, array_blocks = 4;
inline constexpr unsigned stream_together = 8, lookups_together = 8;

inline constexpr std::uint64_t lookup_seed = 1;

using word = std::uint64_t;

/// The results of these kernels in device memory: the sum of each thread, and the first error.
struct summing {
  std::uint64_t elements;
  std::uint64_t elements_per_page;
  std::uint64_t lookups;  ///< a multiple of lookups_together
  word* sums;
  std::int32_t* error;
};

__device__ inline std::uint64_t thread_number() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::uint64_t thread_count() { return std::uint64_t{gridDim.x} * blockDim.x; }

__device__ inline void note_error(std::int32_t* to, int error) {
  // Relaxed: any of the errors will do; the host reads after the kernel.
  if (error != 0) atomic_ref<std::int32_t, scope::device>(*to).store(error, memory_order_relaxed);
}

/// Each element once, neighbours by neighbouring threads.
struct as_stream {
  __device__ static word sum(word const* words, summing const& s) {
    word sum = 0;
#pragma unroll 4
    for (std::uint64_t i = thread_number(); i < s.elements; i += thread_count()) sum += words[i];
    return sum;
  }
};

/// The same with a page for each warp at a time. Calls part(first, count): elements first, +
/// warp_size, ... below first + count are the thread's.
template <class Part>
__device__ void visit_by_page(summing const& s, Part&& part) {
  std::uint64_t const step = thread_count() / base::warp_size * s.elements_per_page;
  for (std::uint64_t first = thread_number() / base::warp_size * s.elements_per_page + lane_id();
       first < s.elements; first += step) {
    std::uint64_t const to_page_end = s.elements_per_page - lane_id(), to_end = s.elements - first;
    part(first, static_cast<std::int64_t>(to_page_end < to_end ? to_page_end : to_end));
  }
}

/// Adds up the thread's elements of a part, given by at(n). Asks for several before it needs the
/// first.
template <class At>
__device__ word sum_of_part(std::int64_t count, At&& at) {
  constexpr std::int64_t turn = std::int64_t{stream_together} * base::warp_size;
  word sum = 0;
  std::int64_t n = 0;
  for (; n + turn - std::int64_t{base::warp_size} < count; n += turn) {
    word found[stream_together];
    GPUFS_UNROLL
    for (unsigned k = 0; k < stream_together; ++k)
      found[k] = at(n + std::int64_t{k} * base::warp_size);
    GPUFS_UNROLL
    for (unsigned k = 0; k < stream_together; ++k) sum += found[k];
  }
  for (; n < count; n += base::warp_size) sum += at(n);
  return sum;
}

struct by_page {
  __device__ static word sum(array<word const> const& words, summing const& s) {
    word sum = 0;
    visit_by_page(s, [&](std::uint64_t first, std::int64_t count) {
      sum += sum_of_part(
          count, [&](std::int64_t n) { return words[first + static_cast<std::uint64_t>(n)]; });
    });
    return sum;
  }
};

struct by_pointer {
  __device__ static word sum(array<word const> const& words, summing const& s) {
    word sum = 0;
    auto p = words.pointer(0);
    visit_by_page(s, [&](std::uint64_t first, std::int64_t count) {
      p += static_cast<std::int64_t>(first - p.index());
      sum += sum_of_part(count, [&](std::int64_t n) { return p[n]; });
    });
    note_error(s.error, p.error());
    return sum;
  }
};

/// Random ones, several independent ones at a time.
struct as_lookups {
  template <class Words>
  __device__ static word sum(Words const& words, summing const& s) {
    word sum = 0;
    for (std::uint64_t i = thread_number() * lookups_together; i < s.lookups;
         i += thread_count() * lookups_together) {
      word found[lookups_together];
      GPUFS_UNROLL
      for (unsigned k = 0; k < lookups_together; ++k)
        found[k] = words[generate_below(lookup_seed, i + k, s.elements)];
      GPUFS_UNROLL
      for (unsigned k = 0; k < lookups_together; ++k) sum += found[k];
    }
    return sum;
  }
};

template <class How>
__global__ void __launch_bounds__(hot_threads, plain_blocks)
    sum_plain(word const* words, summing s) {
  s.sums[thread_number()] = How::sum(words, s);
}

template <class How>
__global__ void __launch_bounds__(hot_threads, array_blocks)
    sum_array(fs_ref fs, int fd, summing s) {
  io_context io(fs, cooperative_groups::this_thread_block());
  array<word const> const words(io, fd, 0, s.elements);
  s.sums[thread_number()] = How::sum(words, s);
  note_error(s.error, words.error());
}

}  // namespace gpufs::apps
