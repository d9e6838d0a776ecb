// Figures 2, 7, 9 and 10: throughput along sizes of pages and of readahead.
#include <apps/bench/figures.hpp>
#include <apps/common/device_limits.hpp>
#include <apps/common/host_reads.hpp>
#include <apps/common/storage_limits.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpufs::apps {

namespace {

constexpr std::uint64_t small_page = 4 << 10, large_page = 64 << 10;

/// A pass whose greads are of a page, or of --req bytes where that is more.
access_plan plan_for(study const& all, std::uint64_t page) {
  return all.plan(all.shape().blocks, all.bytes(), std::max(all.plan().request, page));
}

double gpufs_pages(study const& all, std::uint64_t page, std::uint64_t prefetch) {
  return all.gpufs_GBps(all.settings_at(page, prefetch, all.fitting_cache()), plan_for(all, page));
}

double original_pages(study const& all, std::uint64_t page) {
  return all.original_GBps(all.original_at(page, all.fitting_cache()), plan_for(all, page));
}

}  // namespace

sweep_control figure_setup::control() const {
  return {runs, shown, [this](bool first) { all.check_bytes(first); }};
}

std::vector<std::uint64_t> figure_setup::sizes() const {
  std::vector<std::uint64_t> found;
  for (std::uint64_t size = small_page; size <= 4 << 20; size *= step) {
    if (size == small_page || size <= all.bytes() / all.shape().blocks) found.push_back(size);
  }
  return found;
}

std::function<void()> figure_setup::preparation() const {
  host_file const& file = all.file();
  if (cold) return [&file] { file.drop_from_page_cache(); };
  return [] {};
}

void measure_limit_lines(figure_table& to, figure_setup const& s) {
  study const& all = s.all;
  device_limits const limits = measure_device_limits();
  to.add("pull limit", "line", 0, "GB/s", {limits.pull_GBps});
  to.add("DMA limit", "line", 0, "GB/s", {limits.dma_GBps});
  auto const prepare = s.preparation();
  measure_lines(
      to,
      {{"hand-written: 1 thread, 1 copy", [&](std::uint64_t) { return all.cpuio_GBps(); }},
       {"hand-written: 8 threads, pipelined",
        [&](std::uint64_t) {
          prepare();
          return measure_pipelined_GBps({{&all.file(), all.bytes()}}, 8, 4 << 20);
        }}},
      s.control());
  if (!s.cold) return;
  prepare();
  storage_limits const storage = measure_storage_limits(all.file(), all.bytes(), 1);
  if (storage.sequential_GBps)
    to.add("storage, O_DIRECT", "line", 0, "GB/s", {*storage.sequential_GBps});
  if (!storage.why_not.empty()) to.notes.push_back("storage not measured: " + storage.why_not);
}

void measure_page_sizes(figure_table& to, figure_setup const& s) {
  study const& all = s.all;
  auto const prepare = s.preparation();
  auto const threads = static_cast<unsigned>(all.options().baseline_threads);
  sweep(to, s.sizes(),
        {{"gpufs", [&](std::uint64_t x) { return gpufs_pages(all, x, 0); }},
         {"our model of GPUfs", [&](std::uint64_t x) { return original_pages(all, x); }},
         {fmt::format("CPU I/O, {} threads, no transfer", threads),
          [&](std::uint64_t x) {
            prepare();
            return replay_GBps(all.file(), sequential_trace(threads, all.bytes(), x));
          }}},
        s.control());
  measure_limit_lines(to, s);
}

void measure_readahead(figure_table& to, figure_setup const& s) {
  study const& all = s.all;
  sweep(to, s.sizes(),
        {{"gpufs, 4K pages, readahead of this size",
          [&](std::uint64_t x) { return gpufs_pages(all, small_page, x); }},
         {"gpufs, pages of this size", [&](std::uint64_t x) { return gpufs_pages(all, x, 0); }},
         {"our model of GPUfs, pages of this size",
          [&](std::uint64_t x) { return original_pages(all, x); }}},
        s.control());
  measure_lines(to,
                {{"gpufs, 4K pages, automatic readahead",
                  [&](std::uint64_t) { return gpufs_pages(all, small_page, prefetch_automatic); }},
                 {"gpufs, 4K pages, no readahead",
                  [&](std::uint64_t) { return gpufs_pages(all, small_page, 0); }},
                 {"our model of GPUfs, 4K pages",
                  [&](std::uint64_t) { return original_pages(all, small_page); }}},
                s.control());
  measure_limit_lines(to, s);
}

void measure_replacement(figure_table& to, figure_setup const& s) {
  study const& all = s.all;
  std::uint64_t const half = all.bytes() / 2;
  auto const under = [&](replacement policy) {
    return [&all, half, policy](std::uint64_t x) {
      config c = all.settings_at(small_page, x, half);
      c.policy = policy;
      return all.gpufs_GBps(c, all.plan());
    };
  };
  auto const original_with = [&](std::uint64_t page, std::uint64_t cache) {
    return [&all, page, cache](std::uint64_t) {
      return all.original_GBps(all.original_at(page, cache), plan_for(all, page));
    };
  };
  sweep(to, s.sizes(),
        {{"gpufs, LRA", under(replacement::lra)},
         {"gpufs, global FIFO", under(replacement::fifo)},
         {"gpufs, CLOCK", under(replacement::clock)}},
        s.control());
  measure_lines(to,
                {{"gpufs, file fits, automatic readahead",
                  [&](std::uint64_t) { return gpufs_pages(all, small_page, prefetch_automatic); }},
                 {"gpufs, LRA, automatic readahead",
                  [&](std::uint64_t) { return under(replacement::lra)(prefetch_automatic); }},
                 {"our model of GPUfs, 4K pages", original_with(small_page, half)},
                 {"our model of GPUfs, 64K pages", original_with(large_page, half)}},
                s.control());
  measure_limit_lines(to, s);
}

}  // namespace gpufs::apps
