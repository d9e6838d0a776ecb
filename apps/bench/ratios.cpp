#include <apps/bench/array_rates.hpp>
#include <apps/bench/idle_mapping.hpp>
#include <apps/bench/named_rows.hpp>
#include <apps/bench/random_rates.hpp>
#include <apps/bench/ratios.hpp>
#include <apps/common/device_limits.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/storage_limits.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

namespace gpufs::apps {

namespace {

constexpr std::uint64_t range = 512, small_page = 4 << 10, large_page = 64 << 10;

/// One round's rates; what could not be measured is missing.
using round_rates = std::map<rate, double>;

class round_of_rates {
 public:
  round_of_rates(study& all, progress& shown, std::set<rate> const& wanted)
      : all_(all), shown_(shown), wanted_(wanted) {}

  /// Why storage could not be measured, if so.
  [[nodiscard]] std::string const& missing() const { return missing_; }

  round_rates measure() {
    round_rates r;
    measure_device(r);
    measure_warm(r);
    measure_random(r);
    measure_array(r);
    measure_cold(r);
    return r;
  }

 private:
  /// Measures if it is wanted.
  template <class Work>
  void take(round_rates& r, rate which, char const* what, Work const& work) {
    if (!wanted_.contains(which)) return;
    shown_.say(what);
    r[which] = work();
    shown_.advance(1);
  }

  void measure_device(round_rates& r) {
    if (!wanted_.contains(rate::pull) && !wanted_.contains(rate::pull_one)) return;
    std::optional<device_limits> limits;
    auto const get = [&]() -> device_limits const& {
      return limits ? *limits : limits.emplace(measure_device_limits());
    };
    take(r, rate::pull, "limits of the device", [&] { return get().pull_GBps; });
    take(r, rate::pull_one, "limits of the device", [&] { return get().pull_one_block_GBps; });
  }

  void measure_warm(round_rates& r) {
    std::uint64_t const fits = all_.fitting_cache(), ahead = all_.settings().prefetch_size,
                        bytes = all_.bytes();
    all_.prepare_with([] {});
    all_.file().load_into_page_cache(bytes);
    take(r, rate::ahead, "4 KiB pages, readahead",
         [&] { return all_.gpufs_GBps(all_.settings_at(small_page, ahead, fits), all_.plan()); });
    take(r, rate::pages_64k, "64 KiB pages",
         [&] { return all_.gpufs_GBps(all_.settings_at(large_page, 0, fits), all_.plan()); });
    take(r, rate::pages_4k, "4 KiB pages",
         [&] { return all_.gpufs_GBps(all_.settings_at(small_page, 0, fits), all_.plan()); });
    take(r, rate::original_4k, "our model of GPUfs, 4 KiB pages",
         [&] { return all_.original_GBps(all_.original_at(small_page, fits), all_.plan()); });
    take(r, rate::original_64k, "our model of GPUfs, 64 KiB pages",
         [&] { return all_.original_GBps(all_.original_at(large_page, fits), all_.plan()); });
    take(r, rate::one_block, "one block alone", [&] {
      return all_.gpufs_GBps(all_.settings_at(large_page, ahead, fits),
                             all_.plan(1, bytes, 1 << 20));
    });
    take(r, rate::over, "file of 4 times the cache", [&] {
      config c = all_.settings_at(small_page, ahead, bytes / 4);
      c.policy = replacement::lra;
      return all_.gpufs_GBps(c, all_.plan());
    });
    take(r, rate::cpuio, "hand-written, 1 thread", [&] { return all_.cpuio_GBps(); });
    take(r, rate::pipelined, "hand-written, pipelines", [&] { return all_.best_pipelined_GBps(); });
  }

  void measure_random(round_rates& r) {
    random_rates const random(all_);
    bool const check = all_.checking();
    random_rates::reading const page{.check = check}, warp{.by_warp = true, .check = check},
        zipf{.theta = 0.99, .check = check}, small{.range = range, .by_warp = true, .check = check};
    take(r, rate::random_4k, "random 4 KiB", [&] { return random.gread_GBps(page); });
    take(r, rate::random_4k_warp, "random 4 KiB, by warps",
         [&] { return random.gread_GBps(warp); });
    take(r, rate::pull_4k, "random 4 KiB of pinned memory", [&] { return random.pull_GBps(page); });
    take(r, rate::random_zipf, "random 4 KiB, Zipf", [&] { return random.gread_GBps(zipf); });
    take(r, rate::pull_zipf, "random 4 KiB of pinned memory, Zipf",
         [&] { return random.pull_GBps(zipf); });
    take(r, rate::random_512, "random 512 bytes", [&] { return random.gread_GBps(small); });
    take(r, rate::pull_512, "random 512 bytes of pinned memory",
         [&] { return random.pull_GBps(small); });
    take(r, rate::random_cold, "random 4 KiB, cold file",
         [&] { return random.gread_GBps({.cold = true, .check = check}); });
  }

