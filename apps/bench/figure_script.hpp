// Studies that run other programs, and make figures of their JSON lines by a script.
#pragma once

#include <string>

namespace gpufs::apps {

/// The path of a program beside this one. Throws usage_error naming it if it is not there.
[[nodiscard]] std::string required_program(std::string const& name);

/// Has a script make CSVs and PNGs of the .jsonl files in `folder`. Returns whether it did; stderr
/// says why not.
[[nodiscard]] bool make_figures(std::string const& script, std::string const& folder,
                                std::string const& what);

}  // namespace gpufs::apps
