#include <gpufs/device.hpp>

#include <apps/common/host_file.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/median.hpp>
#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/run_report.hpp>
#include <apps/mosaic/make_command.hpp>
#include <apps/mosaic/match_job.hpp>
#include <apps/mosaic/sizes.hpp>
#include <apps/mosaic/variant.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

namespace gpufs::apps {

namespace {

/// What the runs of one variant came to.
struct measured {
  std::unique_ptr<variant> way;
  std::vector<variant_outcome> runs;
  std::string wrong;  // what the check found

  [[nodiscard]] variant_outcome const& median_run() const {
    std::vector<double> seconds;
    for (auto const& r : runs) seconds.push_back(r.seconds);
    return runs[median_index(seconds)];
  }
};

match_shape shape_of(make_options const& o) {
  device_info const device = device_to_run_on();
  bool const emulated = device.kind == "emulated";
  std::int64_t const blocks = o.blocks != not_given ? o.blocks
                              : emulated            ? 4
                                                    : 2 * device.multiprocessors;
  std::int64_t const threads = o.threads != not_given ? o.threads
                               : emulated             ? 64
                                                      : 32 * most_match_rows;
  check_option("--blocks", blocks, 1, 1 << 20);
  if (threads < 32 || threads > 32 * most_match_rows || threads % 32 != 0) {
    throw usage_error(fmt::format("--threads={}: must be a multiple of 32 from 32 to {}", threads,
                                  32 * most_match_rows));
  }
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(threads / 32), o.level == "warp"};
}

/// The settings of a run: every group that reads has a seat of its own.
config settings_of(config c, match_shape const& shape, std::uint64_t page_size) {
  constexpr std::uint64_t most_seats = 65536;
  if (page_size != 0) c.page_size = page_size;
  std::uint64_t const groups = std::uint64_t{shape.blocks} * (shape.by_warp ? shape.rows : 1);
  c.seats =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(c.seats, std::min(groups, most_seats)));
  validate(c);
  return c;
}

std::vector<measured> variants_of(make_options const& o, config const& settings,
                                  mosaic_problem const& p) {
  std::vector<measured> all;
  for (auto const& mode : o.modes) {
    if (mode == "cpu") {
      all.push_back({make_cpu_variant(p, o.host_reads == "mmap"), {}, {}});
    } else if (mode == "cpuio") {
      all.push_back({make_cpuio_variant(p, shape_of(o)), {}, {}});
    } else {
      match_shape const shape = shape_of(o);
      std::vector<std::uint64_t> sizes;
      for (auto const& text : o.page_sizes) sizes.push_back(parse_size(text, "--hist-page-size"));
      if (sizes.empty()) sizes.push_back(0);
      match_access const how = mode == "gmmap"   ? match_access::gmmap
                               : mode == "array" ? match_access::array
                                                 : match_access::gread;
      for (auto const size : sizes) {
        config const c = settings_of(settings, shape, size);
        if (how == match_access::gmmap && c.page_size < record_bytes) {
          throw usage_error(fmt::format(
              "--mode=gmmap: a mapping ends with its page: needs pages of {} or more, not {}",
              format_size(record_bytes), format_size(c.page_size)));
        }
        all.push_back({make_file_variant(p, how, shape, c, o.advice == "random", !o.cold), {}, {}});
      }
    }
  }
  return all;
}

picture picture_of(make_options const& o, database const& d) {
  if (!o.input.empty()) return read_picture(o.input);
  mosaic_size const size = size_named(o.size);
  if (o.target == "self") return picture_of_tiles(d, size.columns, size.rows, o.seed);
  return picture_of_strangers(size.columns, size.rows, o.seed);
}

/// Returns what is wrong with matches, or an empty text. `right`: the matches of the host. `self`:
/// each tile of the picture is one of the database.
std::string check(std::vector<tile_match> const& got, std::vector<tile_match> const& right,
                  bool self) {
  auto const text = [](tile_match const& m) {
    return m.id == no_tile ? std::string("none")
                           : fmt::format("tile {} at distance {}", m.id, m.distance);
  };
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] != right[i])
      return fmt::format("place {}: {}, by the host {}", i, text(got[i]), text(right[i]));
    if (self && got[i].distance != 0)
      return fmt::format("place {} is a tile of the database: found {}", i, text(got[i]));
  }
  return {};
}

