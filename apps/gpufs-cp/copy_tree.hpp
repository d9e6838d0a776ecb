// The host's part of a copy: folders, links, empty target files, and the list of files that the kernel fills.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::apps {

struct copied_file {
  std::string from;
  std::string to;
  std::uint64_t bytes = 0;
};

struct copy_plan {
  std::vector<copied_file> files;
  std::vector<std::pair<std::string, std::string>> errors;  ///< path, what is wrong with it
};

/// Makes everything of `source` at `target` but the files' bytes: folders, links, empty files with the same permissions. As with `cp -a`, an
/// existing folder `target` gets `source` below it; symbolic links are copied as they are, wherever they lead from their new place, and a
/// file with several names in the tree has them in the copy. Devices, FIFOs and sockets are errors.
[[nodiscard]] copy_plan prepare_copy(std::string const& source, std::string const& target);

}  // namespace gpufs::apps
