#include <apps/bench/apps_table.hpp>
#include <apps/common/median.hpp>
#include <apps/common/program.hpp>
#include <apps/common/unfinished_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <system_error>

namespace gpufs::apps {

namespace {

constexpr char heading[] = "app,variant,bytes,io_seconds,seconds";
constexpr std::string_view mark = "# ";  // of the line with conditions

template <class Value>
std::optional<double> median_of(std::vector<app_run> const& runs, std::string const& app,
                                std::string const& variant, Value value) {
  std::vector<double> all;
  for (auto const& r : runs) {
    if (r.app == app && r.variant == variant) all.push_back(value(r));
  }
  return all.empty() ? std::nullopt : std::optional(median(all));
}

template <class Member>
std::vector<std::string> names(std::vector<app_run> const& runs, Member member) {
  std::vector<std::string> all;  // as they come: variants have an order
  for (auto const& r : runs) {
    if (std::ranges::find(all, r.*member) == all.end()) all.push_back(r.*member);
  }
  return all;
}

std::optional<double> geometric_mean_of(std::vector<double> const& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (double const v : values) sum += std::log(v);
  return std::exp(sum / static_cast<double>(values.size()));
}

std::optional<double> ratio_of(std::vector<app_run> const& runs, std::string const& app,
                               app_ratio const& r) {
  auto const of = r.end_to_end ? median_seconds(runs, app, r.by) : median_io_GBps(runs, app, r.of);
  auto const by = r.end_to_end ? median_seconds(runs, app, r.of) : median_io_GBps(runs, app, r.by);
  return of && by ? std::optional(*of / *by) : std::nullopt;
}

/// Whether all of `text` is a number, which is then in `out`.
template <class Number>
bool whole_number(std::string_view text, Number& out) {
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    auto const end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string cell(std::optional<double> value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

template <class Median>
std::string table(std::vector<app_run> const& runs, Median const& value) {
  auto const variants = names(runs, &app_run::variant);
  std::string out = "| application |", line = "|---|";
  for (auto const& v : variants) {
    out += fmt::format(" {} |", v);
    line += "---|";
  }
  out += "\n" + line + "\n";
  for (auto const& app : names(runs, &app_run::app)) {
    out += fmt::format("| {} |", app);
    for (auto const& v : variants) out += fmt::format(" {} |", cell(value(runs, app, v)));
    out += "\n";
  }
  return out;
}

}  // namespace

void write_runs(std::vector<app_run> const& runs, std::string const& path,
                std::string const& conditions) {
  auto text = conditions.empty() ? std::string() : fmt::format("{}{}\n", mark, conditions);
  text += fmt::format("{}\n", heading);
  for (auto const& r : runs) {
    text +=
        fmt::format("{},{},{},{:.9g},{:.9g}\n", r.app, r.variant, r.bytes, r.io_seconds, r.seconds);
  }
  write_whole_file(path, text);
}

std::vector<app_run> read_runs(std::string const& path, std::string_view app) {
  std::ifstream in(path);
  std::vector<app_run> runs;
  std::string line;
  auto const reject = [&path](int number, std::string const& what) {
    throw usage_error(
        fmt::format("{}:{}: {}: remove it, and it is measured again", path, number, what));
  };
  int number = 1;
  std::getline(in, line);
  if (in && line.starts_with(mark)) {
    ++number;
    std::getline(in, line);
  }
  if (!in || line != heading) reject(number, fmt::format("must begin with {}", heading));
  while (std::getline(in, line)) {
    ++number;
    if (in.eof()) reject(number, "ends within a line");
    auto const fields = split(line, ',');
    app_run r;
    if (fields.size() != 5 || !whole_number(fields[2], r.bytes) ||
        !whole_number(fields[3], r.io_seconds) || !whole_number(fields[4], r.seconds) ||
        r.bytes == 0 || !(r.io_seconds > 0 && r.seconds > 0) ||
        !std::isfinite(r.io_seconds + r.seconds)) {
      reject(number, fmt::format("must be like {}", heading));
    }
    if (fields[0] != app) reject(number, fmt::format("must be of {}, is of {}", app, fields[0]));
    r.app = fields[0];
    r.variant = fields[1];
    runs.push_back(std::move(r));
  }
  return runs;
}

std::string read_conditions(std::string const& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line.starts_with(mark) ? line.substr(mark.size()) : std::string();
}

std::string difference(std::string const& there, std::string const& now) {
  if (there.empty() && !now.empty()) return "it does not say which ones";
  std::vector<std::string> differing;
  auto const old_parts = split(there, ';'), new_parts = split(now, ';');
  for (std::size_t i = 0; i < std::max(old_parts.size(), new_parts.size()); ++i) {
    auto const old_part = i < old_parts.size() ? old_parts[i] : "";
    auto const new_part = i < new_parts.size() ? new_parts[i] : "";
    if (old_part != new_part) differing.push_back(fmt::format("{}, now{}", old_part, new_part));
  }
  return fmt::format("{}", fmt::join(differing, ";"));
}

std::optional<double> median_io_GBps(std::vector<app_run> const& runs, std::string const& app,
                                     std::string const& variant) {
  return median_of(runs, app, variant, [](app_run const& r) {
    return static_cast<double>(r.bytes) / r.io_seconds / 1e9;
  });
}

std::optional<double> median_seconds(std::vector<app_run> const& runs, std::string const& app,
                                     std::string const& variant) {
  return median_of(runs, app, variant, [](app_run const& r) { return r.seconds; });
}

std::vector<app_ratio> const& app_ratios() {
  static std::vector<app_ratio> const all{
      {"I/O: 4 KiB + prefetch / CPU I/O, warm (paper: 1.82)", "4K+64K", "cpuio", false, 6, 12},
      {"I/O: 4 KiB + prefetch / hand-written pipeline, warm", "4K+64K", "pipelined", false, 0.9,
       1.0},
      {"I/O: 4 KiB + prefetch / our model of GPUfs, 4 KiB (paper: > 2)", "4K+64K", "original-4K",
       false, 20, 50},
      {"I/O, cache smaller than the input: LRA / our model of GPUfs (FIFO under a global lock), "
       "both "
       "with 64 KiB of prefetch",
       "small-lra",
       "small-original-4K+64K",
       false,
       1.5,
       {}},
      {"I/O, cache smaller than the input: LRA / FIFO of this library, which has no lock",
       "small-lra",
       "small-fifo",
       false,
       {},
       {}},
      {"I/O, LRA + prefetch: cache smaller than the input / cache that fits", "small-lra", "4K+64K",
       false, 0.95, 1.0},
      {"I/O: 4 KiB + automatic prefetch / CPU I/O, cold", "4K+auto-cold", "cpuio-cold", false, 1.82,
       2.2},
      {"I/O: 4 KiB + 64 KiB prefetch / CPU I/O, cold", "4K+64K-cold", "cpuio-cold", false, {}, {}},
      {"I/O: 4 KiB + automatic prefetch / what the storage can do (io_uring, O_DIRECT), cold",
       "4K+auto-cold",
       "storage-cold",
       false,
       {},
       {}},
      {"I/O: what the storage can do / CPU I/O, cold", "storage-cold", "cpuio-cold", false, {}, {}},
      {"end to end: staged gread / CPU I/O, warm", "4K+64K", "cpuio", true, 1.5, {}},
  };
  return all;
}

std::optional<double> geometric_mean(std::vector<app_run> const& runs, app_ratio const& ratio) {
  std::vector<double> all;
  for (auto const& app : names(runs, &app_run::app)) {
    if (auto const r = ratio_of(runs, app, ratio)) all.push_back(*r);
  }
  return geometric_mean_of(all);
}

std::string to_markdown(std::vector<app_run> const& runs, std::string_view why_not_compared) {
  bool const compared = why_not_compared.empty();
  std::string out = "## Ratios: geometric means over the applications\n\n";
  if (!compared) out += fmt::format("Targets are not shown ({}).\n\n", why_not_compared);
  out += compared ? "| | target | stretch target | measured | reached | applications "
                    "|\n|---|---|---|---|---|---|\n"
                  : "| | measured | applications |\n|---|---|---|\n";
  auto const apps = names(runs, &app_run::app);
  for (auto const& r : app_ratios()) {
    auto const measured = geometric_mean(runs, r);
    auto const with_both = std::ranges::count_if(
        apps, [&](auto const& app) { return ratio_of(runs, app, r).has_value(); });
    char const* const verdict = !r.target                ? "-"
                                : !measured              ? "not measured"
                                : *measured >= *r.target ? "yes"
                                                         : "no";
    out += compared ? fmt::format("| {} | {} | {} | {} | {} |", r.text, cell(r.target),
                                  cell(r.stretch_target), cell(measured), verdict)
                    : fmt::format("| {} | {} |", r.text, cell(measured));
    out += fmt::format(" {} of {} |\n", with_both, apps.size());
  }
  out +=
      "\n## I/O bandwidth, GB/s (file bytes / I/O time; medians)\n\n" + table(runs, median_io_GBps);
  out += "\n## End to end, seconds (medians)\n\n" + table(runs, median_seconds);
  return out;
}

std::string figure_csv(std::vector<app_run> const& runs, int figure) {
  bool const fits = figure <= 12, speedup = figure % 2 == 1;
  struct series {
    char const* name;
    char const* variant;
  };
  std::vector<series> const all =
      fits ? std::vector<series>{{"CPU I/O", "cpuio"},
                                 {"64 KiB pages", "64K"},
                                 {"4 KiB + 64 KiB prefetch", "4K+64K"},
                                 {"our model of GPUfs, 4 KiB", "original-4K"}}
           : std::vector<series>{{"CPU I/O", "cpuio"},
                                 {"4 KiB + prefetch, LRA", "small-lra"},
                                 {"our model of GPUfs, 4 KiB + prefetch", "small-original-4K+64K"},
                                 {"our model of GPUfs, 4 KiB", "small-original-4K"}};
  char const* const base = all.back().variant;
  char const* const unit = speedup ? "speed-up over our model of GPUfs" : "GB/s";
  std::string out;
  for (auto const& s : all) {
    std::vector<double> values;
    for (auto const& app : names(runs, &app_run::app)) {
      app_ratio const r{"", s.variant, base, true, 0, {}};
      auto const value = speedup ? ratio_of(runs, app, r) : median_io_GBps(runs, app, s.variant);
      if (!value) continue;
      values.push_back(*value);
      out += fmt::format("{},{},\"{}\",{:.6g},{}\n", figure, app, s.name, *value, unit);
    }
    if (auto const mean = geometric_mean_of(values))
      out += fmt::format("{},mean,\"{}\",{:.6g},{}\n", figure, s.name, *mean, unit);
  }
  return out.empty() ? out : "figure,app,series,value,unit\n" + out;
}

}  // namespace gpufs::apps
