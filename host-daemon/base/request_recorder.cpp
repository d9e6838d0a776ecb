// Sums of times.
#include <host-daemon/base/request_recorder.hpp>

#include <utility>

namespace gpufs::daemon {

request_recorder::request_recorder(std::shared_ptr<trace_file> trace) {
  if (trace) lines_ = std::make_unique<trace_lines>(std::move(trace));
}

void request_recorder::add_to(host_times& times) const noexcept {
  for (std::size_t kind = 0; kind < counts_.size(); ++kind) {
    auto const& c = counts_[kind];
    for (std::size_t b = 0; b < time_histogram::buckets; ++b)
      times[kind].count[b] += c.count[b].load(std::memory_order_relaxed);
    times[kind].total_ns += c.total_ns.load(std::memory_order_relaxed);
  }
}

}  // namespace gpufs::daemon
