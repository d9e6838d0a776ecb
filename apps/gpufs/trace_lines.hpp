// The lines of a trace (setting `trace`), parsed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps {

/// A request to the host.
struct traced_request {
  std::uint64_t line = 0;  ///< the number of its line in the trace, from 1; others may share it
  std::string op, path;
  std::size_t file = 0;  ///< index in trace_lines::files
  std::uint64_t begin_ns = 0, duration_ns = 0, thread = 0;
  std::uint64_t offset = 0, length = 0, bytes = 0;
  int error = 0;  ///< errno, 0: none

  [[nodiscard]] std::uint64_t end_ns() const { return begin_ns + duration_ns; }
};

/// A line that is none of a trace.
struct malformed_line {
  std::uint64_t line = 0;
  std::string why;
};

struct trace_lines {
  std::vector<std::string> files;
  std::vector<traced_request> requests;  ///< in the order of the lines
  std::vector<malformed_line> malformed;
  std::uint64_t begun = 0, ended = 0;  ///< filesystems that began and ended the trace
  std::uint64_t dropped = 0;           ///< lines that could not be written, as the ends say
};

/// Reads a trace. Throws std::runtime_error, naming the file, if it cannot be read.
[[nodiscard]] trace_lines read_trace(std::string const& file);

/// The same of text that is there already.
[[nodiscard]] trace_lines parse_trace(std::string_view text);

}  // namespace gpufs::apps
