// Files that a program writes at its end, checked at its begin.
#pragma once

#include <string>
#include <vector>

namespace gpufs::apps {

struct report_file {
  std::string option;  ///< as "--json"
  std::string path;    ///< empty: none is written
};

/// Throws usage_error naming `option` unless a new file can be put at `path`: its folder is there
/// and may be written to. A link stands for what it leads to.
void check_target_folder(std::string const& option, std::string const& path);

/// Fails before any time is spent if a report could not be written, or would replace what is read
/// or another report. `only_read`: files, or block files by their nvme:KIND:PATH,... names.
/// Throws usage_error.
void check_report_files(std::vector<report_file> const& reports,
                        std::vector<std::string> const& only_read);

}  // namespace gpufs::apps
