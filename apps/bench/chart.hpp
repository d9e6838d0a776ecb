// Draws a chart from a CSV, with scripts/plot.py.
#pragma once

#include <string>

namespace gpufs::apps {

/// The line below a picture: device, date, and what was run how often.
[[nodiscard]] std::string chart_note(std::string const& what);

/// Draws `csv` into `png`, with chart_note(what) below. The script lies beside the program or where
/// it is installed. Returns an empty text, or the reason why there is no chart and the remedy.
[[nodiscard]] std::string draw_chart(std::string const& csv, std::string const& png,
                                     std::string const& what);

/// The name of the chart of NAME.csv: NAME.png.
[[nodiscard]] std::string png_beside(std::string const& csv);

}  // namespace gpufs::apps
