#include <gpufs/filesystem.hpp>
#include <gpufs/nvme.hpp>

#include <apps/bench/kernels.hpp>
#include <apps/bench/nvme_runs.hpp>
#include <apps/common/device_limits.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace gpufs::apps {

namespace {

// Of protocol: as many callers as the published protocol was tried with.
constexpr unsigned protocol_blocks = 66, protocol_threads = 256;
constexpr std::uint64_t warps_per_pair = 64;
constexpr std::uint64_t warps_per_drive = 64;
constexpr std::uint32_t pairs_per_drive = 4;

void add_counts(nvme_outcome& to, command_run const& run) {
  to.commands += run.commands;
  to.doorbells += run.doorbells;
  to.head_doorbells += run.head_doorbells;
}

/// The published protocol is slower, and sends fewer commands.
command_shape published(command_shape shape) {
  shape.rounds = std::max(shape.rounds / 8, 1u);
  return shape;
}

/// A pass over a block file. The rate is in GB/s.
nvme_outcome outcome_of(pass_result const& done) {
  nvme_outcome out;
  out.rate = done.GBps();
  out.commands = done.device_commands;
  out.missed_pages = done.counters.misses;
  return out;
}

double per_doorbell(std::uint64_t commands, std::uint64_t doorbells) {
  return static_cast<double>(commands) / static_cast<double>(std::max<std::uint64_t>(doorbells, 1));
}

/// Blocks of read_block_bytes.
double millions_per_second(double GBps) { return GBps * 1e3 / read_block_bytes; }

}  // namespace

nvme_runs::nvme_runs(nvme_setup const& setup) : setup_(setup) {}

nvme_outcome nvme_runs::measure(nvme_row const& row, bool check) {
  switch (row.what) {
    case nvme_measure::commands: return measure_commands();
    case nvme_measure::protocol: return measure_protocol();
    case nvme_measure::doorbells: return measure_doorbells();
    case nvme_measure::pairs: return measure_pairs();
    case nvme_measure::gpuctl: return measure_gpuctl();
    case nvme_measure::gpuorder: return measure_gpuorder();
    case nvme_measure::drives: return measure_drives();
    case nvme_measure::rand_4k: return measure_rand_4k(check);
    case nvme_measure::rand_512: return measure_rand_512(check);
    case nvme_measure::file_4k: return measure_file_4k(check);
    case nvme_measure::cold_4k: return measure_cold_4k(check);
  }
  throw std::logic_error("bench nvme: an unknown row");
}

command_shape nvme_runs::shape() const {
  return {static_cast<unsigned>(setup_.reads.blocks), static_cast<unsigned>(setup_.reads.threads),
          setup_.emulated ? 4u : 64u};
}

controllers_options nvme_runs::controllers(std::uint32_t pairs) const {
  controllers_options o;
  o.threads = setup_.controller_threads;
  o.pairs = pairs;
  o.depth = setup_.depth;
  o.timeout_ns = std::uint64_t{setup_.reads.settings.rpc_timeout_ms} * 1'000'000;
  o.blocks = std::make_shared<nvme_controller::null_namespace>(1, read_block_bytes);
  return o;
}

command_run nvme_runs::run_commands(std::uint32_t pairs) const {
  bench_controllers on(controllers(pairs));
  return send_flushes(on, shape());
}

double nvme_runs::ring_rate() const {
  constexpr std::uint64_t rounds = 16;
  constexpr unsigned warp = 32;
  std::uint64_t const samples = setup_.emulated ? 1 : 128;
  filesystem fs(setup_.reads.settings);
  double best = 0;
  auto const warps = static_cast<unsigned>(shape().warps());
  for (unsigned const blocks : {shape().blocks, warps}) {
    static_cast<void>(run_rpc(fs.ref(), {blocks, warp}, 1, rounds));  // wakes the daemon
    rpc_times const t = run_rpc(fs.ref(), {blocks, warp}, samples, rounds);
    if (t.error != 0)
      throw std::runtime_error("a round trip to the daemon: " + error_text(t.error));
    best = std::max(best, static_cast<double>(blocks * samples * rounds) / t.seconds / 1e6);
  }
  return best;
}

nvme_outcome nvme_runs::measure_commands() const {
  nvme_outcome out;
  command_run const ours = run_commands(setup_.pairs);
  add_counts(out, ours);
  out.rate = ours.rate();
  out.counterpart = ring_rate();
  bench_controllers const alone(controllers(setup_.pairs));
  out.points = {
      {"the controller alone, M/s", measure_controller_rate(alone, setup_.emulated ? 2 : 16)}};
  return out;
}

command_shape nvme_runs::few() const {
  command_shape few = shape();
  few.blocks = std::min(few.blocks, protocol_blocks);
  few.threads = std::min(few.threads, protocol_threads);
  return few;
}

nvme_outcome nvme_runs::measure_protocol() const {
  nvme_outcome out;
  {
    bench_controllers on(controllers(setup_.pairs));
    command_run const ours = send_flushes(on, few());
    add_counts(out, ours);
    out.rate = ours.rate();
  }
  bench_controllers on(controllers(setup_.pairs));
  out.counterpart = send_flushes_published(on, published(few())).rate();
  return out;
}

device_controller_options nvme_runs::device_controllers(std::uint32_t pairs) const {
  controllers_options const o = controllers(pairs);
  return {o.pairs, o.depth, o.timeout_ns};
}

