// Reads of the host alone, without a device: the "CPU I/O" of the GPUfs readahead paper, and the
// reads of its host threads, done again.
#pragma once

#include <gpufs/testing/faults.hpp>

#include <apps/common/host_file.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace gpufs::apps {

struct traced_read {
  std::uint64_t offset;
  std::uint64_t bytes;
};

/// What each of several threads reads, in order.
using read_trace = std::vector<std::vector<traced_read>>;

/// `threads` threads that each read their own consecutive part of [0, bytes), `request` bytes at a
/// time.
[[nodiscard]] read_trace sequential_trace(unsigned threads, std::uint64_t bytes,
                                          std::uint64_t request);

/// Carries a trace out, each list by a thread of its own into memory that was touched before: GB/s.
/// Throws std::system_error.
[[nodiscard]] double replay_GBps(host_file const& file, read_trace const& trace);

/// Records the reads of the daemon threads of a filesystem. It takes the place of a fault injector
/// and injects no faults.
class trace_recorder : public testing::fault_injector {
 public:
  trace_recorder();
  testing::fault_action before_read(rpc::request const& request, std::uint64_t offset,
                                    std::uint64_t length) override;

  /// The reads so far, a list per daemon thread. Not while a kernel runs.
  [[nodiscard]] read_trace take();

 private:
  std::vector<traced_read>& mine();

  std::uint64_t const number_;  // of this recorder, never used again
  std::mutex mutex_;            // guards lists_, not what they hold
  std::vector<std::unique_ptr<std::vector<traced_read>>> lists_;
};

}  // namespace gpufs::apps
