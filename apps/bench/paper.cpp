#include <apps/bench/chart.hpp>
#include <apps/bench/figures.hpp>
#include <apps/bench/paper.hpp>
#include <apps/common/durable.hpp>
#include <apps/common/json_line.hpp>
#include <apps/common/memory_folder.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/run_report.hpp>
#include <apps/common/unfinished_file.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <system_error>

#include <sys/statvfs.h>

namespace gpufs::apps {

namespace {

struct figure {
  char const* name;
  std::uint64_t bytes;  ///< that the paper reads
  unsigned series;      ///< along the axis
  unsigned lines;       ///< that are measured as often as they
  bool checks_bytes;    ///< of what reached the device
  void (*measure)(figure_table&, figure_setup const&);
};

constexpr std::uint64_t mebi = 1 << 20;
constexpr std::array all_figures{
    figure{"2", 960 * mebi, 3, 2, true, measure_page_sizes},
    figure{"3", 960 * mebi, 3, 0, false, measure_requests},
    figure{"5", 960 * mebi, 5, 0, false, measure_replay},
    figure{"6", 960 * mebi, 2, 0, false, measure_idle_polls},
    figure{"7", 960 * mebi, 3, 2, true, measure_page_sizes},
    figure{"9", 1024 * mebi, 3, 5, true, measure_readahead},
    figure{"10", 4096 * mebi, 3, 6, true, measure_replacement},
};

bool is_in_ram(figure const& f) { return std::string_view(f.name) == "7"; }

/// Whether a file of `bytes` bytes finds room in a folder that lies in memory.
bool has_room(std::string const& folder, std::uint64_t bytes) {
  struct statvfs s {};
  return is_in_memory(folder) && ::statvfs(folder.c_str(), &s) == 0 &&
         std::uint64_t(s.f_bavail) * s.f_frsize > bytes + bytes / 8;
}

std::vector<figure> chosen(std::vector<std::string> const& names) {
  std::vector<figure> some;
  for (auto const& f : all_figures) {
    if (std::ranges::any_of(
            names, [&](std::string const& name) { return name == "all" || name == f.name; }))
      some.push_back(f);
  }
  return some;
}

std::uint64_t scaled(figure const& f, paper_options const& o) {
  auto const bytes = static_cast<std::uint64_t>(static_cast<double>(f.bytes) * *o.scale);
  return std::max<std::uint64_t>(bytes / 4096 * 4096, 4096);
}

/// Figure 7 reads from memory.
bool is_cold(figure const& f, paper_options const& o) { return o.cold && !is_in_ram(f); }

void write_facts(figure const& f, paper_options const& o, config const& settings,
                 figure_table const& table, study const& all, std::string const& path) {
  json_line j;
  add_heading(j, fmt::format("figure {}", table.number));
  j.integer("bytes", all.bytes())
      .integer("blocks", all.shape().blocks)
      .integer("threads", all.shape().threads);
  j.text("req", o.request)
      .integer("runs", static_cast<std::uint64_t>(o.runs))
      .boolean("cold", is_cold(f, o));
  j.integer("baseline_threads", static_cast<std::uint64_t>(o.baseline_threads))
      .boolean("verified", f.checks_bytes && !o.no_verify);
  std::string notes;
  for (auto const& note : table.notes)
    notes += fmt::format("{}{}", notes.empty() ? "" : "; ", note);
  if (!notes.empty()) j.text("notes", notes);
  add_settings(j, settings);
  write_whole_file(path, j.str() + "\n");
}

figure_table measure(figure const& f, paper_options const& o, study& all) {
  figure_table table;
  table.number = std::stoi(f.name);
  progress shown("", 0);
  figure_setup s{all, is_cold(f, o), static_cast<std::uint64_t>(o.step), o.runs, shown};
  shown.expect(static_cast<std::uint64_t>(o.runs) * (s.sizes().size() * f.series + f.lines));
  all.prepare_with(s.preparation());
  if (!s.cold) all.file().load_into_page_cache(all.bytes());
  f.measure(table, s);
  return table;
}

}  // namespace

void add_options(CLI::App& command, paper_options& o) {
  add_options(command, static_cast<study_options&>(o));
  std::vector<std::string> names{"all"};
  for (auto const& f : all_figures) names.emplace_back(f.name);
  command.add_option("--figure", o.figures, "2, 3, 5, 6, 7, 9, 10 or all; several may be given")
      ->required()
      ->check(CLI::IsMember(names));
  command.add_option("--out", o.out, "folder for figure_N.csv, .png and .json; made if need be")
      ->required();
  command.add_option("--scale", o.scale, "of the paper's file sizes; default 1, emulated 0.01");
  command.add_option(
      "--step", o.step,
      "factor from one size along the axis to the next, 2 to 64; default 2, emulated 4");
  command.add_option("--runs", o.runs,
                     "measurements of each point; the median is drawn; default 3");
  command.add_option("--ram-dir", o.ram_folder, "a folder on tmpfs or ramfs, for figure 7")
      ->capture_default_str();
  command.add_flag("--cold", o.cold,
                   "as in the paper: drop the file from the OS page cache before each measurement");
  command.add_flag("--no-charts", o.no_charts, "write the CSV only");
}

void complete(paper_options& o) {
  complete(o, 3);
  bool const emulated = device_to_run_on().kind == "emulated";
  if (!o.scale) o.scale = emulated ? 0.01 : 1;
  fill_in(o.step, emulated ? 4 : 2);
  if (!(*o.scale > 0 && *o.scale <= 64))
    throw usage_error(fmt::format("--scale={}: must be more than 0 and at most 64", *o.scale));
  check_option("--step", o.step, 2, 64);
}

void run_paper(paper_options const& o, config const& settings) {
  auto const figures = chosen(o.figures);
  if (std::ranges::any_of(figures, is_in_ram) && o.ram_folder != paper_options{}.ram_folder)
    require_in_memory("--ram-dir", o.ram_folder);
  if (auto const error = make_folders(o.out)) throw std::system_error(error, o.out);
  // One file for all figures but 7.
  std::uint64_t most = 0;
  for (auto const& f : figures) most = std::max(most, scaled(f, o));
  std::optional<bench_file> file;
  for (auto const& f : figures) {
    std::uint64_t const bytes = scaled(f, o);
    bool const in_ram = is_in_ram(f) && has_room(o.ram_folder, bytes);
    std::optional<bench_file> ram;
    if (in_ram) ram.emplace("", o.ram_folder, bytes, o.seed);
    if (!in_ram && !file) file.emplace(o.file, o.folder, most, o.seed);
    study all(o, settings, in_ram ? **ram : **file, bytes);
    figure_table table = measure(f, o, all);
    if (is_in_ram(f) && !in_ram) {
      table.notes.push_back(
          fmt::format("--ram-dir={}: no memory with room for {}: read from the OS page cache",
                      o.ram_folder, format_size(bytes)));
    }
    if (all.bytes() < bytes)
      table.notes.push_back(fmt::format("the file has {} bytes only, not {}", all.bytes(), bytes));
    std::string const path = fmt::format("{}/figure_{}", o.out, f.name);
    write_csv(table, path + ".csv");
    write_facts(f, o, settings, table, all, path + ".json");
    fmt::print("figure {}: {}.csv\n", f.name, path);
    for (auto const& note : table.notes) fmt::print("  note: {}\n", note);
    if (o.no_charts) continue;
    auto const what =
        fmt::format("{} of a file, medians of {} runs", format_size(all.bytes()), o.runs);
    if (std::string const why = draw_chart(path + ".csv", path + ".png", what); !why.empty())
      fmt::print("  no chart: {}\n", why);
    std::fflush(stdout);
  }
}

}  // namespace gpufs::apps
