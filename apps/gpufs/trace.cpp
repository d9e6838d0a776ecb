#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>
#include <apps/common/report_files.hpp>
#include <apps/common/script.hpp>
#include <apps/gpufs/trace.hpp>
#include <apps/gpufs/trace_report.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace gpufs::apps {

namespace {

constexpr int status_no_python = 3;
constexpr std::size_t most_named = 10;  // malformed lines
constexpr std::int64_t most_slowest = 1'000'000;

void name_malformed(std::string const& file, std::vector<malformed_line> const& lines) {
  for (std::size_t i = 0; i < std::min(lines.size(), most_named); ++i)
    print_error("gpufs: {}:{}: not a line of a trace: {}\n", file, lines[i].line, lines[i].why);
  if (lines.size() > most_named)
    print_error("gpufs: {}: {} more lines are not of a trace\n", file, lines.size() - most_named);
}

int draw(trace_options const& o) {
  auto const script = find_script("trace.py");
  if (script.empty()) throw std::runtime_error("trace.py is not beside the program");
  auto const python = python_with("matplotlib");
  if (python.empty()) {
    print_error("gpufs: --picture={}: no python3 has matplotlib (Debian: python3-matplotlib)\n",
                o.picture);
    return status_no_python;
  }
  if (run_script(python, script, {o.file, o.picture}) != 0)
    throw std::runtime_error(fmt::format("--picture={}: could not be drawn", o.picture));
  return 0;
}

}  // namespace

void add_options(CLI::App& command, trace_options& o) {
  command
      .add_option("file", o.file, "trace that a program wrote because of GPUFS_TRACE or --trace")
      ->required()
      ->type_name("FILE");
  command.add_flag("--json", o.json, "print one JSON object");
  command.add_option("--picture", o.picture, "draw a time line (PNG), by matplotlib")
      ->type_name("FILE");
  command.add_option("--slowest", o.slowest, "how many of the slowest requests to list")
      ->capture_default_str();
}

int run_trace(trace_options const& o) {
  check_option("--slowest", o.slowest, 0, most_slowest);
  std::error_code ignored;
  if (!o.picture.empty() && std::filesystem::equivalent(o.file, o.picture, ignored))
    throw usage_error(
        fmt::format("--picture={}: is the trace, which is never written to", o.picture));
  check_report_files({{"--picture", o.picture}}, {});
  auto const trace = read_trace(o.file);
  if (trace.begun == 0 && trace.ended == 0 && trace.requests.empty() && trace.malformed.empty())
    throw std::runtime_error(
        fmt::format("{}: is empty: a program's trace begins with a line", o.file));
  auto const sums = sum_up(trace, static_cast<std::size_t>(o.slowest));
  if (o.json)
    fmt::print("{}\n", to_json(trace, sums));
  else
    fmt::print("{}", to_text(trace, sums));
  name_malformed(o.file, trace.malformed);
  int const drawn = o.picture.empty() ? 0 : draw(o);
  return !trace.malformed.empty() ? status_failed : drawn;
}

}  // namespace gpufs::apps
