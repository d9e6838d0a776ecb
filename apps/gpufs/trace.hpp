// gpufs trace: sums up a trace of requests to the host, and draws it.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace gpufs::apps {

struct trace_options {
  std::string file;
  bool json = false;
  std::string picture;        ///< PNG to draw, empty: none
  std::int64_t slowest = 10;  ///< requests that are listed
};

void add_options(CLI::App& command, trace_options& o);

/// Prints the sums. Lines that are none of a trace are named on stderr.
/// Returns 0, status_failed if there were such lines, or 3 if there is no Python with matplotlib
/// for the picture. Throws std::runtime_error if the trace cannot be read or the picture fails.
int run_trace(trace_options const& o);

}  // namespace gpufs::apps
