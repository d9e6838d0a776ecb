#include <gpufs/filesystem.hpp>

#include <apps/bench/host_pieces.hpp>
#include <apps/bench/pass.hpp>
#include <apps/bench/pattern_runs.hpp>
#include <apps/bench/random_pull.hpp>
#include <apps/bench/write.hpp>
#include <apps/common/baselines.hpp>
#include <apps/common/device_limits.hpp>
#include <apps/common/median.hpp>
#include <apps/common/memory_folder.hpp>
#include <apps/common/program.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/worker_threads.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string_view>

namespace gpufs::apps {

namespace {

constexpr unsigned host_threads = 16;
constexpr double least_hit_seconds = 0.08;
constexpr std::uint64_t timed_together = 16;  // requests: the device's clock may be coarse
constexpr std::uint64_t small_file_bytes = 8 << 10;

/// A rate in the unit of a row. `bytes` and `seconds` are of all `requests`.
double in_unit(pattern_row const& row, std::uint64_t bytes, std::uint64_t requests,
               double seconds) {
  std::string_view const unit = row.unit;
  if (unit == "GB/s") return gigabytes_per_second(bytes, seconds);
  double const each = static_cast<double>(requests) / seconds;
  return unit == "M/s" ? each / 1e6 : each / 1e3;
}

std::uint64_t requests_in(access_plan const& plan) {
  std::uint64_t all = 0;
  for (std::uint64_t b = 0; b < plan.blocks; ++b) all += plan.requests_of(b);
  return all;
}

void require_bytes_of_pread(file_reader& reader, filesystem& fs, int fd, host_file const& file,
                            access_plan const& plan) {
  auto const sums = reader.checksums(fs.ref(), fd);
  require_success(reader.take_failure());
  comparison const c = compare_with_pread(file, plan, sums);
  if (!c.mismatch.empty()) throw std::runtime_error(c.mismatch);
}

access_plan random_pieces(access_plan const& like, std::uint64_t seed) {
  access_plan p = like;
  p.pattern = access_pattern::random;
  p.draws = like.numbers();
  p.seed = seed;
  return p;
}

}  // namespace

/// The array rows of a round: a study, and its file in the cache.
struct pattern_runs::hot_arrays {
  study all;
  array_rates rates;

