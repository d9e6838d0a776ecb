// Loops over index ranges, shared out among the host's threads.
#pragma once

#include <apps/common/worker_threads.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace gpufs::apps {

/// Calls work(begin, end) for ranges of [0, count) of at most `range`, on io_threads() threads.
/// Throws what `work` throws.
template <class Work>
void parallel_ranges(std::uint64_t count, std::uint64_t range, Work const& work) {
  std::uint64_t const ranges = (count + range - 1) / range;
  std::atomic<std::uint64_t> next{0};
  auto const run = [&](unsigned) {
    // Relaxed: a counter, which orders nothing.
    for (std::uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < ranges;) {
      work(i * range, std::min(count, (i + 1) * range));
    }
  };
  if (ranges <= 1) return run(0);
  run_on_threads(static_cast<unsigned>(std::min<std::uint64_t>(io_threads(), ranges)), run);
}

/// Calls work(i) for each i below `count`; `range` of them go to one thread at a time.
template <class Work>
void parallel_for(std::uint64_t count, std::uint64_t range, Work const& work) {
  parallel_ranges(count, range, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) work(i);
  });
}

/// The smallest i below `count` for which wrong(i) holds, or `count`.
template <class Wrong>
std::uint64_t parallel_find(std::uint64_t count, Wrong const& wrong) {
  std::atomic<std::uint64_t> first{count};
  parallel_ranges(count, 1 << 16, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end && i < first.load(std::memory_order_relaxed); ++i) {
      if (!wrong(i)) continue;
      std::uint64_t seen = first.load(std::memory_order_relaxed);
      while (i < seen && !first.compare_exchange_weak(seen, i, std::memory_order_relaxed)) {
      }
    }
  });
  return first;
}

}  // namespace gpufs::apps
