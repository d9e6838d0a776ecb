// What `gpufs trace` prints.
#pragma once

#include <apps/gpufs/trace_sums.hpp>

#include <string>

namespace gpufs::apps {

[[nodiscard]] std::string to_text(trace_lines const& trace, trace_sums const& sums);

/// One JSON object.
[[nodiscard]] std::string to_json(trace_lines const& trace, trace_sums const& sums);

}  // namespace gpufs::apps
