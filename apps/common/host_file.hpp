// A file as the host reads it: whole reads, and control of its pages in the OS page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace gpufs::apps {

/// A regular file, open for reading. Move-only.
class host_file {
 public:
  /// Throws std::system_error naming the path, or usage_error if it is not a regular file.
  explicit host_file(std::string path, int extra_flags = 0);
  /// A file whose bytes kernels find under another name.
  host_file(std::string path, std::string kernel_path);
  ~host_file();
  host_file(host_file&& other) noexcept;
  host_file& operator=(host_file&&) = delete;

  [[nodiscard]] int descriptor() const { return fd_; }
  [[nodiscard]] std::string const& path() const { return path_; }
  /// What kernels open: path(), unless another name was given.
  [[nodiscard]] std::string const& kernel_path() const {
    return kernel_path_.empty() ? path_ : kernel_path_;
  }
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Reads exactly `count` bytes at `offset`. Throws std::system_error naming the path; also if the
  /// file ends before.
  void read(void* buffer, std::size_t count, std::uint64_t offset) const;

  /// Writes the dirty pages of the file back and drops the file from the OS page cache. If pages
  /// remain, it drops the caches of the system, where that is allowed (/proc/sys/vm/drop_caches).
  void drop_from_page_cache() const;

  /// Brings bytes [0, count) into the OS page cache, with several threads.
  void load_into_page_cache(std::uint64_t count) const;

  /// Which part of the file the OS page cache holds, 0..1; nothing where the system does not tell
  /// (Linux before 6.5, no rights).
  [[nodiscard]] std::optional<double> cached_part() const;

 private:
  std::string path_;
  std::string kernel_path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

/// Whether a file that says it has no size has bytes all the same, as files of /proc have. Kernels
/// read such a file as empty.
[[nodiscard]] bool has_bytes_without_size(std::string const& path);

/// What a program says about such a file.
inline constexpr char const* bytes_without_size = "has bytes but no size, as files of /proc";

}  // namespace gpufs::apps
