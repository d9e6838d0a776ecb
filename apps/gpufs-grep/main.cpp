// gpufs-grep WORD PATH...: counts the lines that contain a word, in every file of a tree, from a
// kernel: what `LC_ALL=C grep -r -a -c -w -F WORD PATH...` counts.
#include <gpufs/cli.hpp>
#include <gpufs/config.hpp>
#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>

#include <apps/common/host_file.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/yardsticks.hpp>
#include <apps/gpufs-grep/file_list.hpp>
#include <apps/gpufs-grep/grep_run.hpp>
#include <apps/gpufs-grep/verify.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {

using namespace gpufs;
using namespace gpufs::apps;

constexpr int status_match = 0, status_no_match = 1, status_error = 2;  // as grep's

struct options {
  std::string word;
  std::vector<std::string> paths;
  std::int64_t blocks = not_given;
  std::int64_t threads = not_given;
  std::string request = "64K";
  bool quiet = false;
  bool json = false;
  bool verify = false;
  bool no_limits = false;
};

void add_options(CLI::App& app, options& o) {
  app.add_option("word", o.word, "the word: any bytes but newlines, at most 255; taken literally")
      ->required();
  app.add_option("paths", o.paths,
                 "files, and folders whose files are searched; paths have at most 4095 bytes")
      ->required();
  app.add_option("--blocks", o.blocks, "threadblocks; default 4 per multiprocessor, emulated 8");
  app.add_option("--threads", o.threads, "threads of each; default 128, emulated 64");
  app.add_option("--req", o.request, "bytes per gread")->capture_default_str();
  app.add_flag("--quiet,-q", o.quiet, "print the total only, on stdout");
  app.add_flag("--json", o.json, "print one JSON object per file, and one for the run");
  app.add_flag("--verify", o.verify,
               "compare with counts made on the host; status 2 if one differs or the "
               "host cannot read a file");
  app.add_flag("--no-limits", o.no_limits, "with --json: do not measure limits and baselines");
}

search_word checked_word(std::string const& text) {
  if (text.empty() || text.size() > longest_word || text.find('\n') != text.npos) {
    throw usage_error(fmt::format("WORD of {} bytes: must be 1 to {} bytes without a newline",
                                  text.size(), longest_word));
  }
  search_word w;
  w.length = static_cast<unsigned>(text.size());
  std::ranges::copy(text, w.bytes);
  return w;
}

grep_shape checked_shape(options const& o) {
  device_info const device = device_to_run_on();
  bool const emulated = device.kind == "emulated";
  grep_shape s;
  std::int64_t const blocks = o.blocks != not_given ? o.blocks
                              : emulated            ? 8
                                                    : 4 * device.multiprocessors;
  std::int64_t const threads = o.threads != not_given ? o.threads : emulated ? 64 : 128;
  check_option("--blocks", blocks, 1, 1 << 20);
  check_threads(threads);
  s.blocks = static_cast<unsigned>(blocks);
  s.threads = static_cast<unsigned>(threads);
  s.chunk_bytes = size_option("--req", o.request, 2 * front_bytes, 1 << 30);
  if (s.chunk_bytes % 8 != 0)
    throw usage_error(fmt::format("--req={}: must be a multiple of 8", o.request));
  s.range_bytes = std::max(s.range_bytes, s.chunk_bytes);
  return s;
}

void complain(std::string const& path, std::string const& what) {
  print_error("gpufs-grep: {}: {}\n", path, what);
}

/// The files that can be opened, for the baselines: as many as descriptors allow.
std::vector<host_file> open_for_baselines(std::vector<listed_file> const& files) {
  constexpr std::size_t most = 512;
  std::vector<host_file> open;
  for (auto const& f : files) {
    if (open.size() == most) break;
    try {
      if (f.bytes != 0) open.emplace_back(f.path);
    } catch (std::exception const&) {
      // Unreadable: reported already, as the kernel met it.
    }
  }
  return open;
}

struct outcome {
  file_list list;
  std::vector<std::int64_t> counts;
  double seconds = 0;
  statistics counters;
  std::uint64_t lines = 0;
  std::size_t matching = 0;
  std::size_t unreadable = 0;
  verification verified;
  std::vector<std::string> notes;
};

