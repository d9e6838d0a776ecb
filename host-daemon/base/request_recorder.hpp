// Records the requests to the host: their times always, a line of the trace each if there is one.
#pragma once

#include <gpufs/host_times.hpp>

#include <host-daemon/base/trace_file.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace gpufs::daemon {

/// A request that has ended.
struct ended_request {
  using time_point = std::chrono::steady_clock::time_point;

  host_request kind;
  char const* path = "";  ///< the way of the bytes; see docs/tracing.md
  std::uint64_t offset = 0, length = 0;
  std::int64_t result = 0;  ///< bytes, 0, or -errno
  time_point begin{}, end{};
};

/// The lines of one caller on their way to the trace. It keeps them until there are 64 KiB, or
/// until the first of them is a second old and another comes, or flush().
class trace_lines {
 public:
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
  void write() noexcept;

  static constexpr std::size_t room = 64 << 10;
  static constexpr std::size_t longest_numbers = 320;  // of a line: all but names

  std::shared_ptr<trace_file> file_;
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<char[]> text_;
  std::size_t used_ = 0;
  std::uint64_t lines_ = 0;
  ended_request::time_point first_;  // when the first of them was added
};

/// One for each daemon thread, and one for all other callers together. Any thread calls; a thread
/// that has it to itself meets nobody.
class request_recorder {
 public:
  /// `trace`: null if there is none. Throws std::bad_alloc.
  explicit request_recorder(std::shared_ptr<trace_file> trace = {});

  /// Whether there is a trace. Callers look up the name of a file only then.
  [[nodiscard]] bool traces() const noexcept { return lines_ != nullptr; }

  /// Records a request. `file`: its name as a JSON string, empty unless traces().
  void record(ended_request const& r, std::string_view file) noexcept {
    count(r);
    if (lines_) [[unlikely]]
      lines_->add(r, file);
  }

  void flush() noexcept {
    if (lines_) lines_->flush();
  }
  void flush_old(ended_request::time_point now) noexcept {
    if (lines_) lines_->flush_old(now);
  }

  /// The trace, null if there is none.
  [[nodiscard]] std::shared_ptr<trace_file> trace() const noexcept {
    return lines_ ? lines_->file() : nullptr;
  }

  /// Adds what was counted.
  void add_to(host_times& times) const noexcept;

 private:
  struct counts {
    std::array<std::atomic<std::uint64_t>, time_histogram::buckets> count{};
    std::atomic<std::uint64_t> total_ns{0};
  };

  // The counts order nothing.
  void count(ended_request const& r) noexcept {
    auto const ns = std::chrono::nanoseconds{r.end - r.begin}.count();
    auto const time = std::uint64_t(ns < 0 ? 0 : ns);
    auto& c = counts_[std::size_t(r.kind)];
    c.count[time_histogram::bucket_of(time)].fetch_add(1, std::memory_order_relaxed);
    c.total_ns.fetch_add(time, std::memory_order_relaxed);
  }

  alignas(64) std::array<counts, host_request_kinds> counts_;
  std::unique_ptr<trace_lines> lines_;
};

}  // namespace gpufs::daemon
