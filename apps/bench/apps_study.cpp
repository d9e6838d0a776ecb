#include <gpufs/device.hpp>

#include <apps/bench/apps_study.hpp>
#include <apps/bench/apps_table.hpp>
#include <apps/bench/apps_variants.hpp>
#include <apps/bench/chart.hpp>
#include <apps/common/build_facts.hpp>
#include <apps/common/durable.hpp>
#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/unfinished_file.hpp>
#include <apps/harness/session.hpp>
#include <apps/harness/verify.hpp>
#include <apps/ports/all.hpp>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <random>
#include <ranges>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace gpufs::apps {

namespace {

using runs_by_app = std::map<std::string, std::vector<app_run>, std::less<>>;

/// An application that is being measured.
struct subject {
  port_description const& what;
  config settings;
  problem which;
  io_shape shape;
  std::vector<variant> variants;

  subject(apps_options const& o, config const& c, port_description const& w)
      : what(w), settings(c), shape{w.blocks, 0, 64 << 10} {
    which.size = o.size == "smoke"    ? size_class::smoke
                 : o.size == "medium" ? size_class::medium
                                      : size_class::paper;
    for (auto const& e : what.extras) which.extras[e.name] = e.value;
    shape.threads = static_cast<unsigned>(o.threads);
    variants = variants_of(o, settings, shape, what, bytes_read_by(*what.make(which)));
  }
};

/// The order of a run: first the warm variants, then the cold ones, each group shuffled anew. So
/// the traces that one variant leaves, such as in the disk, do not always meet the same next
/// variant.
void shuffle(std::vector<variant const*>& wanted, std::int64_t run) {
  std::mt19937_64 random(static_cast<std::uint64_t>(run));
  std::ranges::sort(wanted);  // by their places in the application's list
  std::ranges::shuffle(wanted, random);
  std::ranges::stable_partition(wanted, [](variant const* v) { return !v->cold; });
}

/// Checksums of the arrays after a run, to compare with those of a checked run.
struct left_behind {
  std::string by;
  std::vector<std::uint64_t> outputs;
};

/// Checks one run of the application at all levels, then that the other runs left the same. Also
/// checks one fused run if there was any. Throws std::runtime_error that says what is wrong.
void check(session& s, subject const& app, std::vector<left_behind> const& left, bool fused) {
  auto const reject = [](std::string const& what) {
    throw std::runtime_error("WRONG, results not kept: " + what);
  };
  if (!left.empty()) {
    std::ranges::find(app.variants, "4K+64K", &variant::name)->measure(s);
    verdict const v = verify(s);
    if (!v.good()) reject(v.text());
    auto const right = s.output_checksums();
    for (auto const& l : left) {
      if (l.outputs != right) reject(l.by + ": the outputs are not those of cpuio");
    }
  }
  if (fused) {
    gread_files files(app.settings);
    verdict const v = verify_fused(s, files, app.shape);
    if (!v.good()) reject("fused: " + v.text());
  }
}

/// Measures the `wanted` variants, one run of each per round. Deletes the files at the end, except
/// those in --dir. Throws as opening, reading and checking do.
std::vector<app_run> measure(apps_options const& o, subject const& app,
                             std::vector<variant const*> wanted) {
  std::string const name(app.what.name);
  session s(app.what, app.which, o.folder.empty() ? o.folder : o.folder + "/" + name);
  progress shown(name, wanted.size() * static_cast<std::uint64_t>(o.runs) + 1);
  std::map<variant const*, std::vector<app_run>> measured;
  std::vector<left_behind> left;
  bool fused = false;
  for (std::int64_t r = 0; r < o.runs; ++r) {
    shuffle(wanted, r);
    std::vector<variant const*> cannot;
    for (variant const* const v : wanted) {
      std::string const label = fmt::format("{}, run {} of {}", v->name, r + 1, o.runs);
      shown.say(name + ": " + label);
      variant_run run;
      try {
        v->cold ? s.drop_from_page_cache() : s.load_into_page_cache();
        run = v->measure(s);
      } catch (not_cold const& e) {
        run.why_not = e.what();
      }
      shown.advance(1);
      if (!run.run) {
        print_error("{}: no {}: {}\n", name, v->name, run.why_not);
        cannot.push_back(v);
        continue;
      }
      run.run->app = name;
      run.run->variant = v->name;
      measured[v].push_back(*run.run);
      fused |= v->behind == leaves::outputs_of_fused;
      if (o.no_verify || v->behind != leaves::arrays_and_outputs) continue;
      if (auto const wrong = s.integrity(); !wrong.empty()) {
        throw std::runtime_error(fmt::format("WRONG, results not kept: {}: {}", label, wrong));
      }
      left.push_back({label, s.output_checksums()});
    }
    std::erase_if(wanted,
                  [&](variant const* v) { return std::ranges::find(cannot, v) != cannot.end(); });
  }
  if (!o.no_verify) {
    shown.say(name + ": checking");
    check(s, app, left, fused);
  }
  std::vector<app_run> all;
  for (auto const& v : app.variants)
    all.insert(all.end(), measured[&v].begin(), measured[&v].end());
  return all;
}

std::string results_of(apps_options const& o, std::string_view app) {
  return fmt::format("{}/{}-{}.csv", o.out, app, o.size);
}

/// The chosen variants that have fewer than --runs runs among `there`; with --again all chosen
/// ones.
std::vector<variant const*> missing(apps_options const& o, subject const& app,
                                    std::vector<app_run> const& there) {
  std::vector<variant const*> wanted;
  for (auto const& v : app.variants) {
    bool const named = std::ranges::find(o.variants, v.name) != o.variants.end();
    if (!named && (!o.variants.empty() || (v.extra && !o.full))) continue;
    if (o.again || std::ranges::count(there, v.name, &app_run::variant) < o.runs)
      wanted.push_back(&v);
  }
  for (auto const& name : o.variants) {
    if (std::ranges::find(app.variants, name, &variant::name) == app.variants.end())
      print_error("{}: has no variant {} at this size\n", app.what.name, name);
  }
  return wanted;
}

/// What the results of a folder have in common, so that they may stand under one heading.
std::string conditions(apps_options const& o, config const& settings) {
  return fmt::format("device={}; commit={}; threads={}; verified={}; settings={}",
                     current_device().name, commit(), o.threads, o.no_verify ? "no" : "yes",
                     changed_settings(settings));
}

/// Measures what is missing of an application and adds it to the runs that are there.
void complete(apps_options const& o, config const& settings, port_description const& what,
              std::vector<app_run>& there) {
  subject const app(o, settings, what);
  std::string const path = results_of(o, what.name);
  auto const wanted = missing(o, app, there);
  if (wanted.empty()) {
    if (!there.empty()) print_error("{}: taken from {}\n", what.name, path);
    return;
  }
  auto const fresh = measure(o, app, wanted);
  if (fresh.empty()) return;
  std::vector<app_run> all;
  for (auto const& v : app.variants) {
    bool const is_new = std::ranges::find(fresh, v.name, &app_run::variant) != fresh.end();
    std::ranges::copy_if(is_new ? fresh : there, std::back_inserter(all),
                         [&](app_run const& r) { return r.variant == v.name; });
  }
  write_runs(all, path, conditions(o, settings));
  there = std::move(all);
  print_error("{}: measured{}\n", what.name, o.no_verify ? "" : ", verified");
}

/// "3", or "1 to 3": the runs of one variant of an application.
std::string runs_of_each(std::vector<app_run> const& runs) {
  std::map<std::pair<std::string, std::string>, std::size_t> counts;
  for (auto const& r : runs) ++counts[{r.app, r.variant}];
  if (counts.empty()) return "0";
  auto const [least, most] = std::ranges::minmax(counts | std::views::values);
  return least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most);
}

