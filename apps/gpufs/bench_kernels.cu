// The kernels of `gpufs bench`.
#include <gpufs/gpufs.hpp>

#include <apps/common/block_checksum.hpp>
#include <apps/gpufs/bench_access.hpp>
#include <apps/gpufs/bench_kernels.hpp>
#include <apps/gpufs/plan_buffers.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

namespace {

/// The group that has a context of its own.
template <bool ByWarp>
__device__ __forceinline__ auto reading_group() {
  auto const block = cooperative_groups::this_thread_block();
  if constexpr (ByWarp) {
    return cooperative_groups::tiled_partition<32>(block);
  } else {
    return block;
  }
}

template <bool ByWarp>
__device__ __forceinline__ std::uint64_t reader_number() {
  if constexpr (ByWarp) {
    return std::uint64_t{blockIdx.x} * (blockDim.x / warp_size) + threadIdx.x / warp_size;
  } else {
    return blockIdx.x;
  }
}

// The bounds let every shape keep 128 registers a thread (64 beyond 512 threads), and two blocks of 256 share a multiprocessor.
template <class Way, bool ByWarp, unsigned MostThreads, unsigned BlocksTogether>
__global__ void __launch_bounds__(MostThreads, BlocksTogether)
    read_file(fs_ref fs, int fd, access_plan plan, std::uint64_t repeat, std::byte* buffers, std::uint64_t buffer_bytes,
              failure_record* failure) {
  auto const group = reading_group<ByWarp>();
  io_context io(fs, group);
  std::uint64_t const reader = reader_number<ByWarp>();
  std::byte* const mine = buffers + reader * buffer_bytes;
  std::uint64_t const requests = plan.requests_of(reader);
  for (std::uint64_t pass = 0; pass < repeat; ++pass) {
    for (std::uint64_t i = 0; i < requests; ++i) {
      access const a = plan.at(reader, i);
      ssize_t const got = Way::deliver(io, fd, mine, a);
      if (got != static_cast<ssize_t>(a.bytes)) return record_failure(failure, a, got);
    }
  }
}

template <class Way, bool ByWarp>
__global__ void __launch_bounds__(1024)
    read_and_check(fs_ref fs, int fd, access_plan plan, std::byte* buffers, std::uint64_t buffer_bytes, std::uint64_t* checksums,
                   failure_record* failure) {
  auto const group = reading_group<ByWarp>();
  io_context io(fs, group);
  std::uint64_t const reader = reader_number<ByWarp>();
  std::byte* const mine = buffers + reader * buffer_bytes;
  std::uint64_t const requests = plan.requests_of(reader);
  for (std::uint64_t i = 0; i < requests; ++i) {
    access const a = plan.at(reader, i);
    ssize_t const got = Way::deliver(io, fd, mine, a);
    if (got != static_cast<ssize_t>(a.bytes)) return record_failure(failure, a, got);
    std::uint64_t sum;
    if constexpr (ByWarp) {
      sum = warp_checksum(mine, a.bytes);
    } else {
      sum = block_checksum(mine, a.bytes);
    }
    if (group.thread_rank() == 0) checksums[a.number] = sum;
  }
}

/// The kernel of a shape; those whose warps read have up to 512 threads.
template <class Way, bool ByWarp>
auto reading_kernel(unsigned threads) {
  if constexpr (ByWarp) {
    return read_file<Way, true, most_threads_by_warp, 1>;
  } else {
    return threads <= 256   ? read_file<Way, false, 256, 2>
           : threads <= 512 ? read_file<Way, false, 512, 1>
                            : read_file<Way, false, 1024, 1>;
  }
}

__global__ void __launch_bounds__(1024)
    round_trips(fs_ref fs, std::uint64_t samples, std::uint64_t rounds, std::uint64_t* nanoseconds, std::int32_t* error) {
  auto const block = cooperative_groups::this_thread_block();
  io_context io(fs, block);
  for (std::uint64_t s = 0; s < samples; ++s) {
    std::uint64_t const start = device_clock_ns();
    for (std::uint64_t i = 0; i < rounds; ++i) {
      int const result = rpc_nop(io);
      if (result == 0) continue;
      // Relaxed: any of the errors will do; the host reads after the kernel.
      if (threadIdx.x == 0) atomic_ref<std::int32_t, scope::device>(*error).store(result, memory_order_relaxed);
      return;
    }
    if (threadIdx.x == 0) nanoseconds[blockIdx.x * samples + s] = device_clock_ns() - start;
  }
}

}  // namespace

struct file_reader::state : plan_buffers {
  using plan_buffers::plan_buffers;
};

file_reader::file_reader(access_plan const& plan, bench_shape shape) : state_(new state(plan, shape)) {
  for (unsigned const threads : {256u, 512u, 1024u}) load_kernel(reading_kernel<by_gread, false>(threads));
  load_kernel(reading_kernel<by_gread, true>(most_threads_by_warp));
  load_kernel(read_and_check<by_gread, false>);
  load_kernel(read_and_check<by_gread, true>);
}

file_reader::~file_reader() = default;

double file_reader::run(fs_ref const& fs, int fd, std::uint64_t repeat) {
  state& s = *state_;
  auto const start = std::chrono::steady_clock::now();
  auto const kernel =
      s.shape.by_warp ? reading_kernel<by_gread, true>(s.shape.threads) : reading_kernel<by_gread, false>(s.shape.threads);
  launch(kernel, s.shape.blocks, s.shape.threads, fs, fd, s.plan, repeat, s.bytes.data(), s.each, s.failure.data());
  this_thread_stream().synchronize();
  return seconds_since(start);
}

std::vector<std::uint64_t> file_reader::checksums(fs_ref const& fs, int fd) {
  state& s = *state_;
  buffer<std::uint64_t> sums(s.plan.numbers());
  sums.fill_zero();
  auto const kernel = s.shape.by_warp ? read_and_check<by_gread, true> : read_and_check<by_gread, false>;
  launch(kernel, s.shape.blocks, s.shape.threads, fs, fd, s.plan, s.bytes.data(), s.each, sums.data(), s.failure.data());
  this_thread_stream().synchronize();
  std::vector<std::uint64_t> result(sums.size());
  sums.copy_to_host(result.data(), result.size());
  return result;
}

bench_failure file_reader::take_failure() { return state_->take_failure(); }

rpc_times run_rpc(fs_ref const& fs, bench_shape shape, std::uint64_t samples, std::uint64_t rounds) {
  buffer<std::uint64_t> nanoseconds(shape.blocks * samples);
  buffer<std::int32_t> error(1);
  nanoseconds.fill_zero();
  error.fill_zero();
  load_kernel(round_trips);

  rpc_times t;
  auto const start = std::chrono::steady_clock::now();
  launch(round_trips, shape.blocks, shape.threads, fs, samples, rounds, nanoseconds.data(), error.data());
  this_thread_stream().synchronize();
  t.seconds = seconds_since(start);
  error.copy_to_host(&t.error, 1);
  std::vector<std::uint64_t> taken(nanoseconds.size());
  nanoseconds.copy_to_host(taken.data(), taken.size());
  for (std::uint64_t const n : taken) t.seconds_per_round.push_back(static_cast<double>(n) * 1e-9 / static_cast<double>(rounds));
  return t;
}

}  // namespace gpufs::apps
