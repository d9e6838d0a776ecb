// Runs a benchmark: the file, the timed runs, the check against pread, the limits.
#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>

#include <apps/bench/bench.hpp>
#include <apps/bench/bench_file.hpp>
#include <apps/bench/kernels.hpp>
#include <apps/bench/pass.hpp>
#include <apps/bench/random_pull.hpp>
#include <apps/common/device_limits.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/median.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/register_windows.hpp>
#include <apps/common/run_report.hpp>
#include <apps/harness/zipf.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace gpufs::apps {

namespace {

constexpr double least_hit_seconds = 0.08;

/// Passes over the plan that make a kernel of resident pages run long enough to be timed.
std::uint64_t passes(bench_options const& o, file_reader& reader, fs_ref const& fs, int fd) {
  if (o.repeat != not_given) return static_cast<std::uint64_t>(o.repeat);
  double const once = std::max(reader.run(fs, fd, 1), 1e-6);
  return static_cast<std::uint64_t>(std::clamp(std::ceil(least_hit_seconds / once), 1.0, 1e6));
}

/// The baseline on the same file, in as many runs: the median. Its bytes are checked too.
double measure_baseline_GBps(bench_options const& o, config const& settings, host_file const& file,
                             access_plan const& plan) {
  original::options b = original_options(settings);
  b.host_threads = static_cast<unsigned>(o.baseline_threads);
  std::vector<double> rates;
  for (std::int64_t run = 0; run < o.runs; ++run) {
    if (o.cold) file.drop_from_page_cache();
    bool const check = !o.no_verify && run + 1 == o.runs;
    rates.push_back(gigabytes_per_second(
        plan.payload(), read_once_original(file, b, plan, shape_of(o), check).seconds));
  }
  return median(rates);
}

}  // namespace

bench_result run_bench(bench_options const& o, config const& settings) {
  bench_file const source(o.file, o.folder, size_option("--size", o.size, 0, ~0ull), o.seed);
  host_file const& file = *source;
  bench_result r;
  r.file = source.name();
  r.file_bytes = file.size();
  r.plan = make_plan(o, file.size(), settings);
  if (o.zipf()) {
    r.drawn = zipf_draws(file.size() / r.plan.request, o.theta, r.plan.draws, o.seed);
    r.plan.drawn = r.drawn.data();
  }

  auto const runs = static_cast<std::uint64_t>(o.runs);
  progress shown("", runs + 2, !o.quiet);
  std::vector<statistics> counters;
  {
    file_reader reader(r.plan, shape_of(o));
    if (!o.cold) file.load_into_page_cache(o.is("rand") ? file.size() : r.plan.bytes);
    for (std::uint64_t run = 0; run < runs; ++run) {
      shown.say(fmt::format("run {} of {}", run + 1, runs));
      if (o.cold) {
        file.drop_from_page_cache();
        if (auto const part = file.cached_part())
          r.cached_before = std::max(r.cached_before.value_or(0), *part);
      }
      filesystem fs(settings);  // a fresh one: its cache holds nothing
      opened const f(fs, file);
      if (!o.cold) register_windows(fs, f.fd(), file.size());
      if (o.begins_hot()) {
        reader.run(fs.ref(), f.fd(), 1);
        require_success(reader.take_failure());
        if (run == 0) r.repeat = passes(o, reader, fs.ref(), f.fd());
      }
      statistics const before = fs.stats();
      r.seconds.push_back(reader.run(fs.ref(), f.fd(), r.repeat));
      counters.push_back(counters_of_run(before, fs.stats()));
      require_success(reader.take_failure());
      shown.advance(1);
      if (run + 1 == runs) {
        r.backend = fs.backend_name();
        r.notes = fs.notes();
        if (!o.no_verify) {
          shown.say("checking the bytes against pread");
          auto const got = reader.checksums(fs.ref(), f.fd());
          require_success(reader.take_failure());
          comparison const c = compare_with_pread(file, r.plan, got);
          r.checked = c.checked;
          r.mismatch = c.mismatch;
          r.verified = c.mismatch.empty();
        }
      }
    }
  }
  r.median = median_index(r.seconds);
  r.counters = counters[r.median];
  shown.advance(1);
  if (!o.no_limits) {
    yardstick_options y;
    y.cold = o.cold;
    y.thorough = o.thorough;
    if (o.cold) y.prepare = [&] { file.drop_from_page_cache(); };
    y.say = [&](char const* what) { shown.say(what); };
    r.measured = measure_yardsticks(source.all(), r.plan.bytes, y);
    if (o.is("rand") && !o.hot) {
      shown.say("pulling the same ranges out of pinned memory");
      r.measured.random_pull = measure_random_pull(file.size(), r.plan);
    }
    if (o.begins_hot())
      r.measured.copy_kernel = measure_copy_kernel_GBps(r.plan.bytes, least_hit_seconds);
  }
  if (!o.baseline.empty()) {
    shown.say("measuring our model of GPUfs");
    r.measured.baseline_gpufs = measure_baseline_GBps(o, settings, file, r.plan);
  }
  return r;
}

rpc_result run_rpc_bench(bench_options const& o, config const& settings) {
  constexpr std::uint64_t rounds = 16;  // in one sample: the device's clock may be coarse
  std::uint64_t const samples = std::max<std::uint64_t>(
      (o.repeat == not_given ? 20000 : static_cast<std::uint64_t>(o.repeat)) / rounds, 1);
  filesystem fs(settings);
  auto const run = [&](unsigned blocks, std::uint64_t count) {
    rpc_times t = run_rpc(fs.ref(), {blocks, static_cast<unsigned>(o.threads)}, count, rounds);
    if (t.error != 0)
      throw std::runtime_error(fmt::format("a round trip to the daemon: {}", error_text(t.error)));
    return t;
  };
  rpc_result r;
  r.rounds = samples * rounds;
  run(1, std::min<std::uint64_t>(samples, 100));  // does not count: wakes the daemon
  statistics const before = fs.stats();
  std::vector<double> medians;
  for (std::int64_t i = 0; i < o.runs; ++i) {
    rpc_times const t = run(1, samples);
    medians.push_back(median(t.seconds_per_round));
    r.seconds += t.seconds;
  }
  r.counters = fs.stats() - before;
  r.round_trip_us = median(medians) * 1e6;
  std::uint64_t const fewer = std::max<std::uint64_t>(samples / 8, 1);
  rpc_times const all = run(static_cast<unsigned>(o.blocks), fewer);
  r.round_trip_all_us = median(all.seconds_per_round) * 1e6;
  r.rate = static_cast<double>(o.blocks) * static_cast<double>(fewer * rounds) / all.seconds;
  r.backend = fs.backend_name();
  r.notes = fs.notes();
  return r;
}

}  // namespace gpufs::apps
