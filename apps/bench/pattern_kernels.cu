#include <gpufs/gpufs.hpp>

#include <apps/bench/array_kernels.hpp>
#include <apps/bench/pass.hpp>
#include <apps/bench/pattern_kernels.hpp>
#include <apps/bench/plan_buffers.hpp>
#include <apps/bench/read.hpp>
#include <apps/common/block_checksum.hpp>
#include <apps/common/program.hpp>
#include <apps/common/to_device.hpp>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>

#include <fcntl.h>

namespace gpufs::apps {

namespace {

__device__ std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// The sum of a thread's draws. Asks for several before it needs the first.
template <class Floats>
__device__ std::uint64_t sum_of_draws(Floats const& floats, float_draws const& what) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = thread_number() * float_draws_together; i < what.draws;
       i += thread_count() * float_draws_together) {
    float found[float_draws_together];
    GPUFS_UNROLL
    for (unsigned k = 0; k < float_draws_together; ++k)
      found[k] = floats[generate_below(what.seed, i + k, what.elements)];
    GPUFS_UNROLL
    for (unsigned k = 0; k < float_draws_together; ++k) sum += float_term(bits_of(found[k]), i + k);
  }
  return sum;
}

__global__ void __launch_bounds__(hot_threads, array_blocks)
    sum_floats(fs_ref fs, int fd, float_draws what, std::uint64_t* sums, std::int32_t* error) {
  io_context io(fs, cooperative_groups::this_thread_block());
  array<float const> const floats(io, fd);
  sums[thread_number()] = sum_of_draws(floats, what);
  note_error(error, floats.error());
}

__global__ void __launch_bounds__(hot_threads, plain_blocks)
    sum_plain_floats(float const* floats, float_draws what, std::uint64_t* sums) {
  sums[thread_number()] = sum_of_draws(floats, what);
}

/// Runs a kernel that stores a sum for each thread; `start` launches it.
template <class Start>
float_result sum_by(unsigned blocks, Start const& start) {
  buffer<std::uint64_t> sums(std::uint64_t{blocks} * hot_threads);
  buffer<std::int32_t> error(1);
  error.fill_zero();
  float_result r;
  auto const begin = std::chrono::steady_clock::now();
  start(sums.data(), error.data());
  this_thread_stream().synchronize();
  r.seconds = seconds_since(begin);
  std::vector<std::uint64_t> each(sums.size());
  sums.copy_to_host(each.data(), each.size());
  r.sum = std::accumulate(each.begin(), each.end(), std::uint64_t{0});
  error.copy_to_host(&r.error, 1);
  return r;
}

/// Request i is number i * factor modulo all of the plan: `factor` is coprime to their number, and
/// less.
template <unsigned MostThreads>
__global__ void __launch_bounds__(MostThreads)
    make_timed_requests(fs_ref fs, int fd, access_plan plan, std::uint64_t factor,
                        std::uint64_t together, std::byte* to, std::uint64_t* nanoseconds,
                        failure_record* failure) {
  io_context io(fs, cooperative_groups::this_thread_block());
  std::uint64_t const all = plan.requests_of(0);
  std::uint64_t next = 0;  // no division while the clock runs
  for (std::uint64_t i = 0; i + together <= all; i += together) {
    std::uint64_t const start = device_clock_ns();
    for (std::uint64_t k = i; k < i + together; ++k) {
      access const a = plan.at(0, next);
      next += factor;
      if (next >= all) next -= all;
      ssize_t const got = gread(io, fd, to, a.bytes, static_cast<std::int64_t>(a.offset));
      if (got != static_cast<ssize_t>(a.bytes)) return record_failure(failure, a, got);
    }
    if (threadIdx.x == 0) nanoseconds[i / together] = device_clock_ns() - start;
  }
}

struct listed_files {
  char const* names;
  std::uint64_t name_bytes;
  std::uint64_t count;
  std::uint64_t bytes;
};

__device__ void note_failure(std::int64_t* failure, std::int64_t result) {
  // Relaxed: any of the failures will do; the host reads after the kernel.
  if (lane_id() == 0)
    atomic_ref<std::int64_t, scope::device>(*failure).store(result < 0 ? result : -EIO,
                                                            memory_order_relaxed);
}

