#include <gpufs/device.hpp>

#include <apps/baseline/original_read.hpp>
#include <apps/bench/original_kernels.hpp>
#include <apps/bench/plan_buffers.hpp>
#include <apps/common/block_checksum.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpufs::apps {

namespace {

/// `checksums`: null, or where each request's goes.
__global__ void __launch_bounds__(1024)
    read_original(original::ref fs, access_plan plan, std::byte* buffers, std::uint64_t each,
                  std::uint64_t* checksums, failure_record* failure) {
  std::byte* const mine = buffers + blockIdx.x * each;
  std::uint64_t const requests = plan.requests_of(blockIdx.x);
  for (std::uint64_t i = 0; i < requests; ++i) {
    access const a = plan.at(blockIdx.x, i);
    ssize_t const got = original::gread(fs, mine, a.bytes, static_cast<std::int64_t>(a.offset));
    if (got != static_cast<ssize_t>(a.bytes)) return record_failure(failure, a, got);
    if (checksums == nullptr) continue;
    __syncthreads();
    std::uint64_t const sum = block_checksum(mine, a.bytes);
    if (threadIdx.x == 0) checksums[a.number] = sum;
  }
}

__global__ void __launch_bounds__(1024)
    request_original(original::ref fs, access_plan plan, failure_record* failure) {
  if (threadIdx.x != 0) return;
  std::uint64_t const requests = plan.requests_of(blockIdx.x);
  for (std::uint64_t i = 0; i < requests; ++i) {
    access const a = plan.at(blockIdx.x, i);
    for (std::uint64_t done = 0; done < a.bytes;) {
      std::uint64_t const range = a.bytes - done < fs.page_bytes ? a.bytes - done : fs.page_bytes;
      std::int32_t const got = original::request_bytes(fs, a.offset + done, range);
      if (got != -EBUSY) original::end_request(fs);
      if (got != static_cast<std::int32_t>(range))
        return record_failure(failure, {a.offset + done, range, a.number}, got);
      done += range;
    }
  }
}

}  // namespace

struct original_reader::state : plan_buffers {
  using plan_buffers::plan_buffers;
};

original_reader::original_reader(access_plan const& plan, bench_shape shape)
    : state_(new state(plan, shape)) {
  load_kernel(read_original);
  load_kernel(request_original);
}

original_reader::~original_reader() = default;

double original_reader::run(original::ref const& fs) {
  state& s = *state_;
  auto const start = std::chrono::steady_clock::now();
  launch(read_original, s.shape.blocks, s.shape.threads, fs, s.plan, s.bytes.data(), s.each,
         static_cast<std::uint64_t*>(nullptr), s.failure.data());
  this_thread_stream().synchronize();
  return seconds_since(start);
}

double original_reader::run_requests(original::ref const& fs) {
  state& s = *state_;
  auto const start = std::chrono::steady_clock::now();
  launch(request_original, s.shape.blocks, s.shape.threads, fs, s.plan, s.failure.data());
  this_thread_stream().synchronize();
  return seconds_since(start);
}

std::vector<std::uint64_t> original_reader::checksums(original::ref const& fs) {
  state& s = *state_;
  buffer<std::uint64_t> sums(s.plan.numbers());
  sums.fill_zero();
  launch(read_original, s.shape.blocks, s.shape.threads, fs, s.plan, s.bytes.data(), s.each,
         sums.data(), s.failure.data());
  this_thread_stream().synchronize();
  std::vector<std::uint64_t> result(sums.size());
  sums.copy_to_host(result.data(), result.size());
  return result;
}

bench_failure original_reader::take_failure() { return state_->take_failure(); }

}  // namespace gpufs::apps
