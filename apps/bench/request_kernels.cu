#include <gpufs/gpufs.hpp>

#include <apps/bench/pass.hpp>
#include <apps/bench/plan_buffers.hpp>
#include <apps/bench/request_kernels.hpp>

#include <chrono>
#include <cstdint>

namespace gpufs::apps {

namespace {

/// One request of a warp: to the daemon and back. Returns bytes read or -errno.
__device__ std::int32_t ask(fs_ref const& fs, int fd, std::uint64_t offset, std::uint64_t bytes) {
  ring::channel via;
  if (std::int32_t const error = ring::acquire_channel(fs, fs.channels.page, via); error != 0)
    return error;
  rpc::request r;
  r.op = rpc::operation::read;
  r.channel = via.number;
  r.sequence = via.sequence;
  r.file = fd;
  r.offset = offset;
  r.length = bytes;
  r.staging = ring::staging_offset(fs.channels.page, via);
  ring::submit(fs, r);
  std::int32_t result = 0;
  if (lane_id() == 0) {
    add(fs, handle::counter::requests);
    add(fs, handle::counter::read_requests);
    bool answered = false;
    result = ring::await(fs, via, answered);
    ring::return_channel(fs.channels.page, via, answered);
  }
  __syncwarp();
  return base::warp_broadcast(result);
}

__global__ void __launch_bounds__(1024)
    request_file(fs_ref fs, int fd, access_plan plan, failure_record* failure) {
  std::uint64_t const page = std::uint64_t(1) << fs.cache.page_shift;
  unsigned const warp = threadIdx.x / base::warp_size, warps = blockDim.x / base::warp_size;
  std::uint64_t const requests = plan.requests_of(blockIdx.x);
  for (std::uint64_t i = 0; i < requests; ++i) {
    access const a = plan.at(blockIdx.x, i);
    bool failed = false;
    for (std::uint64_t at = warp * page; at < a.bytes && !failed; at += warps * page) {
      std::uint64_t const range = a.bytes - at < page ? a.bytes - at : page;
      std::int32_t const got = ask(fs, fd, a.offset + at, range);
      failed = got != static_cast<std::int32_t>(range);
      // Relaxed: elects one writer; the host reads after the kernel.
      if (failed && lane_id() == 0 &&
          atomic_ref<std::uint32_t, scope::device>(failure->taken)
                  .exchange(1, memory_order_relaxed) == 0) {
        failure->result = got;
        failure->offset = a.offset + at;
        failure->bytes = range;
      }
    }
    if (__syncthreads_or(failed) != 0) return;
  }
}

}  // namespace

double run_requests(fs_ref const& fs, int fd, access_plan const& plan, bench_shape shape) {
  buffer<failure_record> failure(1);
  failure.fill_zero();
  load_kernel(request_file);
  auto const start = std::chrono::steady_clock::now();
  launch(request_file, shape.blocks, shape.threads, fs, fd, plan, failure.data());
  this_thread_stream().synchronize();
  double const seconds = seconds_since(start);
  failure_record f;
  failure.copy_to_host(&f, 1);
  require_success({f.taken != 0, f.result, f.offset, f.bytes});
  return seconds;
}

}  // namespace gpufs::apps