/// --out/apps-SIZE.md, and those of the figures of which something was measured, as
/// figure_N-SIZE.csv and .png.
void write_summary(apps_options const& o, runs_by_app const& measured) {
  std::vector<app_run> runs;
  for (auto const* what : all_ports()) {
    if (auto const found = measured.find(what->name); found != measured.end())
      runs.insert(runs.end(), found->second.begin(), found->second.end());
  }
  auto const device = current_device();
  std::string const heading = fmt::format(
      "# `gpufs bench apps --size {}`\n\n{}, written {:%Y-%m-%d}{}.\n\n", o.size, device.name,
      fmt::gmtime(std::time(nullptr)), o.no_verify ? ". Bytes and outputs were not checked" : "");
  char const* const why_not = device.kind == "emulated" ? "emulated device: correctness only"
                              : o.size != "paper"       ? "they hold for --size paper"
                                                        : "";
  std::string const table = heading + to_markdown(runs, why_not);
  write_whole_file(fmt::format("{}/apps-{}.md", o.out, o.size), table);
  fmt::print("{}", table);
  std::string no_chart;
  auto const what =
      fmt::format("programs with --size {}, medians of {} runs", o.size, runs_of_each(runs));
  for (int const figure : {11, 12, 13, 14}) {
    std::string const name = fmt::format("{}/figure_{}-{}", o.out, figure, o.size);
    std::string const text = figure_csv(runs, figure);
    if (text.empty()) {
      for (char const* const kind : {".csv", ".png"}) std::filesystem::remove(name + kind);
      continue;
    }
    write_whole_file(name + ".csv", text);
    if (!o.no_charts && no_chart.empty()) no_chart = draw_chart(name + ".csv", name + ".png", what);
  }
  if (!no_chart.empty()) print_error("gpufs: no charts: {}\n", no_chart);
}

