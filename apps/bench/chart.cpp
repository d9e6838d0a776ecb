#include <gpufs/device.hpp>
#include <gpufs/version.hpp>

#include <apps/bench/chart.hpp>
#include <apps/common/script.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <string>
#include <string_view>

namespace gpufs::apps {

std::string png_beside(std::string const& csv) {
  std::string_view const ending = ".csv";
  return (csv.ends_with(ending) ? csv.substr(0, csv.size() - ending.size()) : csv) + ".png";
}

std::string chart_note(std::string const& what) {
  return fmt::format("{}, {:%Y-%m-%d}: {}. gpufs {}{}", current_device().name,
                     fmt::gmtime(std::time(nullptr)), what, GPUFS_VERSION_STRING,
                     current_device().kind == "emulated" ? ". Speeds say nothing about a GPU" : "");
}

std::string draw_chart(std::string const& csv, std::string const& png, std::string const& what) {
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
  if (run_script(python, script, {csv, png, chart_note(what)}) != 0)
    return fmt::format("{} failed on {}", script, csv);
  return {};
}

}  // namespace gpufs::apps
