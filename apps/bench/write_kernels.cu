// The kernels of `gpufs bench write`.
#include <gpufs/gpufs.hpp>

#include <apps/bench/write.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

namespace {

/// Fills a block's buffer with what all ranges have in common.
__device__ void fill(std::uint64_t* words, write_plan const& plan) {
  for (std::uint64_t k = threadIdx.x; k < plan.range_bytes / 8; k += blockDim.x)
    words[k] = generate(plan.seed, k);
  __syncthreads();
}

template <unsigned MostThreads, unsigned BlocksTogether>
__global__ void __launch_bounds__(MostThreads, BlocksTogether)
    write_ranges(fs_ref fs, int fd, write_plan plan, std::byte* buffers, std::int64_t* failure) {
  auto const block = cooperative_groups::this_thread_block();
  io_context io(fs, block);
  auto* const words = reinterpret_cast<std::uint64_t*>(buffers + blockIdx.x * plan.range_bytes);
  fill(words, plan);
  for (std::uint64_t i = blockIdx.x; i < plan.ranges; i += gridDim.x) {
    std::uint64_t const range = plan.range(i);
    if (threadIdx.x == 0) words[0] = range;
    ssize_t const put = gwrite(io, fd, words, plan.range_bytes,
                               static_cast<std::int64_t>(range * plan.range_bytes));
    if (put == static_cast<ssize_t>(plan.range_bytes)) continue;
    // Relaxed: any failure will do; the host reads after the kernel. Short writes are reported by
    // their length.
    if (threadIdx.x == 0)
      atomic_ref<std::int64_t, scope::device>(*failure).store(put < 0 ? put : -EIO,
                                                              memory_order_relaxed);
    return;
  }
}

__global__ void __launch_bounds__(512)
    compare_ranges(fs_ref fs, int fd, write_plan plan, std::byte* buffers, std::uint64_t* wrong) {
  auto const block = cooperative_groups::this_thread_block();
  io_context io(fs, block);
  auto* const words = reinterpret_cast<std::uint64_t*>(buffers + blockIdx.x * plan.range_bytes);
  for (std::uint64_t range = blockIdx.x; range < plan.ranges; range += gridDim.x) {
    ssize_t const got =
        gread(io, fd, words, plan.range_bytes, static_cast<std::int64_t>(range * plan.range_bytes));
    bool differs = got != static_cast<ssize_t>(plan.range_bytes);
    for (std::uint64_t k = threadIdx.x; k < plan.range_bytes / 8 && !differs; k += blockDim.x) {
      differs = words[k] != (k == 0 ? range : generate(plan.seed, k));
    }
    if (__syncthreads_or(differs) != 0 && threadIdx.x == 0) {
      atomic_ref<std::uint64_t, scope::device>(*wrong).fetch_add(1, memory_order_relaxed);
    }
  }
}

}  // namespace

struct file_writer::state {
  write_plan plan;
  bench_shape shape;
  buffer<std::byte> buffers;
  buffer<std::int64_t> failure;
  buffer<std::uint64_t> wrong;
};

file_writer::file_writer(write_plan const& plan, bench_shape shape)
    : state_(new state{plan, shape, buffer<std::byte>(shape.blocks * plan.range_bytes),
                       buffer<std::int64_t>(1), buffer<std::uint64_t>(1)}) {
  load_kernel(write_ranges<256, 2>);
  load_kernel(write_ranges<512, 1>);
  load_kernel(compare_ranges);
}

file_writer::~file_writer() = default;

std::int64_t file_writer::write(fs_ref const& fs, int fd) {
  state& s = *state_;
  s.failure.fill_zero();
  auto const kernel = s.shape.threads <= 256 ? write_ranges<256, 2> : write_ranges<512, 1>;
  launch(kernel, s.shape.blocks, s.shape.threads, fs, fd, s.plan, s.buffers.data(),
         s.failure.data());
  this_thread_stream().synchronize();
  std::int64_t failure = 0;
  s.failure.copy_to_host(&failure, 1);
  return failure;
}

std::uint64_t file_writer::read_back(fs_ref const& fs, int fd) {
  state& s = *state_;
  s.wrong.fill_zero();
  launch(compare_ranges, s.shape.blocks, s.shape.threads, fs, fd, s.plan, s.buffers.data(),
         s.wrong.data());
  this_thread_stream().synchronize();
  std::uint64_t wrong = 0;
  s.wrong.copy_to_host(&wrong, 1);
  return wrong;
}

}  // namespace gpufs::apps
