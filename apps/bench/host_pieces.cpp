#include <gpufs/device.hpp>

#include <apps/bench/host_pieces.hpp>
#include <apps/common/median.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/seconds_since.hpp>
#include <apps/common/transfer.hpp>
#include <apps/common/worker_threads.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace gpufs::apps {

namespace {

using steady = std::chrono::steady_clock;
constexpr std::uint64_t chunk_bytes = 1 << 20;

/// The same requests, all of them those of block 0.
access_plan by_one_block(access_plan plan) {
  if (plan.pattern == access_pattern::sequential) plan.stride = plan.bytes;
  plan.blocks = 1;
  return plan;
}

/// What a thread copies with: two chunks, and where they go on the device.
class two_chunks {
 public:
  two_chunks(std::byte* pinned, std::byte* device) : pinned_(pinned), device_(device) {}

  /// Gathers the requests [first, last) of block 0 and starts the copy.
  void take(host_file const& file, access_plan const& plan, std::uint64_t first,
            std::uint64_t last) {
    std::byte* const chunk = pinned_ + side_ * chunk_bytes;
    copied_[side_].synchronize();
    std::uint64_t filled = 0;
    for (std::uint64_t i = first; i < last; ++i) {
      access const a = plan.at(0, i);
      file.read(chunk + filled, a.bytes, a.offset);
      filled += a.bytes;
    }
    queue_.copy_to_device(device_ + side_ * chunk_bytes, chunk, filled);
    queue_.record(copied_[side_]);
    side_ ^= 1;
  }

  void finish() { queue_.synchronize(); }

 private:
  std::byte* pinned_;
  std::byte* device_;
  unsigned side_ = 0;
  std::array<event, 2> copied_;
  transfer_queue queue_;
};

}  // namespace

double measure_piece_copies_GBps(host_file const& file, access_plan const& plan, unsigned threads) {
  access_plan const all = by_one_block(plan);
  std::uint64_t const requests = all.requests_of(0);
  std::uint64_t const together = std::max<std::uint64_t>(chunk_bytes / all.request, 1);
  pinned_buffer<std::byte> pinned(2 * threads * chunk_bytes);
  buffer<std::byte> memory(2 * threads * chunk_bytes);
  pinned.fill_zero();
  std::atomic<std::uint64_t> next{0};
  steady::time_point start;
  auto const start_clock = [&start]() noexcept { start = steady::now(); };
  // Streams are made before the clock starts.
  std::barrier all_ready(static_cast<std::ptrdiff_t>(threads), start_clock);
  run_on_threads(threads, [&](unsigned thread) {
    std::optional<two_chunks> mine;
    std::uint64_t const at = 2 * thread * chunk_bytes;
    try {
      mine.emplace(pinned.data() + at, memory.data() + at);
    } catch (...) {
      all_ready.arrive_and_drop();
      throw;
    }
    all_ready.arrive_and_wait();
    for (;;) {
      // A counter: orders nothing.
      std::uint64_t const first = next.fetch_add(together, std::memory_order_relaxed);
      if (first >= requests) break;
      mine->take(file, all, first, std::min(first + together, requests));
    }
    mine->finish();
  });
  return gigabytes_per_second(all.payload(), seconds_since(start));
}

double measure_copy_and_wait_us(host_file const& file, access_plan const& plan) {
  access_plan const all = by_one_block(plan);
  pinned_buffer<std::byte> pinned(all.request);
  buffer<std::byte> memory(all.request);
  pinned.fill_zero();
  transfer_queue queue;
  std::vector<double> microseconds;
  for (std::uint64_t i = 0, n = all.requests_of(0); i < n; ++i) {
    access const a = all.at(0, i);
    auto const start = steady::now();
    file.read(pinned.data(), a.bytes, a.offset);
    queue.copy_to_device(memory.data(), pinned.data(), a.bytes);
    queue.synchronize();
    microseconds.push_back(seconds_since(start) * 1e6);
  }
  return median(microseconds);
}

}  // namespace gpufs::apps
