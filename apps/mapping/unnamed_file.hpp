// A file without a name, for the input and output of a run. It is gone however the program ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gpufs::apps::workloads {

/// Empty at first. Its members throw std::system_error that names the folder.
class unnamed_file {
 public:
  explicit unnamed_file(std::string folder);
  ~unnamed_file();
  unnamed_file(unnamed_file const&) = delete;
  unnamed_file& operator=(unnamed_file const&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  /// Writes or reads all of the bytes at `offset`. A file that ends before is an error.
  void put(std::span<std::byte const> bytes, std::uint64_t offset);
  void get(std::span<std::byte> bytes, std::uint64_t offset) const;

 private:
  std::string folder_;
  int fd_;
};

}  // namespace gpufs::apps::workloads