std::vector<port_description const*> chosen(apps_options const& o) {
  auto const all = all_ports();
  if (o.only.empty()) return all;
  for (auto const& name : o.only) {
    if (std::ranges::find(all, name, [](auto const* p) { return p->name; }) != all.end()) continue;
    std::string known;
    for (auto const* p : all) known += fmt::format(" {}", p->name);
    throw usage_error(fmt::format("--only={}: must be among{}", name, known));
  }
  std::vector<port_description const*> some;
  for (auto const* p : all) {
    if (std::ranges::find(o.only, p->name) != o.only.end()) some.push_back(p);
  }
  return some;
}

/// Creates --out, and fails now rather than when there are results.
void require_folder(std::string const& folder) {
  auto error = make_folders(folder);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0)
    error = {errno, std::generic_category()};
  if (error) throw usage_error(fmt::format("--out={}: {}", folder, error.message()));
}

/// The results that are there, of all applications. Those of other conditions are refused, or left
/// out where --again measures them.
runs_by_app read_results(apps_options const& o, config const& settings,
                         std::vector<port_description const*> const& chosen) {
  runs_by_app all;
  for (auto const* what : all_ports()) {
    std::string const path = results_of(o, what->name);
    if (!std::filesystem::exists(path)) continue;
    auto runs = read_runs(path, what->name);
    auto const differs = difference(read_conditions(path), conditions(o, settings));
    if (differs.empty()) {
      all[std::string(what->name)] = std::move(runs);
    } else if (!o.again || std::ranges::find(chosen, what) == chosen.end()) {
      throw usage_error(fmt::format(
          "{}: is of other conditions ({}): take another --out, or remove it, and it is "
          "measured again",
          path, differs));
    }
  }
  return all;
}

}  // namespace

void add_options(CLI::App& command, apps_options& o) {
  command.fallthrough();
  command
      .add_option("--size", o.size,
                  "size of the inputs: paper is that of the GPUfs readahead paper, Table 1")
      ->check(CLI::IsMember({"smoke", "medium", "paper"}))
      ->capture_default_str();
  command
      .add_option(
          "--out", o.out,
          "folder for results; what is there is not measured again, and must be of the same "
          "device, commit, threads and settings, and as checked")
      ->required();
  command.add_option("--only", o.only, "these applications alone");
  command.add_option("--variants", o.variants,
                     "these variants alone (docs/applications.md names them)");
  command.add_option("--dir,--folder", o.folder,
                     "keep the input files, of each application in a folder of its own in this "
                     "one; default: nameless ones, "
                     "gone after use");
  command.add_option("--runs", o.runs, "runs of each variant, in turns; the medians count")
      ->capture_default_str();
  command.add_option("--threads", o.threads,
                     "threads of each block of the I/O kernel; default 512, emulated 64");
  command.add_flag(
      "--full", o.full,
      "also pinned memory, no and automatic readahead, clock, fused, more of them cold");
  command.add_flag("--again", o.again,
                   "measure again what has been measured, and drop what is of other conditions");
  command.add_flag("--no-verify", o.no_verify, "do not check bytes and outputs");
  command.add_flag("--no-charts", o.no_charts, "write no PNG");
}

int study_apps(apps_options o, config const& settings) {
  validate(settings);
  check_option("--runs", o.runs, 1, 1000);
  fill_in(o.threads, device_to_run_on().kind == "emulated" ? 64 : 512);
  check_threads(o.threads, 512);
  for (auto const& name : o.variants) require_variant(name);
  auto const apps = chosen(o);
  require_folder(o.out);
  runs_by_app measured = read_results(o, settings, apps);
  int status = 0;
  for (auto const* what : apps) {
    try {
      complete(o, settings, *what, measured[std::string(what->name)]);
    } catch (std::exception const& e) {  // the others may do better
      print_error("{}: {}\n", what->name, e.what());
      status = status_failed;
    }
  }
  write_summary(o, measured);
  return status;
}

}  // namespace gpufs::apps
