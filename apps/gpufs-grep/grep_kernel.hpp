// The kernel of gpufs-grep. Blocks take files, or parts of large ones, from a common counter and
// count lines.
#pragma once

#include <gpufs/gpufs.hpp>

#include <apps/gpufs-grep/grep_job.hpp>
#include <apps/gpufs-grep/word_scan.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

namespace detail {

/// Fills `chunk` from `offset` on, up to `count` bytes: less only if the file ends. Returns the
/// bytes, or -errno.
__device__ inline std::int64_t fill(io_context<cooperative_groups::thread_block>& io, int fd,
                                    char* chunk, std::uint64_t count, std::uint64_t offset) {
  std::uint64_t have = 0;
  while (have < count) {
    ssize_t const got =
        gread(io, fd, chunk + have, count - have, static_cast<std::int64_t>(offset + have));
    if (got < 0) return got;
    if (got == 0) break;
    have += static_cast<std::uint64_t>(got);
  }
  return static_cast<std::int64_t>(have);
}

/// The lines of bytes [range.begin, range.end) of an open file: a packed line_state, or -errno; the
/// first thread's alone. `window`: front_bytes and a chunk, 8-byte aligned.
__device__ inline std::int64_t count_in_range(io_context<cooperative_groups::thread_block>& io,
                                              int fd, grep_range const& range, grep_job const& job,
                                              char* window, std::uint64_t* scratch) {
  char* const chunk = window + front_bytes;
  std::uint64_t const length = job.word.length;
  line_state total;
  std::uint64_t scan = range.begin;    // next byte of the file to look at
  std::uint64_t offset = range.begin;  // of the chunk in the file
  if (range.begin != 0) {
    std::int64_t const got = fill(io, fd, chunk - 1, 1, range.begin - 1);
    if (got < 0) return got;
  }
  for (;;) {
    std::int64_t const got = fill(io, fd, chunk, job.chunk_bytes, offset);
    if (got < 0) return got;
    std::uint64_t const end = offset + static_cast<std::uint64_t>(got);
    bool const last = end - offset < job.chunk_bytes;
    // A word that begins at `stop` or behind it may go on in the next chunk.
    std::uint64_t stop = last ? end : end - length;
    bool const done = last || stop >= range.end;
    if (stop > range.end) stop = range.end;

    std::uint64_t const at_zero = offset - front_bytes;  // place 0 of the window, modulo 2^64
    text_window const t{window, scan - at_zero, stop - at_zero, end - at_zero, scan == 0};
    if (scan < stop) total = total.then(scan_window(t, job.word, scratch));
    if (done) return static_cast<std::int64_t>(total.packed());

    // The bytes not looked at, and the one before them, move in front of the next chunk.
    std::uint64_t const kept = length + 1;
    for (std::uint64_t i = threadIdx.x; i < kept; i += blockDim.x)
      window[front_bytes - kept + i] = chunk[job.chunk_bytes - kept + i];
    __syncthreads();
    scan = stop;
    offset = end;
  }
}

}  // namespace detail

/// One launch works a job off, with any number of blocks of a multiple of 32 threads.
__global__ void __launch_bounds__(1024) grep_kernel(fs_ref fs, grep_job job) {
  __shared__ std::uint64_t taken;
  __shared__ std::uint64_t scratch[32];
  auto const block = cooperative_groups::this_thread_block();
  io_context<cooperative_groups::thread_block> io(fs, block);
  char* const window = job.windows + blockIdx.x * (front_bytes + job.chunk_bytes);
  for (std::uint64_t finished = 1;; ++finished) {
    __syncthreads();  // all have read what was taken last
    // Relaxed: the ranges lie there since before the launch.
    if (threadIdx.x == 0)
      taken =
          atomic_ref<std::uint64_t, scope::device>(*job.next).fetch_add(1, memory_order_relaxed);
    __syncthreads();
    std::uint64_t const mine = taken;
    if (mine >= job.ranges) return;
    grep_range const range = job.range[mine];
    int const fd = gopen(io, job.paths + range.path, O_RDONLY);
    std::int64_t result = fd;
    if (fd >= 0) {
      result = detail::count_in_range(io, fd, range, job, window, scratch);
      int const closed = gclose(io, fd);
      if (closed < 0 && result >= 0) result = closed;
    }
    if (threadIdx.x == 0) {
      job.results[mine] = result;
      // Relaxed: a number to show.
      atomic_ref<std::uint64_t, scope::system>(job.finished[blockIdx.x])
          .store(finished, memory_order_relaxed);
    }
  }
}

}  // namespace gpufs::apps