  hot_arrays(study_options const& o, pattern_setup const& s, std::uint64_t bytes)
      : all(o, s.settings, s.file, bytes), rates(all) {}
};

pattern_runs::pattern_runs(pattern_setup const& setup) : setup_(setup) {}

pattern_runs::~pattern_runs() = default;

void pattern_runs::begin_round(bool check) {
  check_ = check;
  hot_.reset();
  stream_rate_.reset();
  setup_.file.load_into_page_cache(std::min(setup_.largest, setup_.file.size()));
}

pattern_outcome pattern_runs::measure(pattern_row const& row) {
  bool const hot = row.row == access_row::hot_stream || row.row == access_row::hot_random;
  if (!hot) hot_.reset();
  switch (row.row) {
    case access_row::floats: return draw_floats(row);
    case access_row::files: return read_files(row);
    case access_row::latency:
    case access_row::hit_latency: return time_latency(row);
    case access_row::ring: return turn_ring(row);
    case access_row::hot_stream:
    case access_row::hot_random: return sum_hot(row);
    case access_row::write:
    case access_row::write_tmpfs: return write_stream(row);
    case access_row::hits: return read_hits(row);
    default: return read_pass(row);
  }
}

std::uint64_t pattern_runs::bytes_of(pattern_row const& row) const {
  return scaled_bytes(row, setup_.largest);
}

/// The default settings, or those of the command line; and the cache that the row says.
config pattern_runs::settings_of(pattern_row const& row, std::uint64_t readers) const {
  config c = setup_.settings;
  std::uint64_t const bytes = bytes_of(row);
  std::uint64_t cache = 0;
  if (row.row == access_row::zipf) cache = bytes / 4;
  if (row.row == access_row::floats) cache = bytes / 2;
  if (row.row == access_row::hits)
    cache = bytes + bytes / 8 + (std::uint64_t{setup_.shape.blocks} << 20);
  if (cache == 0) return c;
  c.cache_size = std::max(cache, c.page_size * std::max<std::uint64_t>(2 * readers, 8)) /
                 c.page_size * c.page_size;
  return c;
}

void pattern_runs::count_touched(pattern_row const& row, access_plan const& plan,
                                 pattern_outcome& out) {
  auto const known = touched_.find(row.row);
  out.touched = known != touched_.end() ? known->second
                                        : touched_.emplace(row.row, touched_by(plan)).first->second;
}

pinned_buffer<std::byte> const& pattern_runs::pinned() {
  if (pinned_.size() == 0) {
    pinned_ = pinned_buffer<std::byte>(setup_.pinned_bytes);
    pinned_.fill_zero();
  }
  return pinned_;
}

double pattern_runs::equivalent_of(pattern_row const& row, row_plan const& r) {
  std::uint64_t const payload = r.plan.payload();
  auto const pull = [&](access_plan const& plan) {
    double const GBps =
        measure_pull(pinned().data(), std::min(pinned().size(), r.plan.bytes), plan);
    return in_unit(row, payload, requests_in(r.plan), static_cast<double>(payload) / GBps / 1e9);
  };
  switch (row.row) {
    case access_row::stream:
      return measure_best_pipelined_GBps({{&setup_.file, r.plan.bytes}}, [] {});
    case access_row::columns:
    case access_row::zipf: return measure_piece_copies_GBps(setup_.file, r.plan, host_threads);
    case access_row::records: {
      auto const& all = pattern_rows();
      if (!stream_rate_) {
        auto const& stream = *std::ranges::find(all, access_row::stream, &pattern_row::row);
        row_plan const s = plan_of(stream.row, bytes_of(stream), setup_.shape, setup_.seed);
        pass_result const done =
            read_once(setup_.file, settings_of(stream, s.plan.blocks), s.plan, s.shape, false);
        stream_rate_ = gigabytes_per_second(s.plan.payload(), done.seconds);
      }
      return *stream_rate_;
    }
    case access_row::one_block: return measure_device_limits().pull_one_block_GBps;
    case access_row::pieces: return pull(random_pieces(r.plan, setup_.seed));
    default: return pull(r.plan);
  }
}

pattern_outcome pattern_runs::read_pass(pattern_row const& row) {
  row_plan const r = plan_of(row.row, bytes_of(row), setup_.shape, setup_.seed);
  pass_result const done =
      read_once(setup_.file, settings_of(row, r.plan.blocks), r.plan, r.shape, check_);
  pattern_outcome out;
  out.wanted = r.plan.payload();
  out.rate = in_unit(row, out.wanted, requests_in(r.plan), done.seconds);
  out.counters = done.counters;
  if (row.row == access_row::stream) stream_rate_ = out.rate;
  out.equivalent = equivalent_of(row, r);
  count_touched(row, r.plan, out);
  return out;
}

pattern_outcome pattern_runs::read_hits(pattern_row const& row) {
  row_plan const r = plan_of(row.row, bytes_of(row), setup_.shape, setup_.seed);
  pattern_outcome out;
  {
    file_reader reader(r.plan, r.shape);
    filesystem fs(settings_of(row, r.plan.blocks));
    opened const f(fs, setup_.file);
    reader.run(fs.ref(), f.fd(), 1);
    require_success(reader.take_failure());
    double const once = std::max(reader.run(fs.ref(), f.fd(), 1), 1e-6);
    auto const repeat =
        static_cast<std::uint64_t>(std::clamp(std::ceil(least_hit_seconds / once), 1.0, 1e6));
    statistics const before = fs.stats();
    double const seconds = reader.run(fs.ref(), f.fd(), repeat);
    require_success(reader.take_failure());
    out.counters = counters_of_run(before, fs.stats());
    out.wanted = r.plan.payload() * repeat;
    out.rate = gigabytes_per_second(out.wanted, seconds);
    if (check_) require_bytes_of_pread(reader, fs, f.fd(), setup_.file, r.plan);
  }
  out.equivalent = measure_copy_kernel_GBps(r.plan.bytes, least_hit_seconds);
  count_touched(row, r.plan, out);
  return out;
}

pattern_outcome pattern_runs::time_latency(pattern_row const& row) {
  row_plan const r = plan_of(row.row, bytes_of(row), setup_.shape, setup_.seed);
  bool const hit = row.row == access_row::hit_latency;
  pattern_outcome out;
  {
    filesystem fs(settings_of(row, 1));
    opened const f(fs, setup_.file);
    auto const run = [&] {
      return time_requests(fs.ref(), f.fd(), r.plan, r.shape.threads, timed_together);
    };
    if (hit) run();
    statistics const before = fs.stats();
    out.rate = median(run()) * 1e6;
    out.counters = counters_of_run(before, fs.stats());
    file_reader reader(r.plan, r.shape);
    if (check_) require_bytes_of_pread(reader, fs, f.fd(), setup_.file, r.plan);
  }
  out.wanted = r.plan.numbers() / timed_together * timed_together * r.plan.request;
  if (!hit) out.equivalent = measure_copy_and_wait_us(setup_.file, r.plan);
  count_touched(row, r.plan, out);
  return out;
}

std::uint64_t pattern_runs::float_sum(access_plan const& plan) const {
  std::atomic<std::uint64_t> next{0}, sum{0};
  run_on_threads(io_threads(), [&](unsigned) {
    constexpr std::uint64_t together = 1024;
    std::uint64_t mine = 0;
    // Counters: they order nothing.
    for (std::uint64_t i; (i = next.fetch_add(together, std::memory_order_relaxed)) < plan.draws;) {
      for (std::uint64_t k = i; k < std::min(i + together, plan.draws); ++k) {
        std::uint32_t bits = 0;
        setup_.file.read(&bits, sizeof bits, plan.at(0, k).offset);
        mine += float_term(bits, k);
      }
    }
    sum.fetch_add(mine, std::memory_order_relaxed);
  });
  return sum;
}

pattern_outcome pattern_runs::draw_floats(pattern_row const& row) {
  constexpr std::uint64_t bytes_per_draw = 512;
  access_plan plan;
  plan.pattern = access_pattern::random;
  plan.bytes = bytes_of(row);
  plan.request = sizeof(float);
  plan.draws = plan.bytes / bytes_per_draw;
  plan.seed = setup_.seed;
  float_draws const what{plan.bytes / sizeof(float), plan.draws, plan.seed};
  pattern_outcome out;
  {
    filesystem fs(settings_of(row, setup_.shape.blocks));
    opened const f(fs, setup_.file);
    statistics const before = fs.stats();
    float_result const got = read_floats(fs.ref(), f.fd(), what);
    out.counters = counters_of_run(before, fs.stats());
    if (got.error != 0) throw std::runtime_error("array: " + error_text(got.error));
    if (check_ && !float_sum_) float_sum_ = float_sum(plan);
    if (float_sum_ && got.sum != *float_sum_)
      throw std::runtime_error("array: the elements are not those of the file");
    out.rate = in_unit(row, plan.payload(), plan.draws, got.seconds);
  }
  out.wanted = plan.payload();
  auto const* const memory = reinterpret_cast<float const*>(pinned().data());
  float_draws plain = what;
  plain.elements = std::min(what.elements, pinned().size() / sizeof(float));
  out.equivalent = in_unit(row, plan.payload(), plan.draws, read_floats(memory, plain).seconds);
  count_touched(row, plan, out);
  return out;
}

pattern_outcome pattern_runs::read_files(pattern_row const& row) {
  constexpr std::uint64_t most_files = 100'000, fewest_files = 64;
  if (!files_) {
    auto const share = static_cast<double>(setup_.largest) / static_cast<double>(largest_row_bytes);
    auto const count = static_cast<std::uint64_t>(share * static_cast<double>(most_files));
    files_ = std::make_unique<small_files>(
        setup_.folder, std::clamp(count, fewest_files, most_files), small_file_bytes);
  }
  bench_shape shape = setup_.shape;
  shape.by_warp = true;
  shape.threads = std::min(shape.threads, most_threads_by_warp);
  pattern_outcome out;
  {
    small_file_reader reader(*files_, shape);
    filesystem fs(settings_of(row, shape.readers()));
    statistics const before = fs.stats();
    double const seconds = reader.run(fs.ref());
    out.counters = counters_of_run(before, fs.stats());
    out.rate = in_unit(row, 0, files_->count(), seconds);
    if (std::uint64_t const wrong = check_ ? reader.count_wrong(fs.ref()) : 0; wrong != 0)
      throw std::runtime_error(fmt::format("{} small files were read wrong", wrong));
  }
  out.equivalent = in_unit(row, 0, files_->count(), files_->read_by_host(host_threads));
  out.wanted = files_->count() * files_->bytes();
  out.touched = {out.wanted, out.wanted};
  return out;
}

pattern_outcome pattern_runs::turn_ring(pattern_row const& row) {
  bool const emulated = current_device().kind == "emulated";
  std::uint64_t const samples = emulated ? 16 : 1250;
  filesystem fs(settings_of(row, 1));
  auto const run = [&](std::uint64_t count) {
    rpc_times const t = run_rpc(fs.ref(), {1, 32}, count, timed_together);
    if (t.error != 0)
      throw std::runtime_error("a round trip to the daemon: " + error_text(t.error));
    return median(t.seconds_per_round) * 1e6;
  };
  run(std::min<std::uint64_t>(samples, 100));  // does not count: wakes the daemon
  pattern_outcome out;
  out.rate = run(samples);
  return out;
}

pattern_outcome pattern_runs::sum_hot(pattern_row const& row) {
  if (!hot_) {
    study_options o;
    o.blocks = setup_.shape.blocks;
    o.threads = setup_.shape.threads;
    hot_ = std::make_unique<hot_arrays>(o, setup_, bytes_of(row));
  }
  hot_->all.check_bytes(check_);
  bool const stream = row.row == access_row::hot_stream;
  pattern_outcome out;
  // An array_rates throws if a page was not in the cache: nothing comes from the host.
  out.rate = hot_->rates.hot_GBps(stream ? hot_way::array_stream : hot_way::array_lookups);
  out.equivalent = hot_->rates.hot_GBps(stream ? hot_way::plain_stream : hot_way::plain_lookups);
  return out;
}

pattern_outcome pattern_runs::write_stream(pattern_row const& row) {
  bench_options o;
  o.pattern = "write";
  o.folder = row.row == access_row::write ? setup_.folder : setup_.tmpfs;
  if (row.row == access_row::write_tmpfs) require_in_memory("--tmpfs", o.folder);
  o.size = std::to_string(bytes_of(row));
  o.blocks = setup_.shape.blocks;
  o.threads = std::min(setup_.shape.threads, 512u);
  o.seed = setup_.seed;
  o.runs = 1;
  o.no_verify = !check_;
  o.quiet = true;
  write_result const done = run_write_bench(o, settings_of(row, setup_.shape.blocks));
  if (check_ && !done.verified) throw std::runtime_error(done.mismatch);
  pattern_outcome out;
  out.wanted = done.plan.bytes();
  out.rate = gigabytes_per_second(out.wanted, done.seconds.front());
  out.equivalent = gigabytes_per_second(out.wanted, done.host_seconds.front());
  out.counters = done.counters;
  out.touched = {out.wanted, out.wanted};
  return out;
}

}  // namespace gpufs::apps
