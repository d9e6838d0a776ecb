// Settings as lines of text, for callers that are not C++.
#pragma once

#include <gpufs/config.hpp>

#include <string_view>

namespace gpufs::owner {

/// Overrides `c` by lines `KEY = VALUE`. The value may stand in double quotes. `#` outside
/// them begins a comment. Throws config_error naming the line: no `=`, an unknown key, a wrong
/// value.
void load_text(config& c, std::string_view text);

}  // namespace gpufs::owner
