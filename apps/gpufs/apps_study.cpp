#include <apps/gpufs/apps_study.hpp>

#include <gpufs/device.hpp>

#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/storage_limits.hpp>
#include <apps/gpufs/apps_table.hpp>
#include <apps/gpufs/chart.hpp>
#include <apps/harness/session.hpp>
#include <apps/harness/verify.hpp>
#include <apps/ports/all.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <system_error>

namespace gpufs::apps {

namespace {

/// One thing to measure of an application.
struct variant {
  std::string name;
  bool cold = false;
  std::function<std::optional<app_run>(session&)> measure;  ///< bytes and times; nothing where they cannot be had
};

using way_to_run = std::function<run_times(session&)>;

app_run run_of(session const& s, run_times const& t) { return {{}, {}, s.bytes_read(), t.io_seconds, t.seconds}; }

/// A variant that runs the application.
variant runs(std::string name, bool cold, way_to_run way) {
  return {std::move(name), cold, [way = std::move(way)](session& s) { return run_of(s, way(s)); }};
}

std::uint64_t whole_mebibytes(std::uint64_t bytes) { return std::max<std::uint64_t>((bytes + (1 << 20) - 1) >> 20, 4) << 20; }

/// The caches of the paper: 2 GB, and 500 MB (256 MB for 3DCONV); in proportion for smaller inputs.
struct cache_sizes {
  std::uint64_t large, small;
  cache_sizes(apps_options const& o, session const& s, std::string_view app) {
    bool const paper = o.size == "paper";
    large = paper ? 2ull << 30 : whole_mebibytes(2 * s.bytes_read());
    small = paper ? (app == "3dconv" ? 256ull << 20 : 500ull << 20) : std::min(large, whole_mebibytes(s.bytes_read() / 2));
  }
};

/// Reads with gpufs, from an empty cache.
way_to_run with_gpufs(config c, io_shape shape, std::uint64_t page, std::uint64_t prefetch, std::uint64_t cache,
                      replacement policy) {
  c.page_size = page;
  c.prefetch_size = prefetch;
  c.cache_size = cache;
  c.policy = policy;
  return [c, shape](session& s) { return s.run(*make_gread_loader(c, shape)); };
}

/// Reads with GPUfs as it was, pages of 4 KiB.
way_to_run with_original(io_shape shape, std::uint64_t prefetch, std::uint64_t cache) {
  original::options o;
  o.page_size = 4096;
  o.readahead = prefetch;
  o.cache_size = cache;
  return [shape, o](session& s) { return s.run(*make_original_loader(o, shape)); };
}

/// What the storage can do with the application's files, each read once past the OS page cache, but for those too short for one read; nothing where
/// that is refused.
std::optional<app_run> storage_run(session const& s) {
  app_run all;
  for (auto const& f : s.data().files()) {
    if (f.file.size() < smallest_read) continue;
    auto const rate = read_past_page_cache(f.file);
    if (!rate) return std::nullopt;
    all.bytes += f.file.size();
    all.seconds += static_cast<double>(f.file.size()) / *rate;
  }
  if (all.bytes == 0) return std::nullopt;
  all.io_seconds = all.seconds;
  return all;
}

std::vector<variant> variants_of(apps_options const& o, config const& c, io_shape shape, session const& s,
                                 port_description const& what) {
  constexpr std::uint64_t page = 4096, ahead = 64 << 10;
  cache_sizes const cache(o, s, what.name);
  auto const by_hand = [](bool pinned) {
    return [pinned](session& of) { return of.run(*make_cpuio_loader(of.largest_file(), pinned)); };
  };
  auto const pipelined = [](session& of) { return of.run(*make_pipelined_loader()); };
  auto const lra = replacement::lra;
  auto const large_pages = with_gpufs(c, shape, 64 << 10, 0, cache.large, lra);
  auto const fixed = with_gpufs(c, shape, page, ahead, cache.large, lra);
  auto const automatic = with_gpufs(c, shape, page, prefetch_automatic, cache.large, lra);
  std::vector<variant> all{
      runs("cpuio", false, by_hand(false)),
      runs("pipelined", false, pipelined),
      runs("64K", false, large_pages),
      runs("4K+64K", false, fixed),
      runs("original-4K", false, with_original(shape, 0, cache.large)),
      runs("small-lra", false, with_gpufs(c, shape, page, ahead, cache.small, lra)),
      runs("small-fifo", false, with_gpufs(c, shape, page, ahead, cache.small, replacement::fifo)),
      runs("small-original-4K", false, with_original(shape, 0, cache.small)),
      runs("small-original-4K+64K", false, with_original(shape, ahead, cache.small)),
      runs("cpuio-cold", true, by_hand(false)),
      runs("64K-cold", true, large_pages),
      runs("4K+64K-cold", true, fixed),
      runs("4K+auto-cold", true, automatic),
      {"storage-cold", true, [](session& of) { return storage_run(of); }},
  };
  if (!o.full && o.variants.empty()) return all;
  all.push_back(runs("cpuio-pinned", false, by_hand(true)));
  all.push_back(runs("pipelined-cold", true, pipelined));
  all.push_back(runs("original-4K-cold", true, with_original(shape, 0, cache.large)));
  all.push_back(runs("4K", false, with_gpufs(c, shape, page, 0, cache.large, lra)));
  all.push_back(runs("4K+auto", false, automatic));
  all.push_back(runs("small-clock", false, with_gpufs(c, shape, page, ahead, cache.small, replacement::clock)));
  config fused = c;
  fused.page_size = page;
  fused.prefetch_size = ahead;
  fused.cache_size = cache.large;
  all.push_back({"fused", false, [fused, shape, can = what.fused](session& of) -> std::optional<app_run> {
                   if (!can) return std::nullopt;
                   gread_files files(fused);
                   return run_of(of, of.run_fused(files, shape, false));
                 }});
  return all;
}

/// The places in `all` of those that --variants names; without it of all. Throws usage_error.
std::vector<std::size_t> chosen_variants(apps_options const& o, std::vector<variant> const& all) {
  std::vector<std::size_t> places;
  if (o.variants.empty()) {
    places.resize(all.size());
    std::iota(places.begin(), places.end(), 0);
  }
  for (auto const& name : o.variants) {
    auto const found = std::ranges::find(all, name, &variant::name);
    if (found == all.end()) {
      std::string known;
      for (auto const& v : all) known += " " + v.name;
      throw usage_error(fmt::format("--variants={}: must be among{}", name, known));
    }
    places.push_back(static_cast<std::size_t>(found - all.begin()));
  }
  return places;
}

/// In which order a run measures: the warm variants, then the cold ones, each in another order every time. What one leaves behind, be it in the disk, shall
/// not always meet the same next one.
void shuffle(std::vector<std::size_t>& places, std::vector<variant> const& all, std::int64_t run) {
  std::mt19937_64 random(static_cast<std::uint64_t>(run));
  std::ranges::sort(places);
  std::ranges::shuffle(places, random);
  std::ranges::stable_partition(places, [&](std::size_t i) { return !all[i].cold; });
}

/// All runs of one application, in turns. Its files are gone when it returns.
std::vector<app_run> measure(apps_options const& o, config const& c, port_description const& what, std::string& wrong) {
  problem p;
  p.size = o.size == "smoke" ? size_class::smoke : o.size == "medium" ? size_class::medium : size_class::paper;
  for (auto const& e : what.extras) p.extras[e.name] = e.value;
  session s(what, p, o.folder);
  bool const emulated = device_to_run_on().kind == "emulated";
  io_shape const shape{what.blocks, o.threads != 0 ? static_cast<unsigned>(o.threads) : emulated ? 64 : 512, 64 << 10};
  auto const all = variants_of(o, c, shape, s, what);
  auto places = chosen_variants(o, all);
  progress shown(std::string(what.name), places.size() * static_cast<std::uint64_t>(o.runs) + 1);
  std::vector<std::vector<app_run>> measured(all.size());
  for (std::int64_t r = 0; r < o.runs; ++r) {
    shuffle(places, all, r);
    for (std::size_t const i : places) {
      variant const& v = all[i];
      shown.say(fmt::format("{}: {}, run {} of {}", what.name, v.name, r + 1, o.runs));
      if (v.cold) {
        s.drop_from_page_cache();
      } else {
        s.load_into_page_cache();
      }
      if (auto run = v.measure(s)) {
        run->app = what.name;
        run->variant = v.name;
        measured[i].push_back(*run);
      }
      shown.advance(1);
    }
  }
  if (!o.no_verify) {
    shown.say(fmt::format("{}: checking", what.name));
    std::ranges::find(all, "4K+64K", &variant::name)->measure(s);
    verdict const v = verify(s);
    if (!v.good()) wrong = v.text();
  }
  std::vector<app_run> all_runs;
  for (auto const& of_variant : measured) all_runs.insert(all_runs.end(), of_variant.begin(), of_variant.end());
  return all_runs;
}

std::string results_of(apps_options const& o, port_description const& what) {
  return fmt::format("{}/{}-{}.csv", o.out, what.name, o.size);
}

void write_text(std::string const& path, std::string const& text) {
  std::ofstream out(path);
  out << text;
  if (!out.flush()) throw std::system_error(errno, std::generic_category(), path);
}

/// --out/apps-SIZE.md, and the figures as figure_N-SIZE.csv and .png, from all applications that have been measured.
void write_summary(apps_options const& o) {
  std::vector<app_run> runs;
  for (auto const* what : all_ports()) {
    if (!std::filesystem::exists(results_of(o, *what))) continue;
    auto const more = read_runs(results_of(o, *what));
    runs.insert(runs.end(), more.begin(), more.end());
  }
  std::string const table = to_markdown(runs);
  write_text(fmt::format("{}/apps-{}.md", o.out, o.size), table);
  fmt::print("{}", table);
  std::string no_chart;
  for (int const figure : {11, 12, 13, 14}) {
    std::string const name = fmt::format("{}/figure_{}-{}", o.out, figure, o.size);
    write_text(name + ".csv", figure_csv(runs, figure));
    if (!o.no_charts && no_chart.empty()) no_chart = draw_chart(name + ".csv", name + ".png");
  }
  if (!no_chart.empty()) fmt::print(stderr, "gpufs: no charts: {}\n", no_chart);
}

std::vector<port_description const*> chosen(apps_options const& o) {
  auto const all = all_ports();
  if (o.only.empty()) return all;
  std::vector<port_description const*> some;
  for (auto const& name : o.only) {
    auto const found = std::ranges::find(all, name, [](auto const* p) { return p->name; });
    if (found == all.end()) {
      std::string known;
      for (auto const* p : all) known += fmt::format(" {}", p->name);
      throw usage_error(fmt::format("--only={}: must be among{}", name, known));
    }
    some.push_back(*found);
  }
  return some;
}

}  // namespace

void add_options(CLI::App& command, apps_options& o) {
  command.fallthrough();
  command.add_option("--size", o.size, "size of the inputs: paper is that of paper 001, Table 1")
      ->check(CLI::IsMember({"smoke", "medium", "paper"}))
      ->capture_default_str();
  command.add_option("--out", o.out, "folder for results; what is there is not measured again")->required();
  command.add_option("--only", o.only, "these applications alone");
  command.add_option("--variants", o.variants, "these variants alone (docs/applications.md names them)");
  command.add_option("--dir", o.folder, "keep the input files in this folder; default: nameless ones, gone after use");
  command.add_option("--runs", o.runs, "runs of each variant, in turns; the medians count")->capture_default_str();
  command.add_option("--threads", o.threads, "threads of each block of the I/O kernel; default 512, emulated 64");
  command.add_flag("--full", o.full, "also pinned memory, no and automatic readahead, clock, fused, more of them cold");
  command.add_flag("--again", o.again, "measure again what has been measured");
  command.add_flag("--no-verify", o.no_verify, "do not check bytes and outputs");
  command.add_flag("--no-charts", o.no_charts, "write no PNG");
}

int study_apps(apps_options const& o, config const& settings) {
  validate(settings);
  check_option("--runs", o.runs, 1, 1000);
  if (o.threads != 0) check_threads(o.threads);
  if (o.threads > 512) throw usage_error(fmt::format("--threads={}: must be at most 512", o.threads));
  auto const apps = chosen(o);
  std::error_code error;
  std::filesystem::create_directories(o.out, error);
  if (error) throw usage_error(fmt::format("--out={}: {}", o.out, error.message()));
  int status = 0;
  for (auto const* what : apps) {
    std::string const path = results_of(o, *what);
    if (std::filesystem::exists(path) && !o.again) {
      fmt::print(stderr, "{}: taken from {}\n", what->name, path);
      continue;
    }
    std::string wrong;
    auto const runs = measure(o, settings, *what, wrong);
    if (wrong.empty()) {
      write_runs(runs, path);
      fmt::print(stderr, "{}: measured{}\n", what->name, o.no_verify ? "" : ", verified");
    } else {
      fmt::print(stderr, "{}: WRONG, results not kept: {}\n", what->name, wrong);
      status = status_failed;
    }
  }
  write_summary(o);
  return status;
}

}  // namespace gpufs::apps
