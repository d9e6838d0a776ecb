// Files for tests: a folder that goes away, contents made from a seed, and what pread says they
// are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gpufs::test {

/// A folder that goes away, with all that is in it, at the end of the test. Everybody may search
/// it.
class scratch_folder {
 public:
  scratch_folder();
  ~scratch_folder();
  scratch_folder(scratch_folder const&) = delete;
  scratch_folder& operator=(scratch_folder const&) = delete;

  [[nodiscard]] std::string operator/(std::string const& name) const {
    return (path_ / name).string();
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Writes `length` bytes at `offset`, making the file if need be. The bytes depend on `contents`
/// and on their own offset only. Throws std::system_error.
void write_range(std::string const& file, std::uint64_t contents, std::uint64_t offset,
                 std::uint64_t length);

/// Makes a file of `size` bytes, with contents as of write_range(), in `folder`; returns its path.
std::string make_file(scratch_folder const& folder, std::string const& name, std::uint64_t size,
                      std::uint64_t contents = 1);

/// Sets the size of a file, making it if need be; what it gains is a hole. Throws
/// std::system_error: the file system allows no such size.
void set_size(std::string const& file, std::uint64_t size);

/// Returns once the file's time stamps are old enough to be told from those of a later change:
/// gpufs trusts no younger ones.
void let_stamps_age(std::string const& file);

/// The bytes that pread(2) gives, as many as there are up to `count`.
std::vector<std::byte> pread_bytes(std::string const& file, std::uint64_t offset,
                                   std::uint64_t count);
/// All that is in a file.
std::string text_of(std::string const& file);

/// Writes bytes to the file's beginning, making it if need be. Throws std::system_error.
void write_bytes(std::string const& file, std::vector<std::byte> const& bytes);

}  // namespace gpufs::test
