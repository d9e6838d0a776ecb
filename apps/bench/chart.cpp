#include <apps/bench/chart.hpp>
#include <apps/common/script.hpp>

#include <fmt/format.h>

#include <string>

namespace gpufs::apps {

std::string draw_chart(std::string const& csv, std::string const& png) {
  constexpr int no_matplotlib = 3;  // the script's exit status
  std::string const script_name = "plot.py";
  std::string const script = find_script(script_name);
  if (script.empty())
    return fmt::format("{} is not beside this program: run it on {}", script_name, csv);
  int const status = run_script(script, {csv, png}, no_matplotlib);
  if (status == 0) return {};
  if (status != no_matplotlib && status != -1 && status != 127)
    return fmt::format("{} failed on {}", script, csv);
  return fmt::format(
      "charts need Python with matplotlib (package python3-matplotlib); later: python3 {} {}",
      script, csv);
}

}  // namespace gpufs::apps
