// The kernels that read by a plan through our model of GPUfs (apps/baseline), as host code starts
// them.
#pragma once

#include <apps/baseline/original_state.hpp>
#include <apps/bench/kernels.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace gpufs::apps {

/// As file_reader, for the baseline.
class original_reader {
 public:
  /// Throws device_error naming --req and --blocks if the device has no room for the buffers.
  original_reader(access_plan const& plan, bench_shape shape);
  ~original_reader();
  original_reader(original_reader const&) = delete;
  original_reader& operator=(original_reader const&) = delete;

  /// Runs the plan once and waits for it. Returns the seconds it took, by the host's clock.
  double run(original::ref const& fs);

  /// Requests each page of the plan's requests and ignores the bytes.
  double run_requests(original::ref const& fs);

  /// result[access::number] gets the checksum of the bytes of that request. Not for timing.
  [[nodiscard]] std::vector<std::uint64_t> checksums(original::ref const& fs);

  /// The first read that failed since the last call.
  [[nodiscard]] bench_failure take_failure();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace gpufs::apps
