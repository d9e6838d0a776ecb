// Many small files, for the row `files` of `gpufs bench patterns`.
#pragma once

#include <apps/common/temporary_folder.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::apps {

/// Files of equal size in a folder of their own, which goes with this object. A signal that ends
/// the program leaves it.
class small_files {
 public:
  /// Makes `count` files of `bytes` bytes, a multiple of 8, with contents of their own.
  /// Throws std::system_error naming the folder or the file.
  small_files(std::string const& folder, std::uint64_t count, std::uint64_t bytes);
  ~small_files();
  small_files(small_files const&) = delete;
  small_files& operator=(small_files const&) = delete;

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  /// All paths one behind the other, each NUL-terminated and name_bytes() long.
  [[nodiscard]] std::vector<char> names() const;
  [[nodiscard]] std::uint64_t name_bytes() const { return path(0).size() + 1; }

  /// The checksum of the contents of file `i`.
  [[nodiscard]] std::uint64_t checksum_of(std::uint64_t i) const;

  /// `threads` threads open, read and close all files. Returns the seconds it took.
  /// Throws std::system_error naming a file that cannot be read.
  [[nodiscard]] double read_by_host(unsigned threads) const;

 private:
  [[nodiscard]] std::string path(std::uint64_t i) const;
  [[nodiscard]] std::vector<std::uint64_t> contents(std::uint64_t i) const;
  void make(std::uint64_t i) const;
  void remove() const;

  temporary_folder folder_;
  std::uint64_t count_;
  std::uint64_t bytes_;
};

}  // namespace gpufs::apps
