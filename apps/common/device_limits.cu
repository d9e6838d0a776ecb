// Kernels that do nothing but move bytes.
#include <gpufs/device.hpp>

#include <apps/common/device_limits.hpp>
#include <apps/common/median.hpp>
#include <apps/common/seconds_since.hpp>
#include <apps/common/transfer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace gpufs::apps {

namespace {

__global__ void move_bytes(uint4 const* from, uint4* to, std::uint64_t count) {
  std::uint64_t at = std::uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  std::uint64_t const step = std::uint64_t(gridDim.x) * blockDim.x;
  for (; at + 3 * step < count; at += 4 * step) {  // four loads on their way at once
    uint4 const a = from[at], b = from[at + step], c = from[at + 2 * step], d = from[at + 3 * step];
    to[at] = a;
    to[at + step] = b;
    to[at + 2 * step] = c;
    to[at + 3 * step] = d;
  }
  for (; at < count; at += step) to[at] = from[at];
}

/// Rate of `work`, which moves `bytes` bytes, in GB/s: the median of three after one that does not
/// count.
template <class Work>
double rate(std::uint64_t bytes, Work const& work) {
  work();
  std::vector<double> rates;
  for (int i = 0; i < 3; ++i) {
    auto const start = std::chrono::steady_clock::now();
    work();
    rates.push_back(static_cast<double>(bytes) / seconds_since(start) / 1e9);
  }
  return median(rates);
}

struct shape {
  unsigned blocks;
  unsigned threads;
};

void move_and_wait(void const* from, void* to, std::uint64_t bytes, shape const& s) {
  launch(move_bytes, s.blocks, s.threads, static_cast<uint4 const*>(from), static_cast<uint4*>(to),
         bytes / sizeof(uint4));
  this_thread_stream().synchronize();
}

}  // namespace

device_limits measure_device_limits() {
  device_info const device = current_device();
  bool const emulated = device.kind == "emulated";
  std::uint64_t const bytes = emulated ? 16 << 20 : 256 << 20;
  shape const many =
      emulated ? shape{device.multiprocessors, 64} : shape{2 * device.multiprocessors, 512};
  shape const one = {1, many.threads};
  pinned_buffer<std::byte> host(bytes);
  host.fill_zero();
  buffer<std::byte> memory(bytes);
  load_kernel(move_bytes);

  device_limits l;
  l.pull_GBps = rate(bytes, [&] { move_and_wait(host.data(), memory.data(), bytes, many); });
  l.pull_one_block_GBps =
      rate(bytes / 4, [&] { move_and_wait(host.data(), memory.data(), bytes / 4, one); });
  transfer_queue queue;
  l.dma_GBps = rate(bytes, [&] {
    queue.copy_to_device(memory.data(), host.data(), bytes);
    queue.synchronize();
  });
  return l;
}

double measure_copy_kernel_GBps(std::uint64_t bytes, double seconds) {
  device_info const device = current_device();
  bool const emulated = device.kind == "emulated";
  shape const s =
      emulated ? shape{device.multiprocessors, 64} : shape{8 * device.multiprocessors, 512};
  std::uint64_t const rounded = std::max<std::uint64_t>(bytes / 16 * 16, 16);
  buffer<std::byte> from(rounded);
  buffer<std::byte> to(rounded);
  from.fill_zero();
  load_kernel(move_bytes);
  auto const start = std::chrono::steady_clock::now();
  move_and_wait(from.data(), to.data(), rounded, s);
  double const once = std::max(seconds_since(start), 1e-6);
  auto const repeat = static_cast<std::uint64_t>(std::clamp(seconds / once, 1.0, 1e5));
  return rate(rounded * repeat, [&] {
    for (std::uint64_t i = 0; i < repeat; ++i) {
      launch(move_bytes, s.blocks, s.threads, reinterpret_cast<uint4 const*>(from.data()),
             reinterpret_cast<uint4*>(to.data()), rounded / sizeof(uint4));
    }
    this_thread_stream().synchronize();
  });
}

}  // namespace gpufs::apps
