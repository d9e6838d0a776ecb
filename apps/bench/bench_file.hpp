// The file that a benchmark reads: the one that was named, or a temporary one.
#pragma once

#include <apps/common/host_file.hpp>
#include <apps/common/temp_file.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::apps {

class bench_file {
 public:
  /// `path` empty: makes one of `bytes` bytes in `folder`. A block file (nvme_spec) of several
  /// members, of memory or of drives gets a copy there, which the host reads in its place.
  /// Throws usage_error naming --file or --dir, std::system_error, and as filesystem::attach().
  bench_file(std::string const& path, std::string const& folder, std::uint64_t bytes,
             std::uint64_t seed);

  [[nodiscard]] host_file const& operator*() const { return files_.front(); }
  [[nodiscard]] host_file const* operator->() const { return &files_.front(); }
  [[nodiscard]] std::vector<host_file> const& all() const { return files_; }  ///< just it
  [[nodiscard]] std::string const& name() const { return name_; }             ///< for reports

  /// Whether the host reads a copy of drives, as large as --size says.
  [[nodiscard]] static bool is_copy_of_drives(std::string const& path);
  /// Whether its bytes are generated, by --seed.
  [[nodiscard]] static bool is_generated(std::string const& path);
  /// Throws usage_error if --dir was given beside a --file that needs no file there.
  static void check_folder(std::string const& path, std::string const& folder);
  /// For CLI::Option::check(): throws usage_error unless --size is from 1 byte to 256T.
  static std::string check_size(std::string const& text);

  static constexpr std::uint64_t largest = 1ull << 48;  ///< bytes that --size may name

  /// What --help says of names.
  static constexpr char help[] =
      "file to read, or nvme:mem:SIZE, nvme:soft:PATH,..., nvme:direct:PATH,... (past the OS page "
      "cache), nvme:vfio:ADDRESS,... or nvme:relay:ADDRESS,... (doorbells by a thread of the host) "
      "for a block file; default: a temporary one";

 private:
  std::unique_ptr<temp_file> made_;
  std::vector<host_file> files_;
  std::string name_;
};

}  // namespace gpufs::apps