  void measure_array(round_rates& r) {
    array_rates arrays(all_);
    take(r, rate::array_512, "random 512 bytes by array",
         [&] { return arrays.ranges_GBps("array512", range); });
    take(r, rate::array_512_4k, "random 512 bytes by array, 4 KiB pages",
         [&] { return arrays.ranges_GBps("array512_4k", small_page); });
    take(r, rate::plain_stream, "plain stream",
         [&] { return arrays.hot_GBps(hot_way::plain_stream); });
    take(r, rate::array_stream, "stream by array",
         [&] { return arrays.hot_GBps(hot_way::array_stream); });
    take(r, rate::ptr_stream, "stream by held_ptr",
         [&] { return arrays.hot_GBps(hot_way::ptr_stream); });
    take(r, rate::plain_lookups, "plain look-ups",
         [&] { return arrays.hot_GBps(hot_way::plain_lookups); });
    take(r, rate::array_lookups, "look-ups by array",
         [&] { return arrays.hot_GBps(hot_way::array_lookups); });
  }

  void measure_cold(round_rates& r) {
    all_.prepare_with([this] { all_.file().drop_from_page_cache(); });
    take(r, rate::cold, "cold file", [&] {
      return all_.gpufs_GBps(
          all_.settings_at(small_page, all_.settings().prefetch_size, all_.fitting_cache()),
          all_.plan());
    });
    auto const limits = {rate::storage, rate::storage_random};
    auto const wanted = std::ranges::count_if(limits, [&](rate x) { return wanted_.contains(x); });
    if (wanted == 0) return;
    shown_.say("storage");
    all_.file().drop_from_page_cache();
    storage_limits const s = measure_storage_limits(all_.file(), all_.bytes(), 1);
    if (s.sequential_GBps) r[rate::storage] = *s.sequential_GBps;
    if (s.random_iops) r[rate::storage_random] = *s.random_iops * small_page / 1e9;
    missing_ = s.why_not;
    shown_.advance(static_cast<std::uint64_t>(wanted));
  }

