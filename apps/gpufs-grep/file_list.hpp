// The files that `grep -r` would search.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::apps {

struct listed_file {
  std::string path;  ///< as grep prints it
  std::uint64_t bytes = 0;
};

struct file_list {
  std::vector<listed_file> files;
  std::vector<std::pair<std::string, std::string>> errors;  ///< path, why it is not searched
};

/// All regular files below `operands`, each operand's sorted by path. As with `grep -r`: symbolic
/// links are followed where they are operands, and skipped below them; so are devices, FIFOs and
/// sockets. These are errors: operands that are neither file nor folder; files that have bytes, but
/// no size, as those of /proc.
[[nodiscard]] file_list list_files(std::vector<std::string> const& operands);

}  // namespace gpufs::apps
