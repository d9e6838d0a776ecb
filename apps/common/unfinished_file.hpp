// Files that appear whole or not at all, also after a loss of power.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace gpufs::apps {

/// A file under another name until it is complete. What is there stays until then. If the new file
/// is not completed, nothing is left of it. A crash, or a signal that ends the program, may leave
/// it under the other name. It gets the permissions of a file that it replaces. A link stays, and
/// the file that it leads to is replaced. A link that leads nowhere is replaced itself.
class unfinished_file {
 public:
  /// Makes the file, empty, under a name beside `path` that is free and that nobody can guess.
  /// Throws std::system_error naming it, and std::runtime_error if `path` is no regular file.
  explicit unfinished_file(std::string path);
  ~unfinished_file();
  unfinished_file(unfinished_file const&) = delete;
  unfinished_file& operator=(unfinished_file const&) = delete;

  /// The name under which it is to be written.
  [[nodiscard]] std::string const& part() const { return part_; }

  /// Opens it for writing. Returns the descriptor, or -1 with errno.
  [[nodiscard]] int open_part() const;

  /// Makes its bytes and permissions durable, under the other name. Throws std::system_error naming
  /// it.
  void make_durable() const;

  /// Gives it its own name, once its bytes are durable, and returns when the name is durable, too.
  /// `replace::no`: only if there is no file of that name.
  /// Throws std::system_error naming the file.
  enum class replace { no, yes };
  void put_in_place(replace old = replace::yes) const;

 private:
  std::string path_;
  std::string part_;
  std::optional<mode_t> mode_;  ///< of the file that it replaces
};

/// Writes a file that appears whole or not at all, as an unfinished_file. What is no regular file,
/// or is open as stdout, stderr or under /dev/fd, is just written to.
/// Throws std::system_error naming the file.
void write_whole_file(std::string const& path, std::string_view bytes,
                      unfinished_file::replace old = unfinished_file::replace::yes);

}  // namespace gpufs::apps
