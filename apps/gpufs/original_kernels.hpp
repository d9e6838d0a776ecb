// The kernels that read by a plan through the baseline (apps/baseline), as host code starts them.
#pragma once

#include <apps/baseline/original_state.hpp>
#include <apps/gpufs/bench_kernels.hpp>

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

  /// Asks the host for each page of the plan's requests, and takes no notice of the bytes.
  double run_requests(original::ref const& fs);

  /// The checksum of what each request delivered is in result[access::number]. Not for timing.
  [[nodiscard]] std::vector<std::uint64_t> checksums(original::ref const& fs);

  /// The first read that failed since the last call.
  [[nodiscard]] bench_failure take_failure();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace gpufs::apps
