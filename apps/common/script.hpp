// Python scripts that lie beside the programs.
#pragma once

#include <string>
#include <vector>

namespace gpufs::apps {

/// A script beside this program, or where it is installed; empty if it is in neither place.
[[nodiscard]] std::string find_script(std::string const& name);

/// Runs a script (as find_script() found it) by the distribution's Python, and if that gives
/// `try_next` by the first one on the PATH. Returns the exit status, or -1 if it could not be run
/// or did not end by itself.
[[nodiscard]] int run_script(std::string const& script, std::vector<std::string> const& arguments,
                             int try_next);

}  // namespace gpufs::apps
