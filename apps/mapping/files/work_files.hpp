// The files of a workload: made by the generator, removed at the end.
#pragma once

#include <apps/common/temporary_folder.hpp>
#include <apps/mapping/files/file_object.hpp>
#include <apps/mapping/options.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::apps::workloads {

/// The files NAME.mem of objects. Inputs are made once, for all runs of a process that have the
/// same ones. Updated files are made anew, and outputs are made by the run.
class work_files {
 public:
  /// In folders within that of the setup. Throws std::system_error naming the file.
  work_files(setup const& of, std::vector<file_object> const& objects);

  /// Writes dirty pages of the files back and drops the files from the OS page cache.
  void drop_from_page_cache() const;

  [[nodiscard]] std::vector<file_object> const& objects() const { return objects_; }
  [[nodiscard]] file_object const& object(unsigned i) const { return objects_.at(i); }
  [[nodiscard]] std::string path(unsigned object) const;

  /// Reads bytes of the file as it is now. Throws std::system_error naming it.
  void read(unsigned object, std::uint64_t offset, void* to, std::uint64_t bytes) const;

 private:
  [[nodiscard]] static std::shared_ptr<temporary_folder> inputs_of(
      setup const& of, std::vector<file_object> const& objects);

  std::vector<file_object> objects_;
  std::shared_ptr<temporary_folder> inputs_;
  temporary_folder own_;
};

/// A file that is open while this lives.
class open_file_of {
 public:
  /// Throws std::system_error naming the path.
  open_file_of(std::string path, int flags);
  ~open_file_of();
  open_file_of(open_file_of&& other) noexcept;
  open_file_of& operator=(open_file_of&&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::string const& path() const { return path_; }

  /// All of these bytes. Throw std::system_error naming the path; also if the file ends before.
  void read(void* to, std::uint64_t bytes, std::uint64_t offset) const;
  void write(void const* from, std::uint64_t bytes, std::uint64_t offset) const;
  /// Throws std::system_error naming the path.
  void make_durable() const;

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace gpufs::apps::workloads