nvme_outcome nvme_runs::measure_gpuctl() const {
  std::vector<std::uint32_t> const pair_counts =
      setup_.emulated ? std::vector<std::uint32_t>{2, 4}
                      : std::vector<std::uint32_t>{8, 16, 32, 40, 64, 128};
  struct both {
    double ours, published;
    [[nodiscard]] double ratio() const { return ours / published; }
  };
  std::vector<both> rates;
  nvme_outcome out;
  for (std::uint32_t const pairs : pair_counts) {
    device_controller on(device_controllers(pairs));
    command_run const ours = send_flushes(on, few());
    add_counts(out, ours);
    device_controller again(device_controllers(pairs));
    rates.push_back({ours.rate(), send_flushes_published(again, published(few())).rate()});
    out.points.push_back({fmt::format("{} pairs, M/s", pairs), rates.back().ours});
    out.points.push_back({fmt::format("{} pairs, published, M/s", pairs), rates.back().published});
  }
  std::ranges::sort(rates, {}, &both::ratio);
  both const& middle = rates[(rates.size() - 1) / 2];
  out.rate = middle.ours;
  out.counterpart = middle.published;
  return out;
}

nvme_outcome nvme_runs::measure_gpuorder() const {
  std::uint32_t const pairs = setup_.emulated ? 4 : most_pairs;
  nvme_outcome out;
  device_controller on(device_controllers(pairs));
  command_run const ours = send_flushes(on, few());
  add_counts(out, ours);
  out.rate = ours.rate();
  device_controller again(device_controllers(pairs));
  out.counterpart = send_flushes_formally(again, few()).rate();
  return out;
}

nvme_outcome nvme_runs::measure_doorbells() const {
  auto const pairs = std::max<std::uint64_t>(shape().warps() / warps_per_pair, 1);
  command_run const run =
      run_commands(static_cast<std::uint32_t>(std::min<std::uint64_t>(pairs, most_pairs)));
  nvme_outcome out;
  add_counts(out, run);
  double const of_sq = per_doorbell(run.commands, run.doorbells);
  double const of_cq = per_doorbell(run.commands, run.head_doorbells);
  out.rate = std::min(of_sq, of_cq);
  out.points = {{"per SQ doorbell", of_sq}, {"per CQ doorbell", of_cq}};
  return out;
}

nvme_outcome nvme_runs::measure_pairs() const {
  nvme_outcome out;
  for (std::uint32_t const pairs : {8u, 16u, 32u, 40u, 64u, 128u}) {
    command_run const run = run_commands(pairs);
    add_counts(out, run);
    out.points.push_back({fmt::format("{} pairs, M/s", pairs), run.rate()});
    if (pairs == 40) out.rate = run.rate();
    if (pairs == 128) out.counterpart = run.rate();
  }
  return out;
}

command_run nvme_runs::run_drives(std::uint32_t drives) const {
  unsigned const cores = std::max(std::thread::hardware_concurrency(), 3u) - 2;
  nvme::drive_model const& m = nvme::optane;
  command_shape s;
  s.threads = shape().threads;
  auto const warps = drives * (setup_.emulated ? 2 : warps_per_drive);
  s.blocks = static_cast<unsigned>((warps + s.threads / 32 - 1) / (s.threads / 32));
  s.rounds = setup_.emulated ? 4 : 128;
  controllers_options o = controllers(pairs_per_drive);
  o.controllers = drives;
  o.threads = std::clamp(cores / drives, 1u, pairs_per_drive);
  o.blocks = drive_blocks_;
  o.model = nvme_controller::drive_rates{
      m.read_512, m.read_4k, m.write_512, m.write_4k,
      std::chrono::nanoseconds{static_cast<std::int64_t>(m.latency_us * 1000)}};
  o.data_bytes = std::uint64_t{s.blocks} * s.threads * read_block_bytes;
  bench_controllers on(o);
  return read_blocks(on, s);
}

nvme_outcome nvme_runs::measure_drives() {
  if (!drive_blocks_) {
    std::uint64_t const bytes = setup_.emulated ? 1 << 20 : 64 << 20;
    drive_blocks_ = std::make_shared<nvme_controller::memory_namespace>(bytes, read_block_bytes);
    fill_blocks(*drive_blocks_);
  }
  constexpr double specified = nvme::optane.read_512 / 1e6;
  nvme_outcome out;
  for (std::uint32_t const drives : {1u, 2u, 4u, 8u, 10u}) {
    command_run const run = run_drives(drives);
    add_counts(out, run);
    out.points.push_back({fmt::format("{} modelled, of the specification", drives),
                          run.rate() / (drives * specified)});
    if (drives == 4) out.rate = run.rate(), out.counterpart = drives * specified;
  }
  return out;
}

block_reads const& nvme_runs::reads() {
  if (!reads_) reads_ = std::make_unique<block_reads>(setup_.reads);
  return *reads_;
}

nvme_outcome nvme_runs::measure_rand_4k(bool check) {
  nvme_outcome out = outcome_of(reads().memory_4k(check));
  out.counterpart = measure_device_limits().pull_GBps;
  return out;
}

nvme_outcome nvme_runs::measure_rand_512(bool check) {
  nvme_outcome out = outcome_of(reads().memory_512(check));
  out.rate = millions_per_second(out.rate);
  out.counterpart = millions_per_second(reads().pull_512_GBps());
  return out;
}

nvme_outcome nvme_runs::measure_file_4k(bool check) {
  nvme_outcome out = outcome_of(reads().namespace_4k(check));
  out.counterpart = reads().file_4k(check).GBps();
  return out;
}

nvme_outcome nvme_runs::measure_cold_4k(bool check) {
  double const limit = reads().storage_GBps();
  nvme_outcome out = outcome_of(reads().direct_4k(check));
  out.counterpart = limit;
  return out;
}

}  // namespace gpufs::apps
