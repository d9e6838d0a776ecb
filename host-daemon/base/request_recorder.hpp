// Records the requests to the host: their times always, a line of the trace each if there is one.
#pragma once

#include <gpufs/host_times.hpp>

#include <host-daemon/base/ended_request.hpp>
#include <host-daemon/base/trace_lines.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace gpufs::daemon {

/// A file that knows its name as a JSON string.
template <class File>
concept has_traced_name = requires(File const& file) {
  { file.traced_name() }
  noexcept->std::convertible_to<std::string_view>;
};

/// One for each daemon thread, and one for all other callers together. Any thread calls; a thread
/// that has it to itself meets nobody.
class request_recorder {
 public:
  /// `trace`: null if there is none. Throws std::bad_alloc.
  explicit request_recorder(std::shared_ptr<trace_file> trace = {});

  /// Whether there is a trace. A name that must be made is made only then.
  [[nodiscard]] bool traces() const noexcept { return lines_ != nullptr; }

  /// Records a request. `file`: its name as a JSON string, empty unless traces().
  void record(ended_request const& r, std::string_view file) noexcept {
    count(r);
    if (lines_) [[unlikely]]
      lines_->add(r, file);
  }

  /// Records a request of `file`, whose name is asked for only if there is a trace.
  template <has_traced_name File>
  void record(ended_request const& r, File const& file) noexcept {
    count(r);
    if (lines_) [[unlikely]]
      lines_->add(r, file.traced_name());
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
