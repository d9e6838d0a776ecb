#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>

#include <apps/bench/plan_buffers.hpp>
#include <apps/bench/random_pull.hpp>
#include <apps/common/median.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace gpufs::apps {

namespace {

constexpr std::uint64_t most_pinned = 8ull << 30;
constexpr std::uint64_t most_kept =
    4096;  // of a range, by the warp that pulls it: what it writes stays near

/// Warp w does requests w, w + warps, ...; `pinned_bytes` is a multiple of plan.request.
__global__ void __launch_bounds__(512)
    pull_ranges(access_plan plan, std::byte const* pinned, std::uint64_t pinned_bytes,
                std::byte* kept, std::uint64_t warps) {
  std::uint64_t const mine =
      std::uint64_t{blockIdx.x} * (blockDim.x / base::warp_size) + threadIdx.x / base::warp_size;
  auto* const to = reinterpret_cast<uint4*>(kept + mine * most_kept);
  constexpr unsigned units = most_kept / sizeof(uint4), together = 8;
  for (std::uint64_t i = mine; i < plan.numbers(); i += warps) {
    auto const* const from = reinterpret_cast<uint4 const*>(
        pinned + plan.at(0, i).offset % pinned_bytes / sizeof(uint4) * sizeof(uint4));
    std::uint64_t const all = plan.request / sizeof(uint4);
    for (std::uint64_t first = 0; first < all; first += together * base::warp_size) {
      uint4 word[together];
      GPUFS_UNROLL
      for (unsigned k = 0; k < together; ++k) {
        std::uint64_t const at = first + k * base::warp_size + lane_id();
        if (at < all) word[k] = __ldcv(from + at);
      }
      GPUFS_UNROLL
      for (unsigned k = 0; k < together; ++k) {
        std::uint64_t const at = first + k * base::warp_size + lane_id();
        if (at < all) to[at % units] = word[k];
      }
    }
  }
}

}  // namespace

double measure_random_pull(std::uint64_t bytes, access_plan const& plan) {
  std::uint64_t const pinned_bytes =
      std::max(std::min(bytes, most_pinned) / plan.request, std::uint64_t{1}) * plan.request;
  pinned_buffer<std::byte> pinned((pinned_bytes + 15) / 16 * 16);
  pinned.fill_zero();
  return measure_pull(pinned.data(), pinned_bytes, plan);
}

double measure_pull(std::byte const* pinned, std::uint64_t pinned_bytes, access_plan const& plan) {
  device_info const device = current_device();
  bool const emulated = device.kind == "emulated";
  bench_shape const shape = emulated ? bench_shape{device.multiprocessors, 64}
                                     : bench_shape{2 * device.multiprocessors, 512};
  std::uint64_t const warps = std::uint64_t{shape.blocks} * (shape.threads / base::warp_size);
  pinned_bytes = pinned_bytes / plan.request * plan.request;
  buffer<std::byte> kept(warps * most_kept);
  access_plan all = plan;  // one reader's, whose number i is request i
  all.blocks = 1;
  buffer<std::uint32_t> drawn;
  if (plan.drawn != nullptr) {
    drawn = buffer<std::uint32_t>(plan.draws);
    drawn.copy_from_host(plan.drawn, plan.draws);
    all.drawn = drawn.data();
  }
  load_kernel(pull_ranges);
  std::vector<double> rates;
  for (int run = 0; run < 4; ++run) {
    auto const start = std::chrono::steady_clock::now();
    launch(pull_ranges, shape.blocks, shape.threads, all, pinned, pinned_bytes, kept.data(), warps);
    this_thread_stream().synchronize();
    if (run != 0)
      rates.push_back(static_cast<double>(plan.payload()) / seconds_since(start) /
                      1e9);  // the first does not count
  }
  return median(rates);
}

}  // namespace gpufs::apps
