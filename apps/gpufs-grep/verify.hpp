// --verify of gpufs-grep: the same counts, made on the host.
#pragma once

#include <apps/gpufs-grep/file_list.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::apps {

struct wrong_count {
  std::size_t file;  ///< its place in the list
  std::uint64_t on_host;
};

/// A file that the host could not read.
struct unverified_file {
  std::size_t file;
  std::string why;
};

struct verification {
  std::vector<wrong_count> wrong;
  std::vector<unverified_file> unverified;
  std::size_t compared = 0;  ///< files whose counts were compared

  /// Nothing speaks against the counts. Perhaps none was compared.
  [[nodiscard]] bool passed() const { return wrong.empty() && unverified.empty(); }
};

/// Counts the lines of each file on the host and compares. A count below 0 is of a file that the
/// device could not read, and is left out. Each thread holds a window of a file, or a whole line
/// where one is longer.
[[nodiscard]] verification verify_counts(std::vector<listed_file> const& files,
                                         std::vector<std::int64_t> const& counts,
                                         std::string const& word, std::size_t window = 4 << 20);

}  // namespace gpufs::apps
