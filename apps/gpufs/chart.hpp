// Draws a chart from a CSV, with scripts/plot.py.
#pragma once

#include <string>

namespace gpufs::apps {

/// Writes the chart of `csv` to `png`. The script lies beside the program or where it is installed.
/// Returns why it could not, with what to do; empty if it is there.
[[nodiscard]] std::string draw_chart(std::string const& csv, std::string const& png);

}  // namespace gpufs::apps
