// Draws a chart from a CSV, with scripts/plot.py.
#pragma once

#include <string>

namespace gpufs::apps {

/// Draws `csv` into `png`. The script lies beside the program or where it is installed. Returns an
/// empty text, or the reason why there is no chart and the remedy.
[[nodiscard]] std::string draw_chart(std::string const& csv, std::string const& png);

/// The name of the chart of NAME.csv: NAME.png.
[[nodiscard]] std::string png_beside(std::string const& csv);

}  // namespace gpufs::apps
