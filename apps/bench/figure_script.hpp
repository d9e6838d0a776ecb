// Studies that run other programs, and make figures of their JSON lines by a script.
#pragma once

#include <apps/common/unfinished_file.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::apps {

/// The path of a program beside this one. Throws usage_error naming it if it is not there.
[[nodiscard]] std::string required_program(std::string const& name);

/// NAME.jsonl in a folder, with the JSON lines of all runs of a name. An older one stays until the
/// last of these runs has ended, and if one of them fails.
class figure_results {
 public:
  /// `names`: of each run that will come. Those without results have empty ones.
  figure_results(std::string folder, std::vector<std::string> const& names);

  /// The file that a run of the name appends to; empty if it has no results.
  /// Throws std::system_error.
  [[nodiscard]] std::string file_of(std::string const& name);
  /// A run of the name has ended. Throws std::system_error.
  void end_run(std::string const& name, bool is_good);

 private:
  struct state {
    std::size_t to_come = 0;
    bool has_failed = false;
    std::unique_ptr<unfinished_file> file;
  };

  [[nodiscard]] std::string path_of(std::string const& name) const;

  std::string folder_;
  std::map<std::string, state> states_;
};

/// Has a script make CSVs and PNGs of the .jsonl files in `folder`. Returns whether it did; stderr
/// says why not.
[[nodiscard]] bool make_figures(std::string const& script, std::string const& folder,
                                std::string const& what);

}  // namespace gpufs::apps
