// The kernels of `gpufs bench`.
#include <gpufs/gpufs.hpp>
#include <gpufs/io/open.hpp>

#include <apps/bench/kernels.hpp>
#include <apps/bench/read.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

namespace {

/// The kernels of a shape; those whose warps read have up to most_threads_by_warp threads.
reading_kernels kernels_of(bench_shape const& shape) {
  if (shape.way != bench_way::gread) return kernels_of_other_ways(shape);
  if (shape.by_warp)
    return {read_file<by_gread, true, most_threads_by_warp, 1>, read_and_check<by_gread, true>};
  return {shape.threads <= 256   ? read_file<by_gread, false, 256, 2>
          : shape.threads <= 512 ? read_file<by_gread, false, 512, 1>
                                 : read_file<by_gread, false, 1024, 1>,
          read_and_check<by_gread, false>};
}

/// One empty request to the daemon and its answer. All threads of the group call.
/// Returns 0, -ETIMEDOUT or -EIO.
template <class Group>
__device__ int rpc_nop(io_context<Group>& context) {
  return io::in_first_warp(context.group(), [&] {
    return io::plain_call<ring::carries::nothing>(context.fs(), rpc::operation::nop, 0);
  });
}

template <unsigned MostThreads>
__global__ void __launch_bounds__(MostThreads)
    round_trips(fs_ref fs, std::uint64_t samples, std::uint64_t rounds, std::uint64_t* nanoseconds,
                std::int32_t* error) {
  auto const block = cooperative_groups::this_thread_block();
  io_context io(fs, block);
  for (std::uint64_t s = 0; s < samples; ++s) {
    std::uint64_t const start = device_clock_ns();
    for (std::uint64_t i = 0; i < rounds; ++i) {
      int const result = rpc_nop(io);
      if (result == 0) continue;
      // Relaxed: any of the errors will do; the host reads after the kernel.
      if (threadIdx.x == 0)
        atomic_ref<std::int32_t, scope::device>(*error).store(result, memory_order_relaxed);
      return;
    }
    if (threadIdx.x == 0) nanoseconds[blockIdx.x * samples + s] = device_clock_ns() - start;
  }
}

}  // namespace

struct file_reader::state : plan_buffers {
  reading_kernels kernels;
  state(access_plan const& p, bench_shape s, reading_kernels const& k)
      : plan_buffers(p, s, k.depth), kernels(k) {}
};

file_reader::file_reader(access_plan const& plan, bench_shape shape)
    : state_(new state(plan, shape, kernels_of(shape))) {
  load_kernel(state_->kernels.read);
  load_kernel(state_->kernels.check);
}

file_reader::~file_reader() = default;

double file_reader::run(fs_ref const& fs, int fd, std::uint64_t repeat) {
  state& s = *state_;
  auto const start = std::chrono::steady_clock::now();
  launch(s.kernels.read, s.shape.blocks, s.shape.threads, fs, fd, s.plan, repeat, s.bytes.data(),
         s.each, s.failure.data());
  this_thread_stream().synchronize();
  return seconds_since(start);
}

std::vector<std::uint64_t> file_reader::checksums(fs_ref const& fs, int fd) {
  state& s = *state_;
  buffer<std::uint64_t> sums(s.plan.numbers());
  sums.fill_zero();
  launch(s.kernels.check, s.shape.blocks, s.shape.threads, fs, fd, s.plan, s.bytes.data(), s.each,
         sums.data(), s.failure.data());
  this_thread_stream().synchronize();
  std::vector<std::uint64_t> result(sums.size());
  sums.copy_to_host(result.data(), result.size());
  return result;
}

bench_failure file_reader::take_failure() { return state_->take_failure(); }

rpc_times run_rpc(fs_ref const& fs, bench_shape shape, std::uint64_t samples,
                  std::uint64_t rounds) {
  buffer<std::uint64_t> nanoseconds(shape.blocks * samples);
  buffer<std::int32_t> error(1);
  nanoseconds.fill_zero();
  error.fill_zero();
  auto const kernel = shape.threads <= 512 ? round_trips<512> : round_trips<1024>;
  load_kernel(kernel);

  rpc_times t;
  auto const start = std::chrono::steady_clock::now();
  launch(kernel, shape.blocks, shape.threads, fs, samples, rounds, nanoseconds.data(),
         error.data());
  this_thread_stream().synchronize();
  t.seconds = seconds_since(start);
  error.copy_to_host(&t.error, 1);
  std::vector<std::uint64_t> taken(nanoseconds.size());
  nanoseconds.copy_to_host(taken.data(), taken.size());
  for (std::uint64_t const n : taken)
    t.seconds_per_round.push_back(static_cast<double>(n) * 1e-9 / static_cast<double>(rounds));
  return t;
}

}  // namespace gpufs::apps