outcome search(options const& o, config const& settings) {
  search_word const word = checked_word(o.word);
  grep_shape const shape = checked_shape(o);
  outcome r;
  r.list = list_files(o.paths);
  auto const& files = r.list.files;
  {
    grep_run run(files, word, shape);
    filesystem fs(settings);
    progress shown(fmt::format("searching {} files", files.size()), run.ranges());
    auto const show = [&](std::uint64_t done) { shown.set(done); };
    r.seconds =
        run.run(fs.ref(), shown.visible() ? std::function<void(std::uint64_t)>(show) : nullptr);
    r.counts = run.counts();
    r.counters = fs.stats();
    r.notes = fs.notes();
  }
  for (auto const& [path, what] : r.list.errors) complain(path, what);
  r.unreadable = r.list.errors.size();
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (r.counts[i] < 0) {
      complain(files[i].path, error_text(r.counts[i]));
      ++r.unreadable;
    } else {
      r.lines += static_cast<std::uint64_t>(r.counts[i]);
      r.matching += r.counts[i] != 0 ? 1 : 0;
    }
  }
  if (o.verify) r.verified = verify_counts(files, r.counts, o.word);
  for (auto const& [i, on_host] : r.verified.wrong)
    complain(files[i].path,
             fmt::format("{} lines on the device, {} on the host", r.counts[i], on_host));
  for (auto const& [i, why] : r.verified.unverified)
    complain(files[i].path, "could not be verified: " + why);
  return r;
}

void print_json(options const& o, config const& settings, outcome const& r) {
  json_line j;
  add_heading(j, "grep");
  add_throughput(j, r.counters.bytes_delivered, r.seconds, r.counters);
  j.boolean("verified", r.verified.passed() && r.verified.compared != 0 && r.unreadable == 0);
  if (!o.no_limits) {
    auto const open = open_for_baselines(r.list.files);
    std::uint64_t bytes = 0;
    for (auto const& f : open) bytes += f.size();
    yardsticks y = measure_yardsticks(open, bytes, {});
    add_members(j, y, gigabytes_per_second(r.counters.bytes_delivered, r.seconds));
    j.integer("baseline_files", open.size());
  }
  j.text("word", o.word)
      .integer("files", r.list.files.size())
      .integer("matching_files", r.matching)
      .integer("lines", r.lines);
  j.integer("errors", r.unreadable).integer("wrong", r.verified.wrong.size());
  j.integer("unverified", r.verified.unverified.size());
  add_settings(j, settings);
  fmt::print("{}\n", j.str());
}

std::string said_of(verification const& v) {
  if (!v.wrong.empty()) return "; COUNTS DIFFER from the host's";
  if (!v.passed()) return fmt::format("; {} files could not be verified", v.unverified.size());
  if (v.compared == 0) return "; no file was compared";
  return fmt::format("; counts of {} files equal the host's", v.compared);
}

int grep(options const& o, config const& settings) {
  validate(settings);
  if (o.no_limits && !o.json) throw usage_error("--no-limits: is of --json");
  outcome const r = search(o, settings);
  if (!o.quiet) {
    fmt::memory_buffer out;
    for (std::size_t i = 0; i < r.counts.size(); ++i) {
      if (r.counts[i] < 0) continue;
      auto const count = static_cast<std::uint64_t>(r.counts[i]);
      auto const& path = r.list.files[i].path;
      if (o.json) {
        fmt::format_to(
            std::back_inserter(out), "{}\n",
            json_line().text("name", "grep-file").text("path", path).integer("count", count).str());
      } else {
        fmt::format_to(std::back_inserter(out), "{}:{}\n", path, count);
      }
    }
    std::fwrite(out.data(), 1, out.size(), stdout);
  }
  if (o.json) {
    print_json(o, settings, r);
  } else {
    auto const summary = fmt::format(
        "gpufs-grep: {} lines in {} of {} files; {} bytes in {:.3f} s ({:.3f} GB/s) on {}{}\n",
        r.lines, r.matching, r.list.files.size(), r.counters.bytes_delivered, r.seconds,
        gigabytes_per_second(r.counters.bytes_delivered, r.seconds), current_device().name,
        o.verify ? said_of(r.verified) : "");
    if (o.quiet)
      fmt::print("{}", summary);
    else
      print_error("{}", summary);
    for (auto const& note : r.notes) complain("note", note);
  }
  if (r.unreadable != 0 || !r.verified.passed()) return status_error;
  return r.lines != 0 ? status_match : status_no_match;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Counts the lines that contain WORD, in every file below the paths, from a GPU kernel:\n"
      "what LC_ALL=C grep -r -a -c -w -F WORD PATH... counts. Exit status as grep's.",
      "gpufs-grep");
  options o;
  add_options(app, o);
  cli_settings const settings(app);
  return run_program(
      app, argc, argv, [&] { return grep(o, settings.load()); }, status_error);
}