void print_json(make_options const& o, mosaic_problem const& p, measured const& m) {
  variant_outcome const& r = m.median_run();
  json_line j;
  add_heading(j, "mosaic");
  j.text("variant", m.way->name())
      .text("level", o.level)
      .text("advice", o.advice)
      .boolean("cold", o.cold);
  j.integer("places", p.wanted.places.size())
      .integer("tiles", p.index.tiles)
      .integer("compared", r.matched.compared);
  j.number("seconds", r.seconds)
      .number("mapping_seconds", r.registering_seconds)
      .number("places_per_second", static_cast<double>(p.wanted.places.size()) / r.seconds);
  if (m.way->name() != "cpu") j.number("kernel_seconds", r.matched.kernel_seconds);
  std::vector<double> all;
  for (auto const& one : m.runs) all.push_back(one.seconds);
  j.numbers("run_seconds", all);
  if (o.check) j.boolean("verified", m.wrong.empty());
  if (r.counters) j.members(to_json_fields(*r.counters));
  if (m.way->settings()) add_settings(j, *m.way->settings());
  fmt::print("{}\n", j.str());
}

void print_text(mosaic_problem const& p, measured const& m) {
  variant_outcome const& r = m.median_run();
  auto const places = static_cast<double>(p.wanted.places.size());
  auto const without = std::ranges::count(r.matched.best, no_tile, &tile_match::id);
  fmt::print(
      "{:<12} {:>9.4f} s   {:.0f} places/s, {:.1f} candidates each, {} without any; kernel {:.4f} "
      "s\n",
      m.way->name(), r.seconds, places / r.seconds,
      static_cast<double>(r.matched.compared) / places, without, r.matched.kernel_seconds);
  if (r.counters) fmt::print("{}", to_text(*r.counters));
  if (r.registering_seconds > 0)
    fmt::print("  windows registered before, in {:.3f} s\n", r.registering_seconds);
  for (auto const& note : r.notes) fmt::print("  note: {}\n", note);
}

/// How the first variant that reads by gpufs compares with the others, round by round.
void print_ratios(make_options const& o, std::vector<measured> const& all) {
  auto const ours =
      std::ranges::find_if(all, [](measured const& m) { return m.way->settings().has_value(); });
  if (ours == all.end()) return;
  for (auto const& other : all) {
    if (&other == &*ours) continue;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < other.runs.size(); ++i)
      ratios.push_back(other.runs[i].seconds / ours->runs[i].seconds);
    if (o.json) {
      json_line j;
      add_heading(j, "mosaic-ratio");
      j.text("of", ours->way->name())
          .text("against", other.way->name())
          .number("times_as_fast", median(ratios));
      fmt::print("{}\n", j.numbers("ratios", ratios).str());
    } else {
      fmt::print("{} is {:.2f} times as fast as {}\n", ours->way->name(), median(ratios),
                 other.way->name());
    }
  }
}

}  // namespace

