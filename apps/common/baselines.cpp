#include <gpufs/device.hpp>

#include <apps/common/baselines.hpp>
#include <apps/common/transfer.hpp>
#include <apps/common/worker_threads.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

namespace gpufs::apps {

namespace {

using steady = std::chrono::steady_clock;

double rate(std::uint64_t bytes, steady::time_point start) {
  return static_cast<double>(bytes) / std::chrono::duration<double>(steady::now() - start).count() /
         1e9;
}

std::uint64_t total(std::vector<file_part> const& parts) {
  std::uint64_t bytes = 0;
  for (auto const& p : parts) bytes += p.bytes;
  return bytes;
}

/// A range of a file, and where its bytes go on the device.
struct range {
  host_file const* file;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t target;
};

std::vector<range> cut(std::vector<file_part> const& parts, std::uint64_t chunk) {
  std::vector<range> ranges;
  std::uint64_t target = 0;
  for (auto const& p : parts) {
    for (std::uint64_t at = 0; at < p.bytes; at += chunk) {
      std::uint64_t const bytes = std::min(chunk, p.bytes - at);
      ranges.push_back({p.file, at, bytes, target});
      target += bytes;
    }
  }
  return ranges;
}

}  // namespace

double measure_cpuio_GBps(std::vector<file_part> const& parts) {
  std::uint64_t const bytes = total(parts);
  auto const host = std::make_unique<std::byte[]>(bytes);  // value-initialised: touched
  buffer<std::byte> memory(bytes);
  auto const start = steady::now();
  std::uint64_t at = 0;
  for (auto const& p : parts) {
    p.file->read(host.get() + at, p.bytes, 0);
    at += p.bytes;
  }
  memory.copy_from_host(host.get(), bytes);
  return rate(bytes, start);
}

double measure_pipelined_GBps(std::vector<file_part> const& parts, unsigned threads,
                              std::uint64_t chunk_bytes) {
  std::uint64_t const bytes = total(parts);
  auto const ranges = cut(parts, chunk_bytes);
  buffer<std::byte> memory(bytes);
  pinned_buffer<std::byte> chunks(2 * threads * chunk_bytes);
  chunks.fill_zero();
  std::atomic<std::size_t> next{0};
  steady::time_point start;
  auto const start_clock = [&start]() noexcept { start = steady::now(); };
  std::barrier all_ready(static_cast<std::ptrdiff_t>(threads),
                         start_clock);  // streams are made before the clock starts
  auto const work = [&](unsigned thread) {
    std::optional<transfer_queue> made;
    std::array<event, 2> copied;
    try {
      made.emplace();
    } catch (...) {
      all_ready.arrive_and_drop();
      throw;
    }
    transfer_queue& queue = *made;
    all_ready.arrive_and_wait();
    for (unsigned side = 0;; side ^= 1) {
      std::size_t const i =
          next.fetch_add(1, std::memory_order_relaxed);  // a counter: orders nothing
      if (i >= ranges.size()) break;
      range const& p = ranges[i];
      std::byte* const chunk = chunks.data() + (2 * thread + side) * chunk_bytes;
      copied[side].synchronize();
      p.file->read(chunk, p.bytes, p.offset);
      queue.copy_to_device(memory.data() + p.target, chunk, p.bytes);
      queue.record(copied[side]);
    }
    queue.synchronize();
  };
  run_on_threads(threads, work);
  return rate(bytes, start);
}

double measure_best_pipelined_GBps(std::vector<file_part> const& parts,
                                   std::function<void()> const& prepare) {
  double best = 0;
  for (unsigned const threads : {8u, 16u}) {
    for (std::uint64_t chunk = 1 << 20; chunk <= 16 << 20; chunk *= 2) {
      prepare();
      best = std::max(best, measure_pipelined_GBps(parts, threads, chunk));
    }
  }
  return best;
}

}  // namespace gpufs::apps
