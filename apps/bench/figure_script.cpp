#include <apps/bench/chart.hpp>
#include <apps/bench/figure_script.hpp>
#include <apps/common/print_error.hpp>
#include <apps/common/program.hpp>
#include <apps/common/script.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace gpufs::apps {

std::string required_program(std::string const& name) {
  auto const path = find_program(name);
  if (path.empty())
    throw usage_error(fmt::format("the program {} is needed beside this one", name));
  return path;
}

figure_results::figure_results(std::string folder, std::vector<std::string> const& names)
    : folder_(std::move(folder)) {
  for (auto const& name : names) ++states_[name].to_come;
}

std::string figure_results::path_of(std::string const& name) const {
  return fmt::format("{}/{}.jsonl", folder_, name);
}

std::string figure_results::file_of(std::string const& name) {
  if (name.empty()) return {};
  auto& file = states_.at(name).file;
  if (!file) file = std::make_unique<unfinished_file>(path_of(name));
  return file->part();
}

void figure_results::end_run(std::string const& name, bool is_good) {
  auto& s = states_.at(name);
  s.has_failed |= !is_good;
  if (--s.to_come != 0 || !s.file) return;
  if (s.has_failed)
    print_error("gpufs: {}: not written, as runs failed\n", path_of(name));
  else
    s.file->put_in_place();
  s.file.reset();
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
