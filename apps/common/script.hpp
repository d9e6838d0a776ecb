// Python scripts that lie beside the programs.
#pragma once

#include <string>
#include <vector>

namespace gpufs::apps {

/// A script beside this program, or where it is installed; empty if it is in neither place.
[[nodiscard]] std::string find_script(std::string const& name);

/// A Python that has `module`: the first one on the PATH, as that of a virtual environment, or the
/// distribution's; empty if neither has it.
[[nodiscard]] std::string python_with(std::string const& module);

/// A program beside this one; empty if it is not there.
[[nodiscard]] std::string find_program(std::string const& name);

/// Runs a program with its arguments, the first word of which names it. What it prints on stdout is
/// appended to the file `output`, if that is not empty. Returns as run_script().
[[nodiscard]] int run_command(std::vector<std::string> const& words,
                              std::string const& output = {});

/// Runs a script (as find_script() found it). Returns the exit status, or -1 if it could not be run
/// or did not end by itself.
[[nodiscard]] int run_script(std::string const& python, std::string const& script,
                             std::vector<std::string> const& arguments);

/// run_script() for pictures.py, by a Python that has Pillow if there is one.
[[nodiscard]] int run_picture_script(std::string const& script,
                                     std::vector<std::string> const& arguments);

}  // namespace gpufs::apps