void add_options(CLI::App& command, make_options& o) {
  command.add_option("--data", o.data, "folder of the database")->required();
  command
      .add_option(
          "--size", o.size,
          "of the generated picture: smoke (512 x 384), medium (2048 x 1536), paper (8192 x 6144)")
      ->check(CLI::IsMember({"smoke", "medium", "paper"}))
      ->capture_default_str();
  command
      .add_option("--target", o.target,
                  "the generated picture: random: like the synthetic database, but no tile of it; "
                  "self: of tiles of the database, "
                  "so that all are found at distance 0")
      ->check(CLI::IsMember({"random", "self"}))
      ->capture_default_str();
  command.add_option("--input", o.input,
                     "a picture in place of a generated one: NAME.rgb8 with its .meta, or an image "
                     "file (by Python)");
  command.add_option("--output", o.output, "folder for mosaic.png");
  command
      .add_option("--mode", o.modes,
                  "one or several, compared in turns: gread, gmmap, array: how the kernel gets at "
                  "histograms; cpuio: all of "
                  "tiles.hist is brought to the device by hand-written code; cpu: the host alone, "
                  "all cores")
      ->check(CLI::IsMember({"gread", "gmmap", "array", "cpuio", "cpu"}))
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--hist-page-size", o.page_sizes,
                  "pages through which tiles.hist is read; several: compared; default: --page-size")
      ->delimiter(',');
  command
      .add_option("--level", o.level,
                  "each warp reads a histogram of its own, or a whole block reads one")
      ->check(CLI::IsMember({"warp", "block"}))
      ->capture_default_str();
  command
      .add_option("--advice", o.advice,
                  "for tiles.hist: random: nothing is read ahead; normal: as --prefetch-size says")
      ->check(CLI::IsMember({"random", "normal"}))
      ->capture_default_str();
  command.add_option("--host-reads", o.host_reads, "how --mode cpu reads tiles.hist")
      ->check(CLI::IsMember({"pread", "mmap"}))
      ->capture_default_str();
  command.add_option("--blocks", o.blocks,
                     "threadblocks; default 2 per multiprocessor, emulated 4");
  command.add_option(
      "--threads", o.threads,
      "threads of each, a multiple of 32 up to 256; default 256 (32 x 8), emulated 64");
  command.add_option("--runs", o.runs, "runs of each; the median counts")->capture_default_str();
  command.add_option("--seed", o.seed, "of the generated picture")->capture_default_str();
  command.add_flag(
      "--cold", o.cold,
      "drop tiles.hist from the OS page cache before each run; else it is brought there");
  command.add_flag(
      "--check", o.check,
      "compare with the host's matches; with --target self also that all distances are 0");
  command.add_flag("--json", o.json, "print a JSON object for each variant");
}

int make_mosaic(make_options const& o, config const& settings) {
  check_option("--runs", o.runs, 1, 1000);
  check_given(o);
  check_mosaic_output(database{o.data}, o.output);
  mosaic_problem p{{o.data}, load_index(database{o.data}.lsh()), {}};
  std::uint64_t const tiles = records_in(p.files.hist());
  if (tiles != p.index.tiles) {
    throw std::runtime_error(
        fmt::format("{} has {} tiles, its index {}: make that again (mosaic index)", p.files.hist(),
                    tiles, p.index.tiles));
  }
  p.wanted = picture_of(o, p.files);
  host_file const hist(p.files.hist());
  std::vector<measured> all = variants_of(o, settings, p);
  progress shown("", static_cast<std::uint64_t>(o.runs) * all.size());
  if (!o.cold) hist.load_into_page_cache(hist.size());
  for (std::int64_t run = 0; run < o.runs; ++run) {
    for (auto& m : all) {
      shown.say(fmt::format("{}, run {} of {}", m.way->name(), run + 1, o.runs));
      if (o.cold) hist.drop_from_page_cache();
      m.runs.push_back(m.way->run());
      shown.advance(1);
    }
  }
  bool good = true;
  if (o.check) {
    shown.say("checking");
    auto const right = make_cpu_variant(p, false)->run().matched.best;
    for (auto& m : all) {
      for (auto const& r : m.runs) {
        if (m.wrong.empty())
          m.wrong = check(r.matched.best, right, o.target == "self" && o.input.empty());
      }
      good = good && m.wrong.empty();
    }
  }
  for (auto const& m : all) {
    o.json ? print_json(o, p, m) : print_text(p, m);
    if (!m.wrong.empty()) print_error("mosaic: {}: check failed: {}\n", m.way->name(), m.wrong);
  }
  print_ratios(o, all);
  if (o.check && good && !o.json)
    fmt::print("checked: {} places as by the host\n", p.wanted.places.size());
  if (!o.output.empty()) {
    print_error("wrote {}\n",
                write_mosaic(p.wanted, all.front().median_run().matched.best, p.files, o.output));
  }
  return good ? 0 : status_failed;
}

}  // namespace gpufs::apps
