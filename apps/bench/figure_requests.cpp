// Figures 3, 5 and 6: the host side alone. Requests without transfers, the trace of the reads of
// the host threads, and their idle time.
#include <gpufs/testing/filesystem.hpp>

#include <apps/bench/figures.hpp>
#include <apps/bench/original_kernels.hpp>
#include <apps/bench/request_kernels.hpp>
#include <apps/common/host_reads.hpp>
#include <apps/common/run_report.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace gpufs::apps {

namespace {

access_plan plan_for(study const& all, std::uint64_t request) {
  return all.plan(all.shape().blocks, all.bytes(), std::max(all.plan().request, request));
}

/// The cache plays no part in these; a small one is quickly made.
constexpr std::uint64_t small_cache = 1 << 20;

/// As many daemon threads as the baseline has, so that the two can be compared thread by thread.
config few_threads(study const& all, std::uint64_t page) {
  config c = all.settings_at(page, 0, small_cache);
  c.host_threads = static_cast<std::uint32_t>(all.options().baseline_threads);
  return c;
}

original::options requests_only(study const& all, std::uint64_t page) {
  original::options o = all.original_at(page, small_cache);
  o.transfers = false;
  return o;
}

/// Requests of `page` bytes from the device, answered by gpufs's daemon. `recorder` may be null.
double gpufs_requests(study const& all, config c, std::uint64_t page,
                      std::shared_ptr<trace_recorder> recorder = nullptr,
                      std::vector<thread_statistics>* threads = nullptr) {
  if (c.path == io_path::dma) c.path = io_path::pull;  // nobody pulls, and nothing shall be copied
  testing::filesystem fs(c, std::move(recorder));
  opened const f(fs, all.file());
  auto const before = fs.thread_stats();
  access_plan const p = plan_for(all, page);
  double const seconds = run_requests(fs.ref(), f.fd(), p, all.shape());
  if (threads != nullptr) {
    *threads = fs.thread_stats();
    for (std::size_t i = 0; i < threads->size(); ++i)
      (*threads)[i].polls_before_first -= before[i].polls_before_first;
  }
  return gigabytes_per_second(p.payload(), seconds);
}

double original_requests(study const& all, std::uint64_t page) {
  return all.original_GBps(requests_only(all, page), plan_for(all, page));
}

read_trace trace_of_gpufs(study const& all, std::uint64_t page) {
  auto const recorder = std::make_shared<trace_recorder>();
  (void)gpufs_requests(all, few_threads(all, page), page, recorder);
  return recorder->take();
}

read_trace trace_of_original(study const& all, std::uint64_t page) {
  original::options o = requests_only(all, page);
  o.record = true;
  auto const r = read_once_original(all.file(), o, plan_for(all, page), all.shape(), false);
  read_trace trace;
  for (auto const& thread : r.counters.threads) {
    trace.emplace_back();
    for (auto const& read : thread.trace) trace.back().push_back({read.offset, read.bytes});
  }
  return trace;
}

figure_series cpu_io(study const& all, std::function<void()> prepare) {
  auto const threads = static_cast<unsigned>(all.options().baseline_threads);
  return {fmt::format("CPU I/O, {} threads", threads),
          [&all, threads, prepare = std::move(prepare)](std::uint64_t x) {
            prepare();
            return replay_GBps(all.file(), sequential_trace(threads, all.bytes(), x));
          }};
}

}  // namespace

void measure_requests(figure_table& to, figure_setup const& s) {
  study const& all = s.all;
  auto const prepare = s.preparation();
  sweep(to, s.sizes(),
        {{"gpufs, requests only",
          [&](std::uint64_t x) {
            prepare();
            return gpufs_requests(all, all.settings_at(x, 0, small_cache), x);
          }},
         {"our model of GPUfs, requests only",
          [&](std::uint64_t x) { return original_requests(all, x); }},
         cpu_io(all, prepare)},
        s.control());
}

void measure_replay(figure_table& to, figure_setup const& s) {
  study const& all = s.all;
  auto const prepare = s.preparation();
  auto const replayed = [&](auto const& record) {
    return [&all, &prepare, record](std::uint64_t x) {
      read_trace const trace = record(all, x);
      prepare();
      return replay_GBps(all.file(), trace);
    };
  };
  sweep(to, s.sizes(),
        {{"gpufs, requests only, as many threads",
          [&](std::uint64_t x) {
            prepare();
            return gpufs_requests(all, few_threads(all, x), x);
          }},
         {"the same reads without a device", replayed(trace_of_gpufs)},
         {"our model of GPUfs, requests only",
          [&](std::uint64_t x) { return original_requests(all, x); }},
         {"the same reads without a device (our model of GPUfs)", replayed(trace_of_original)},
         cpu_io(all, prepare)},
        s.control());
}

void measure_idle_polls(figure_table& to, figure_setup const& s) {
  study const& all = s.all;
  auto const prepare = s.preparation();
  auto const threads = static_cast<std::size_t>(all.options().baseline_threads);
  for (std::uint64_t const size : s.sizes()) {
    std::vector<std::vector<double>> ours(threads), theirs(threads), ours_served(threads),
        theirs_served(threads);
    for (std::int64_t run = 0; run < s.runs; ++run) {
      s.shown.say(fmt::format("figure {}: idle polls", to.number));
      prepare();
      std::vector<thread_statistics> mine;
      (void)gpufs_requests(all, few_threads(all, size), size, nullptr, &mine);
      s.shown.advance(1);
      prepare();
      auto const r = read_once_original(all.file(), requests_only(all, size), plan_for(all, size),
                                        all.shape(), false);
      s.shown.advance(1);
      for (std::size_t t = 0; t < threads; ++t) {
        ours[t].push_back(static_cast<double>(mine[t].polls_before_first));
        ours_served[t].push_back(static_cast<double>(mine[t].requests));
        theirs[t].push_back(static_cast<double>(r.counters.threads[t].polls_before_first));
        theirs_served[t].push_back(static_cast<double>(r.counters.threads[t].requests));
      }
    }
    auto const add = [&](char const* who, char const* what, char const* kind, char const* unit,
                         auto const& values) {
      for (std::size_t t = 0; t < threads; ++t)
        to.add(fmt::format("{}, thread {}{}", who, t, what), kind, size, unit, values[t]);
    };
    add("gpufs", "", "bars", "polls", ours);
    add("our model of GPUfs", "", "bars", "polls", theirs);
    add("gpufs", ": requests", "table", "requests", ours_served);
    add("our model of GPUfs", ": requests", "table", "requests", theirs_served);
  }
}

}  // namespace gpufs::apps
