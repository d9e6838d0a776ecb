#include <apps/bench/chart.hpp>
#include <apps/bench/figure_script.hpp>
#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>
#include <apps/common/script.hpp>

#include <fmt/format.h>

#include <cstdio>

namespace gpufs::apps {

std::string required_program(std::string const& name) {
  auto const path = find_program(name);
  if (path.empty())
    throw usage_error(fmt::format("the program {} is needed beside this one", name));
  return path;
}

bool make_figures(std::string const& script, std::string const& folder, std::string const& what) {
  auto const path = find_script(script);
  if (path.empty()) {
    print_error("gpufs: {} is not beside this program: run it on {}\n", script, folder);
    return false;
  }
  auto python = python_with("matplotlib");  // for the PNGs
  if (python.empty()) python = python_with("csv");
  return run_script(python, path, {folder, chart_note(what)}) == 0;
}

}  // namespace gpufs::apps
