#include <gpufs/device.hpp>

#include <apps/common/program.hpp>
#include <apps/common/report_files.hpp>
#include <apps/common/unfinished_file.hpp>
#include <apps/gpufs/tune_output.hpp>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace gpufs::apps {

namespace {

/// What --out has. Empty if there is no such file.
std::string old_text(tune_output const& o) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(o.out, ignored)) return {};
  std::ifstream stream(o.out, std::ios::binary);
  std::string const text(std::istreambuf_iterator<char>(stream), {});
  if (!stream.is_open() || stream.bad())
    throw std::system_error(errno, std::generic_category(), o.out);
  return text;
}

/// Lines can be kept only of a file that gpufs can read, and whose values are a line each.
void require_keepable(tune_output const& o) {
  auto const text = old_text(o);
  if (text.empty()) return;
  config ignored;
  load_file(ignored, o.out);
  for (auto const* const quotes : {"\"\"\"", "'''"}) {
    if (text.find(quotes) == text.npos) continue;
    throw usage_error(
        fmt::format("--out={}: has text over several lines ({}), which --force does not keep; "
                    "--out names another one",
                    o.out, quotes));
  }
}

/// The key of a line "KEY = VALUE", which may stand in quotes. Empty if it has none.
std::string_view key_of(std::string_view line) {
  auto const end = line.find_first_of("=#");
  if (end == line.npos || line[end] == '#') return {};
  constexpr char const* around = " \t\"'";
  auto const first = line.find_first_not_of(around);
  return line.substr(first, line.find_last_not_of(around, end - 1) + 1 - first);
}

/// The lines of --out that stay: all but those of the keys measured, and comments of their like.
std::string kept_lines(tune_output const& o, tuned_text const& t) {
  std::istringstream old(old_text(o));
  std::string kept;
  for (std::string line; std::getline(old, line);) {
    bool const is_replaced =
        line.starts_with(t.mark) || std::ranges::find(t.keys, key_of(line)) != t.keys.end();
    if (!is_replaced) kept += line + '\n';
  }
  return kept;
}

}  // namespace

void add_options(CLI::App& command, tune_output& o) {
  command.add_option("--out", o.out, "where to write the settings")
      ->type_name("FILE")
      ->capture_default_str();
  command.add_flag("--force", o.force,
                   "put the settings into --out if it exists; others and comments stay");
}

void check(tune_output const& o, std::vector<std::string> const& only_read) {
  std::error_code ignored;
  for (auto const& file : only_read) {
    if (!std::filesystem::equivalent(o.out, file, ignored)) continue;
    throw usage_error(
        fmt::format("--out={}: is the file to be read, which is never written to", o.out));
  }
  if (!o.force && std::filesystem::exists(o.out, ignored)) {
    throw usage_error(fmt::format(
        "--out={}: exists already; --force puts the settings into it, --out names another one",
        o.out));
  }
  if (std::filesystem::exists(o.out, ignored) && !std::filesystem::is_regular_file(o.out, ignored))
    throw usage_error(fmt::format("--out={}: must be a regular file", o.out));
  require_keepable(o);
  check_target_folder("--out", o.out);
}

std::string spread_of(run_scores const& s) {
  if (s.runs == 1) return "in one run";
  return fmt::format("{:.3f} to {:.3f} in {} runs", s.low, s.high, s.runs);
}

std::string when_and_where() {
  return fmt::format("{:%Y-%m-%d}, {}", fmt::gmtime(std::time(nullptr)), current_device().name);
}

void write(tune_output const& o, tuned_text const& t) {
  if (t.is_in_use) {
    fmt::print("{} not written: gpufs has the best settings found without it\n", o.out);
    return;
  }
  using replace = unfinished_file::replace;
  write_whole_file(o.out, kept_lines(o, t) + t.lines, o.force ? replace::yes : replace::no);
  fmt::print(
      "{} written: gpufs reads it where it is called gpufs.toml in the working directory, or "
      "GPUFS_CONFIG names it\n",
      o.out);
}

}  // namespace gpufs::apps
