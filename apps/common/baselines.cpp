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

/// A chunk of a pipeline: bytes that go to `target` on the device.
struct pipeline_chunk {
  std::uint64_t bytes;
  std::uint64_t target;
};

/// Brings the chunks to `memory`. `threads` threads have two pinned chunks each: fill(i, chunk) is
/// called for one while the other is copied. Returns when it started.
template <class Fill>
steady::time_point run_pipeline(std::vector<pipeline_chunk> const& list, buffer<std::byte>& memory,
                                unsigned threads, std::uint64_t chunk_bytes, Fill const& fill) {
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
      if (i >= list.size()) break;
      std::byte* const chunk = chunks.data() + (2 * thread + side) * chunk_bytes;
      copied[side].synchronize();
      fill(i, chunk);
      queue.copy_to_device(memory.data() + list[i].target, chunk, list[i].bytes);
      queue.record(copied[side]);
    }
    queue.synchronize();
  };
  run_on_threads(threads, work);
  return start;
}

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
  std::vector<pipeline_chunk> chunks;
  for (auto const& r : ranges) chunks.push_back({r.bytes, r.target});
  buffer<std::byte> memory(bytes);
  auto const start =
      run_pipeline(chunks, memory, threads, chunk_bytes, [&](std::size_t i, std::byte* chunk) {
        ranges[i].file->read(chunk, ranges[i].bytes, ranges[i].offset);
      });
  return rate(bytes, start);
}

double measure_records_GBps(host_file const& file, std::vector<std::uint64_t> const& offsets,
                            std::uint64_t record, unsigned threads, std::uint64_t chunk_bytes,
                            delivered const& check) {
  std::uint64_t const together = std::max<std::uint64_t>(chunk_bytes / record, 1);
  std::vector<pipeline_chunk> chunks;
  for (std::uint64_t first = 0; first < offsets.size(); first += together)
    chunks.push_back({std::min(together, offsets.size() - first) * record, first * record});
  buffer<std::byte> memory(offsets.size() * record);
  auto const start = run_pipeline(chunks, memory, threads, together * record,
                                  [&](std::size_t i, std::byte* chunk) {
                                    std::uint64_t const first = i * together;
                                    for (std::uint64_t k = 0; k * record < chunks[i].bytes; ++k)
                                      file.read(chunk + k * record, record, offsets[first + k]);
                                  });
  double const result = rate(memory.size(), start);
  if (check) check(memory);
  return result;
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
