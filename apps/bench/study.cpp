#include <gpufs/device.hpp>

#include <apps/bench/bench_file.hpp>
#include <apps/bench/study.hpp>
#include <apps/common/program.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/temp_file.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>

namespace gpufs::apps {

namespace {

/// Pinned memory for two requests of `each` bytes per block, at least `least` bytes and 8 requests,
/// at most 1 GiB.
std::uint64_t pinned_for(std::uint64_t blocks, std::uint64_t each, std::uint64_t least) {
  std::uint64_t const low = std::max(least, 8 * each);
  return std::clamp(2 * blocks * each, low, std::max<std::uint64_t>(low, 1 << 30)) / 4096 * 4096;
}

}  // namespace

void add_options(CLI::App& command, study_options& o) {
  o.folder = temp_folder();
  command.fallthrough();
  command.add_option("--file", o.file, bench_file::help);
  command.add_option("--dir,--folder", o.folder, "where the temporary file lies")
      ->capture_default_str();
  command.add_option("--req", o.request, "bytes per gread; at least a page")->capture_default_str();
  command.add_option("--blocks", o.blocks, "threadblocks; default 120, emulated 8");
  command.add_option("--threads", o.threads, "threads of each; default 512, emulated 64");
  command
      .add_option("--baseline-threads", o.baseline_threads, "host threads of our model of GPUfs")
      ->capture_default_str();
  command.add_option("--seed", o.seed, "of the temporary file")->capture_default_str();
  command.add_flag("--no-verify", o.no_verify, "do not check the bytes against pread");
}

void complete(study_options& o, std::int64_t runs) {
  bool const emulated = device_to_run_on().kind == "emulated";
  fill_in(o.blocks, emulated ? 8 : 120);
  fill_in(o.threads, emulated ? 64 : 512);
  fill_in(o.runs, runs);
  check_option("--blocks", o.blocks, 1, 1 << 20);
  check_threads(o.threads);
  check_option("--runs", o.runs, 1, 1000);
  check_option("--baseline-threads", o.baseline_threads, 1, 128);
  (void)size_option("--req", o.request, 1, 1 << 30);
  bench_file::check_folder(o.file, o.folder);
}

config study_defaults() {
  config c;
  if (device_to_run_on().kind == "emulated") {
    c.staging_size = 8 << 20;
    c.prefetch_memory = 16 << 20;
    c.seats = 64;
  }
  return c;
}

study::study(study_options const& o, config const& settings, host_file const& file,
             std::uint64_t bytes)
    : options_(o),
      settings_(settings),
      file_(file),
      bytes_(std::min(bytes, file.size())),
      request_(size_option("--req", o.request, 1, 1 << 30)),
      shape_{static_cast<unsigned>(o.blocks), static_cast<unsigned>(o.threads)} {}

access_plan study::plan(std::uint64_t blocks, std::uint64_t bytes, std::uint64_t request) const {
  access_plan p;
  p.blocks = blocks;
  p.bytes = bytes;
  p.request = request;
  p.stride = access_plan::even_stride(bytes, request, blocks);
  return p;
}

double study::gpufs_GBps(config const& c, access_plan const& p) const {
  prepare_();
  bench_shape const s{static_cast<unsigned>(p.blocks), shape_.threads};
  return gigabytes_per_second(p.payload(), gpufs_pass(c, p, s, check_).seconds);
}

pass_result study::gpufs_pass(config const& c, access_plan const& p, bench_shape shape, bool check,
                              bool windows_first) const {
  pass_result const done = read_once(file_, c, p, shape, check, windows_first);
  wanted_bytes_ += p.payload();
  counters_.host_bytes += done.counters.host_bytes;
  counters_.bytes_registered += done.counters.bytes_registered;
  counters_.registering_ns += done.counters.registering_ns;
  return done;
}

double study::original_GBps(original::options const& o, access_plan const& p) const {
  prepare_();
  bench_shape const s{static_cast<unsigned>(p.blocks), shape_.threads};
  return gigabytes_per_second(p.payload(),
                              read_once_original(file_, o, p, s, check_ && o.transfers).seconds);
}

double study::cpuio_GBps() const {
  prepare_();
  return measure_cpuio_GBps({{&file_, bytes_}});
}

double study::best_pipelined_GBps() const {
  return measure_best_pipelined_GBps({{&file_, bytes_}}, prepare_);
}

original::options study::original_at(std::uint64_t page_size, std::uint64_t cache_bytes) const {
  original::options o = original_options(settings_);
  o.page_size = page_size;
  o.cache_size = std::max(cache_bytes, page_size * 2 * shape_.blocks);
  o.host_threads = static_cast<unsigned>(options_.baseline_threads);
  return o;
}

config study::settings_at(std::uint64_t page_size, std::uint64_t prefetch_size,
                          std::uint64_t cache_bytes) const {
  config c = settings_;
  c.page_size = page_size;
  c.prefetch_size = prefetch_size;
  c.cache_size = std::max(cache_bytes, page_size * 2 * shape_.blocks) / page_size * page_size;
  c.staging_size = pinned_for(shape_.blocks, page_size, c.staging_size);
  if (prefetch_size != 0 && prefetch_size != prefetch_automatic) {
    c.prefetch_memory = pinned_for(shape_.blocks, page_size + prefetch_size, c.prefetch_memory);
  }
  // Pages of a study may be longer than those that the settings are for.
  if (prefetch_size == prefetch_automatic)
    c.prefetch_memory = std::max(c.prefetch_memory, page_size);
  if (c.write_memory != 0) c.write_memory = std::max(c.write_memory, page_size);
  return c;
}

}  // namespace gpufs::apps
