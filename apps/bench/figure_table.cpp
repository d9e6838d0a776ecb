#include <apps/bench/figure_table.hpp>
#include <apps/common/median.hpp>
#include <apps/common/unfinished_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpufs::apps {

void figure_table::add(std::string series, std::string kind, std::uint64_t x, std::string unit,
                       std::vector<double> const& values) {
  auto const [low, high] = std::ranges::minmax(values);
  rows.push_back(
      {std::move(series), std::move(kind), x, median(values), std::move(unit), low, high});
}

namespace {

void measure(figure_table& to, char const* kind, std::uint64_t x,
             std::vector<figure_series> const& all, sweep_control const& how) {
  std::vector<std::vector<double>> values(all.size());
  for (std::int64_t run = 0; run < how.runs; ++run) {
    how.first_run(run == 0);
    for (std::size_t i = 0; i < all.size(); ++i) {
      how.shown.say(fmt::format("figure {}: {}", to.number, all[i].name));
      values[i].push_back(all[i].measure(x));
      how.shown.advance(1);
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) to.add(all[i].name, kind, x, "GB/s", values[i]);
}

}  // namespace

void sweep(figure_table& to, std::vector<std::uint64_t> const& places,
           std::vector<figure_series> const& all, sweep_control const& how) {
  for (std::uint64_t const x : places) measure(to, "points", x, all, how);
}

void measure_lines(figure_table& to, std::vector<figure_series> const& all,
                   sweep_control const& how) {
  measure(to, "line", 0, all, how);
}

void write_csv(figure_table const& table, std::string const& path) {
  std::string text = "figure,series,kind,x,y,unit,low,high\n";
  for (auto const& r : table.rows) {
    text += fmt::format("{},\"{}\",{},{},{:.6g},{},{:.6g},{:.6g}\n", table.number, r.series, r.kind,
                        r.x, r.y, r.unit, r.low, r.high);
  }
  write_whole_file(path, text);
}

}  // namespace gpufs::apps
