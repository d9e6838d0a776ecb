// The files of an application on disk: generated into nameless temporary files, or kept in a folder
// for the next run.
#pragma once

#include <apps/common/host_file.hpp>
#include <apps/common/temp_file.hpp>
#include <apps/harness/arrays.hpp>
#include <apps/harness/input_file.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::apps {

/// A file mapped for reading. Its bytes stay valid while it lives, and change with the file.
class mapped_file {
 public:
  /// Throws std::system_error naming the path.
  explicit mapped_file(host_file const& file);
  ~mapped_file();
  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&&) = delete;
  [[nodiscard]] std::span<std::byte const> bytes() const { return bytes_; }

 private:
  std::span<std::byte const> bytes_;
};

/// All files of an application, mapped. While it lives their pages cannot leave the OS page cache.
class mapped_inputs {
 public:
  explicit mapped_inputs(std::vector<mapped_file> files) : files_(std::move(files)) {}

  /// Valid while this object lives.
  [[nodiscard]] host_inputs view() const {
    host_inputs in;
    for (auto const& f : files_) in.files.push_back(f.bytes());
    return in;
  }

 private:
  std::vector<mapped_file> files_;
};

/// One file, and what should be in it.
struct data_file {
  host_file file;
  std::vector<file_section> sections;
  std::uint64_t checksum;  ///< of what was generated, or of the real file when it was opened
};

class data_set {
 public:
  /// Makes the files, or finds them. In `folder` a file NAME has a sidecar NAME.meta (text,
  /// key=value) that says how it was generated. A file is used again if `origin` (all that decides
  /// the contents), size and version agree. Without a folder the files have no names and go with
  /// this object.
  /// Throws usage_error naming the folder, --input or a file in the way; a file without a sidecar
  /// is not overwritten. Throws std::system_error if a file cannot be made; nothing is left of it
  /// then.
  data_set(std::vector<input_file> const& files, std::string const& origin,
           std::string const& folder);

  [[nodiscard]] std::vector<data_file> const& files() const { return files_; }

  /// The files' bytes.
  [[nodiscard]] mapped_inputs map() const;

  /// Compares the files with what was generated. Returns the file that differs, or an empty text.
  [[nodiscard]] std::string changed() const;

 private:
  std::vector<std::unique_ptr<temp_file>> nameless_;
  std::vector<data_file> files_;
};

/// checksum() of `bytes`, by all threads.
[[nodiscard]] std::uint64_t parallel_checksum(std::span<std::byte const> bytes);

}  // namespace gpufs::apps
