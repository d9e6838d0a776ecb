// The requests of one caller on their way to the trace.
#pragma once

#include <host-daemon/base/ended_request.hpp>
#include <host-daemon/base/trace_file.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

namespace gpufs::daemon {

/// Requests that follow each other and differ in time and offset only share a line, up to
/// `most_in_line` of them. docs/tracing.md has the form of a line.
///
/// Lines are kept until there are 64 KiB, or until the first of them is a second old and another
/// request comes, or flush(). All functions are thread-safe.
class trace_lines {
 public:
  static constexpr unsigned most_in_line = 256;

  explicit trace_lines(std::shared_ptr<trace_file> file);
  ~trace_lines();
  trace_lines(trace_lines const&) = delete;
  trace_lines& operator=(trace_lines const&) = delete;

  /// `file`: its name as a JSON string.
  void add(ended_request const& r, std::string_view file) noexcept;
  void flush() noexcept;
  /// Writes the lines if the first of them is a second old.
  void flush_old(ended_request::time_point now) noexcept;

  [[nodiscard]] std::shared_ptr<trace_file> const& file() const noexcept { return file_; }

 private:
  // What the requests of a line share.
  struct shared_part {
    ended_request first;
    std::uint64_t thread = 0;
    std::size_t name_at = 0, name_size = 0;  // in text_
    unsigned requests = 0;                   // 0: no line has been begun
  };

  [[nodiscard]] bool continues_line(ended_request const& r, std::string_view file) const noexcept;
  void begin_line(ended_request const& r, std::string_view file) noexcept;
  void end_line() noexcept;
  void write() noexcept;

  static constexpr std::size_t room = 64 << 10;
  static constexpr std::size_t longest_numbers = 320;  // of a line's begin and end, without names
  static constexpr std::size_t longest_request = 80;

  std::shared_ptr<trace_file> file_;
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<char[]> text_;
  std::size_t used_ = 0;
  std::uint64_t lines_ = 0;          // that have been ended
  shared_part line_;                 // the last one
  ended_request::time_point first_;  // when the first request in text_ was added
};

}  // namespace gpufs::daemon
