#include <gpufs/gpufs.hpp>

#include <python/src/records.hpp>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace gpufs::python {

namespace {

constexpr unsigned warp_threads = 32, block_threads = 256;
// A look at `stop` goes to L2. Blocks that start after it was set read nothing.
constexpr unsigned records_per_look = 4, words_per_look = 16;

__device__ void note_failure(record_job const& job, std::uint64_t record, std::int64_t got) {
  // These errors alone do not say so: a gwrite also returns those of writes before it.
  std::uint64_t const offset = job.offsets[record];
  bool const is_outside = (got == -EFBIG || got == -EINVAL) &&
                          (offset > most_file_bytes || job.size > most_file_bytes - offset);
  // Relaxed: the host looks after the kernel.
  atomic_ref<std::uint64_t, scope::device>(*job.failure)
      .fetch_min(failure_of(record, is_outside ? lies_outside
                                    : got < 0  ? std::uint64_t(-got)
                                               : came_short),
                 memory_order_relaxed);
}

__device__ bool told_to_stop(record_job const& job) {
  return atomic_ref<std::uint64_t, scope::device>(*job.stop).load(memory_order_relaxed) != 0;
}

struct by_gread {
  // A short result means the end of the file, or an error that the next call returns.
  template <class Io>
  __device__ static ssize_t move(Io& io, record_job const& job, std::uint64_t i) {
    std::byte* const record = job.data + i * job.size;
    std::uint64_t const offset = job.offsets[i];
    std::uint64_t moved = 0;
    while (moved < job.size) {
      ssize_t const got = gread(io, job.fd, record + moved, job.size - moved,
                                static_cast<std::int64_t>(offset + moved));
      if (got < 0) return got;
      if (got == 0) break;
      moved += static_cast<std::uint64_t>(got);
    }
    return static_cast<ssize_t>(moved);
  }
};

struct by_gwrite {
  template <class Io>
  __device__ static ssize_t move(Io& io, record_job const& job, std::uint64_t i) {
    return gwrite(io, job.fd, job.data + i * job.size, job.size,
                  static_cast<std::int64_t>(job.offsets[i]));
  }
};

/// A record for each warp at a time.
template <class Way>
__global__ void __launch_bounds__(block_threads, 2) move_records(record_job job) {
  auto const warp =
      cooperative_groups::tiled_partition<warp_threads>(cooperative_groups::this_thread_block());
  io_context io(job.fs, warp);
  std::uint64_t const warps = std::uint64_t{gridDim.x} * (blockDim.x / warp_threads);
  std::uint64_t const first =
      std::uint64_t{blockIdx.x} * (blockDim.x / warp_threads) + threadIdx.x / warp_threads;
  unsigned moved = 0;
  for (std::uint64_t i = first; i < job.count; i += warps) {
    if (moved++ % records_per_look == 0 && warp.any(told_to_stop(job))) break;
    ssize_t const got = Way::move(io, job, i);
    if (got == static_cast<ssize_t>(job.size)) continue;
    if (warp.thread_rank() == 0) note_failure(job, i, got);
    break;
  }
}

template <unsigned Bytes>
struct alignas(Bytes) word {
  unsigned char bytes[Bytes];
};

/// A word for each thread at a time, as an element of an array. Neighbours have words of one
/// record.
template <unsigned Bytes>
__global__ void __launch_bounds__(block_threads, 2) gather_words(record_job job) {
  using value = word<Bytes>;
  io_context io(job.fs, cooperative_groups::this_thread_block());
  array<value const> const words(io, job.fd);
  auto* const out = reinterpret_cast<value*>(job.data);
  std::uint64_t const each = job.size / Bytes;
  std::uint64_t const threads = std::uint64_t{gridDim.x} * blockDim.x;
  unsigned moved = 0;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < job.count * each;
       i += threads) {
    if (moved++ % words_per_look == 0 && told_to_stop(job)) break;
    std::uint64_t const record = i / each;
    value const found = words[job.offsets[record] / Bytes + i % each];
    if (words.error() != 0) {
      note_failure(job, record, words.error() == -ERANGE ? 0 : words.error());
      break;
    }
    out[i] = found;
  }
}

using kernel = void (*)(record_job);

/// Null: too narrow for records that have several.
kernel word_kernel(unsigned bytes, std::uint64_t record) {
  switch (bytes) {
    case 1: return record == 1 ? gather_words<1> : nullptr;
    case 2: return record == 2 ? gather_words<2> : nullptr;
    case 4: return gather_words<4>;
    case 8: return gather_words<8>;
    case 16: return gather_words<16>;
    case 32: return gather_words<32>;
    default: return nullptr;
  }
}

/// Two blocks for each multiprocessor. Emulated: one for each core, as waiting blocks spin.
std::uint64_t most_blocks() {
#if defined(GPUFS_EMULATED)
  return std::max(1u, std::thread::hardware_concurrency());
#else
  return 2ull * std::max(1u, current_device().multiprocessors);
#endif
}

/// `each`: pieces of work that a block has at a time.
void launch_for(stream& on, kernel k, record_job const& job, std::uint64_t pieces,
                std::uint64_t each) {
  std::uint64_t const needed = (pieces + each - 1) / each;
  launch(
      launch_options{
          .grid = unsigned(std::min(most_blocks(), needed)), .block = block_threads, .on = &on},
      k, job);
}

}  // namespace

void launch_gather(stream& on, record_job const& job, unsigned word, std::uint64_t page_size) {
  kernel const by_words = job.size * 2 <= page_size ? word_kernel(word, job.size) : nullptr;
  if (by_words != nullptr)
    launch_for(on, by_words, job, job.count * (job.size / word), block_threads);
  else
    launch_for(on, move_records<by_gread>, job, job.count, block_threads / warp_threads);
}

void launch_scatter(stream& on, record_job const& job) {
  launch_for(on, move_records<by_gwrite>, job, job.count, block_threads / warp_threads);
}

void load_record_kernels() {
  load_kernel(move_records<by_gread>);
  load_kernel(move_records<by_gwrite>);
  for (unsigned bytes = 1; bytes <= 32; bytes *= 2) load_kernel(word_kernel(bytes, bytes));
}

}  // namespace gpufs::python