  study& all_;
  progress& shown_;
  std::set<rate> const& wanted_;
  std::string missing_;
};

std::vector<ratio_row> chosen(std::string const& set, std::vector<std::string> const& only) {
  auto const& all = ratio_rows();
  if (!only.empty()) return named_rows(all, only);
  std::vector<ratio_row> rows;
  std::ranges::copy_if(all, std::back_inserter(rows),
                       [&](ratio_row const& row) { return set == row.set; });
  return rows;
}

std::uint64_t default_bytes(std::string const& set, bool emulated) {
  if (set == "array") return emulated ? 4 << 20 : 4ull << 30;
  return emulated ? 16 << 20 : 2ull << 30;
}

}  // namespace

std::vector<ratio_row> const& ratio_rows() {
  // Targets and stretch targets for 120 x 512 on an H200. The OS page cache is warm except for the
  // cold rows.
  static std::vector<ratio_row> const rows = {
      {"sequential", "pull", "4K pages + readahead / pull limit", rate::ahead, rate::pull, 0.95,
       0.99},
      {"sequential", "pages", "4K pages + readahead / 64K pages without", rate::ahead,
       rate::pages_64k, 0.97, 1.0},
      {"sequential", "original", "4K pages + readahead / our model of GPUfs, 4K pages", rate::ahead,
       rate::original_4k, 20, 50},
      {"sequential", "original64", "4K pages + readahead / our model of GPUfs, 64K pages",
       rate::ahead, rate::original_64k, 0, 0},
      {"sequential", "readahead", "4K pages + readahead / 4K pages without", rate::ahead,
       rate::pages_4k, 0, 0},
      {"sequential", "cpuio", "4K pages + readahead / hand-written, 1 thread", rate::ahead,
       rate::cpuio, 8, 12},
      {"sequential", "pipelined", "4K pages + readahead / hand-written, best pipeline", rate::ahead,
       rate::pipelined, 0.92, 1.0},
      {"sequential", "oneblock", "one block alone, 64K pages + readahead / what it can pull",
       rate::one_block, rate::pull_one, 0.6, 0.9},
      {"sequential", "fourfold", "file of 4 times the cache, LRA / file that fits", rate::over,
       rate::ahead, 0.95, 1.0},
      {"sequential", "cold", "cold file / storage, io_uring with O_DIRECT", rate::cold,
       rate::storage, 0.90, 0.97},
      {"random", "rand", "random 4K gread, each warp its own / raw pull of the same pages",
       rate::random_4k_warp, rate::pull_4k, 0.90, 0.98},
      {"random", "randblock", "the same, whole blocks / raw pull", rate::random_4k, rate::pull_4k,
       0, 0},
      {"random", "zipf", "random 4K gread, Zipf 0.99 / raw pull", rate::random_zipf,
       rate::pull_zipf, 0, 0},
      {"random", "rand512", "random 512 B gread / raw pull", rate::random_512, rate::pull_512, 0,
       0},
      {"random", "randcold", "random 4K, cold / storage, O_DIRECT random 4K", rate::random_cold,
       rate::storage_random, 0.90, 0.97},
      {"array", "arraystream",
       "array a[i], u64 stream by pages, all in the cache / plain kernel over the same bytes",
       rate::array_stream, rate::plain_stream, 0.40, 0.60},
      {"array", "ptrstream", "held_ptr, u64 stream by pages, all in the cache / plain kernel",
       rate::ptr_stream, rate::plain_stream, 0.70, 0.95},
      {"array", "arraylookup",
       "array, random u64 lookups, all in the cache / plain pointer lookups", rate::array_lookups,
       rate::plain_lookups, 0.20, 0.50},
      {"array", "array512", "random 512 B by array / raw pull (15 M/s are 7.7 GB/s)",
       rate::array_512, rate::pull_512, 0, 0},
      {"array", "array512_4k", "the same, 4K pages / raw pull", rate::array_512_4k, rate::pull_512,
       0, 0},
  };
  return rows;
}

void add_options(CLI::App& command, ratio_options& o) {
  add_options(command, static_cast<study_options&>(o));
  command
      .add_option("--size", o.size,
                  "bytes to read; default: all of --file, else 2G, emulated 16M; --set array: 4G, "
                  "emulated 4M")
      ->check(bench_file::check_size);
  command.add_option("--runs", o.runs,
                     "rounds; the median of each round's ratio counts; default 5");
  command
      .add_option("--set", o.set,
                  "sequential: streams of whole blocks; random: ranges of 4 KiB and of 512 bytes; "
                  "array: elements by array and "
                  "held_ptr")
      ->check(CLI::IsMember({"sequential", "random", "array"}))
      ->capture_default_str();
  command.add_option("--only", o.only, "rows, by their short names, of any set");
  command.add_flag("--idle-mapping", o.has_idle_mapping, idle_mapping_help);
  command.add_flag("--json", o.json, "print one JSON object");
}

ratios measure_ratios(ratio_options const& o, config const& settings) {
  auto const rows = chosen(o.set, o.only);
  bool const emulated = device_to_run_on().kind == "emulated";
  idle_mapping const beside(o.has_idle_mapping);
  std::uint64_t bytes = size_option("--size", o.size, 0, ~0ull);
  if (bytes == 0 && o.file.empty()) bytes = default_bytes(o.set, emulated);
  bench_file const file(o.file, o.folder, bytes, o.seed);
  study all(o, settings, *file, bytes == 0 ? file->size() : bytes);

  std::set<rate> wanted;
  for (auto const& row : rows) wanted.insert({row.over, row.under});
  ratios r{file.name(), all.bytes(), {}, 0, {}};
  for (auto const& row : rows) r.rows.push_back({row, {}, {}, {}, {}});
  progress shown("", static_cast<std::uint64_t>(o.runs) * wanted.size());
  round_of_rates next(all, shown, wanted);
  for (std::int64_t round = 0; round < o.runs; ++round) {
    all.check_bytes(round == 0);
    round_rates const rates = next.measure();
    for (auto& row : r.rows) {
      auto const over = rates.find(row.row.over), under = rates.find(row.row.under);
      if (over == rates.end() || under == rates.end()) {
        row.missing = next.missing();
        continue;
      }
      row.over.push_back(over->second);
      row.under.push_back(under->second);
      row.ratios.push_back(over->second / under->second);
    }
  }
  r.wanted_bytes = all.wanted_bytes();
  r.counters = all.counters();
  return r;
}

}  // namespace gpufs::apps
