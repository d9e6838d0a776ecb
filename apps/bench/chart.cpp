#include <apps/bench/chart.hpp>
#include <apps/common/script.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace gpufs::apps {

std::string png_beside(std::string const& csv) {
  std::string_view const ending = ".csv";
  return (csv.ends_with(ending) ? csv.substr(0, csv.size() - ending.size()) : csv) + ".png";
}

std::string draw_chart(std::string const& csv, std::string const& png) {
  std::string const script_name = "plot.py";
  std::string const script = find_script(script_name);
  if (script.empty())
    return fmt::format("{} is not beside this program: run it on {}", script_name, csv);
  std::string const python = python_with("matplotlib");
  if (python.empty()) {
    return fmt::format(
        "charts need Python with matplotlib (package python3-matplotlib); later: python3 {} {}",
        script, csv);
  }
  if (run_script(python, script, {csv, png}) != 0)
    return fmt::format("{} failed on {}", script, csv);
  return {};
}

}  // namespace gpufs::apps
