// The CSV of `gpufs bench apps`: the runs that are read back, and what is made of them.
#include <apps/bench/apps_table.hpp>
#include <apps/common/program.hpp>
#include <test/fuzz/input.hpp>

using namespace gpufs;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::input in{data, size};
  auto const path = fuzz::put_file("bfs.csv", in.rest());
  std::vector<apps::app_run> runs;
  try {
    runs = apps::read_runs(path, "bfs");
  } catch (apps::usage_error const&) {
    return 0;
  }
  for (auto const& r : runs)
    require(r.app == "bfs" && r.bytes > 0 && r.io_seconds > 0 && r.seconds > 0, "a possible run");
  for (auto const& ratio : apps::app_ratios()) static_cast<void>(geometric_mean(runs, ratio));
  static_cast<void>(to_markdown(runs, ""));
  for (int figure = 11; figure <= 14; ++figure) static_cast<void>(figure_csv(runs, figure));
  apps::write_runs(runs, path);
  auto const again = apps::read_runs(path, "bfs");
  require(again.size() == runs.size(), "what was written can be read");
  for (std::size_t i = 0; i < runs.size(); ++i)
    require(again[i].variant == runs[i].variant && again[i].bytes == runs[i].bytes,
            "a run is read back the same");
  return 0;
}
