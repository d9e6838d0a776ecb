// The file that requests to the host are traced to: a JSON object on each line.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace gpufs::daemon {

class trace_lines;

/// Filesystems of a process that trace to the same file share the object. All functions are
/// thread-safe.
///
/// The first open in a process begins the file anew. Later ones, and those of other processes while
/// it is in use, add to it. Only whole lines are written, each write adds to the end. What cannot
/// be written is dropped, counted, and said once on the log and at the end.
class trace_file {
 public:
  /// Opens a trace, an empty file or a character device, or makes a file. "%p" in `name` stands for
  /// the number of the process. Returns null, and why, if that is not possible. Throws
  /// std::bad_alloc.
  [[nodiscard]] static std::shared_ptr<trace_file> open(std::string const& name, std::string& why);

  /// Writes the last line. In a child of fork() it writes nothing.
  ~trace_file();
  trace_file(trace_file const&) = delete;
  trace_file& operator=(trace_file const&) = delete;

  [[nodiscard]] std::string const& name() const noexcept { return name_; }

  /// Adds whole lines, `number` of them.
  void write(std::string_view lines, std::uint64_t number) noexcept;

  /// The lines that could not be written.
  [[nodiscard]] std::uint64_t dropped() const;

  /// Has the buffers that add_buffer() named written, then says what was dropped. For the end of
  /// the process, when their owners may still live.
  void end() noexcept;

  void add_buffer(trace_lines& buffer);
  void remove_buffer(trace_lines& buffer) noexcept;

 private:
  trace_file(std::string name, int fd) : name_{std::move(name)}, fd_{fd} {}

  static int open_descriptor(std::string const& name, std::string& why);
  void write_first_line();
  void write_last_line() noexcept;
  bool write_tail() noexcept;
  void drop(std::uint64_t lines, int error) noexcept;
  void cut_tail() noexcept;

  std::string name_;
  int fd_;
  pid_t process_ = -1;        // that opened it
  mutable std::mutex mutex_;  // guards what follows
  std::string tail_;          // the rest of a line of which a part is written,
  std::uint64_t cut_ = 0;     // and the bytes of that part
  int tail_error_ = 0;        // why the rest is left
  std::uint64_t lines_ = 0, dropped_ = 0;
  int error_ = 0;  // the first that dropped lines
  bool ended_ = false;
  std::mutex buffers_mutex_;  // guards what follows; before the locks of the buffers
  std::vector<trace_lines*> buffers_;
};

}  // namespace gpufs::daemon
