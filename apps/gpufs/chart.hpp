// Draws a chart from a CSV, with scripts/plot_figure.py.
#pragma once

#include <string>

namespace gpufs::apps {

/// Writes the chart of `csv` to `png`, with `script`, which lies beside the program or where it is installed. Returns why it could not, with what to do; empty if it is there.
[[nodiscard]] std::string draw_chart(std::string const& csv, std::string const& png,
                                     std::string const& script = "plot_figure.py");

}  // namespace gpufs::apps
