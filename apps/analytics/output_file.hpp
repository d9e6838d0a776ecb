// The file that a run writes.
#pragma once

#include <apps/common/temp_file.hpp>
#include <apps/harness/data_set.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::apps::analytics {

/// A file for the results of runs, each of which begins with an empty one.
class output_file {
 public:
  /// Makes the file, or opens it as it is: clear() empties it. Without a path it has no name and
  /// goes with this object. `inputs`: files that it may not be. Throws usage_error naming --output.
  output_file(std::string const& path, std::vector<data_file> const& inputs);
  ~output_file();
  output_file(output_file const&) = delete;
  output_file& operator=(output_file const&) = delete;

  [[nodiscard]] std::string const& path() const { return path_; }

  // The rest throws std::system_error naming the path.

  void clear() const;
  void write(std::byte const* from, std::uint64_t bytes, std::uint64_t offset) const;
  /// The same with 8 threads.
  void write_by_threads(std::byte const* from, std::uint64_t bytes, std::uint64_t offset) const;
  void make_durable() const;

 private:
  std::unique_ptr<temp_file> nameless_;
  std::string path_;
  int fd_ = -1;
};

}  // namespace gpufs::apps::analytics
