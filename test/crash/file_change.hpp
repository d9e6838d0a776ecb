// The changes that a process makes to files, in the order in which it makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::test {

/// bytes        writes bytes at an offset
/// size         cuts or lengthens the file to `offset`
/// sync         makes a file, or the names in a folder, durable
/// sync_all     makes all files and names durable
/// put_name     gives a file, a link or a folder the name `path`
/// move_name    renames `path` to `to`
/// remove_name  takes `path` away
enum class change : std::uint32_t {
  bytes,
  size,
  sync,
  sync_all,
  put_name,
  move_name,
  remove_name,
};

/// What a call changes, as it is asked for.
struct file_change {
  change what = change::bytes;
  std::uint64_t inode = 0;   ///< of the file; names: of what is named
  std::uint64_t folder = 0;  ///< names: the inode of the folder, after a move that of `to`
  std::uint64_t offset = 0;
  std::string path{}, to{};  ///< absolute
  std::vector<std::byte> data{};
};

/// Where the functions of file_calls.cpp report to. A program that links them defines these three.
/// Any thread calls.
/// Whether changes are reported now.
[[nodiscard]] bool file_calls_wanted() noexcept;
/// Before a call. Returns a number for it.
[[nodiscard]] std::uint64_t file_call_begins(file_change&& what);
/// After it. `result`: bytes written, else 0; or -errno.
void file_call_ends(std::uint64_t number, std::int64_t result);

}  // namespace gpufs::test