/// `sums` null: none are computed.
__global__ void __launch_bounds__(most_threads_by_warp, 1)
    read_small_files(fs_ref fs, listed_files files, std::byte* buffers, std::uint64_t* sums,
                     std::int64_t* failure) {
  auto const warp = reading_group<true>();
  io_context io(fs, warp);
  std::uint64_t const reader = reader_number<true>();
  std::uint64_t const readers = thread_count() / base::warp_size;
  std::byte* const mine = buffers + reader * files.bytes;
  for (std::uint64_t i = reader; i < files.count; i += readers) {
    int const fd = gopen(io, files.names + i * files.name_bytes, O_RDONLY);
    if (fd < 0) return note_failure(failure, fd);
    ssize_t const got = gread(io, fd, mine, files.bytes, 0);
    if (got != static_cast<ssize_t>(files.bytes)) return note_failure(failure, got);
    if (sums != nullptr) {
      std::uint64_t const sum = warp_checksum(mine, files.bytes);
      if (warp.thread_rank() == 0) sums[i] = sum;
    }
    int const closed = gclose(io, fd);
    if (closed != 0) return note_failure(failure, closed);
  }
}

}  // namespace

float_result read_floats(fs_ref const& fs, int fd, float_draws const& what) {
  load_kernel(sum_floats);
  unsigned const blocks = array_blocks * current_device().multiprocessors;
  return sum_by(blocks, [&](std::uint64_t* sums, std::int32_t* error) {
    launch(sum_floats, blocks, hot_threads, fs, fd, what, sums, error);
  });
}

float_result read_floats(float const* memory, float_draws const& what) {
  load_kernel(sum_plain_floats);
  unsigned const blocks = plain_blocks * current_device().multiprocessors;
  return sum_by(blocks, [&](std::uint64_t* sums, std::int32_t*) {
    launch(sum_plain_floats, blocks, hot_threads, memory, what, sums);
  });
}

std::vector<double> time_requests(fs_ref const& fs, int fd, access_plan const& plan,
                                  unsigned threads, std::uint64_t together) {
  std::uint64_t const all = plan.requests_of(0);
  std::uint64_t factor = (all / 2 + all / 8) | 1;
  while (std::gcd(factor, all) != 1) factor += 2;
  factor %= all;
  together = std::min(together, all);
  buffer<std::byte> to(plan.request);
  buffer<std::uint64_t> nanoseconds(all / together);
  buffer<failure_record> failure(1);
  nanoseconds.fill_zero();
  failure.fill_zero();
  auto const kernel = threads <= 512 ? make_timed_requests<512> : make_timed_requests<1024>;
  load_kernel(kernel);
  launch(kernel, 1, threads, fs, fd, plan, factor, together, to.data(), nanoseconds.data(),
         failure.data());
  this_thread_stream().synchronize();
  failure_record f;
  failure.copy_to_host(&f, 1);
  require_success({f.taken != 0, f.result, f.offset, f.bytes});
  std::vector<std::uint64_t> taken(nanoseconds.size());
  nanoseconds.copy_to_host(taken.data(), taken.size());
  std::vector<double> seconds;
  for (std::uint64_t const n : taken)
    seconds.push_back(static_cast<double>(n) * 1e-9 / static_cast<double>(together));
  return seconds;
}

small_file_reader::small_file_reader(small_files const& files, bench_shape shape)
    : files_(files),
      shape_(shape),
      names_(to_device(files.names())),
      buffers_(shape.readers() * files.bytes()),
      failure_(1) {
  load_kernel(read_small_files);
}

void small_file_reader::launch_and_wait(fs_ref const& fs, std::uint64_t* sums) {
  launch(read_small_files, shape_.blocks, shape_.threads, fs,
         listed_files{names_.data(), files_.name_bytes(), files_.count(), files_.bytes()},
         buffers_.data(), sums, failure_.data());
  this_thread_stream().synchronize();
}

double small_file_reader::run(fs_ref const& fs) {
  failure_.fill_zero();
  auto const start = std::chrono::steady_clock::now();
  launch_and_wait(fs, nullptr);
  double const seconds = seconds_since(start);
  std::int64_t failure = 0;
  failure_.copy_to_host(&failure, 1);
  if (failure != 0)
    throw std::runtime_error("gopen, gread or gclose of a small file: " + error_text(failure));
  return seconds;
}

std::uint64_t small_file_reader::count_wrong(fs_ref const& fs) {
  buffer<std::uint64_t> sums(files_.count());
  sums.fill_zero();
  launch_and_wait(fs, sums.data());
  std::vector<std::uint64_t> got(sums.size());
  sums.copy_to_host(got.data(), got.size());
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < got.size(); ++i) wrong += got[i] != files_.checksum_of(i);
  return wrong;
}

}  // namespace gpufs::apps
