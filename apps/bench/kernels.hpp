// The kernels of `gpufs bench`, as host code starts them.
#pragma once

#include <gpufs/fs_ref.hpp>

#include <apps/bench/access_plan.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace gpufs::apps {

/// Threads of a block whose warps read each for itself.
inline constexpr unsigned most_threads_by_warp = 512;

/// How a request's bytes are had.
enum class bench_way { gread, gmmap, array, async };

/// How the blocks of a benchmark read.
struct bench_shape {
  unsigned blocks = 1;
  unsigned threads = 32;
  bool by_warp = false;  ///< each warp for itself
  bench_way way = bench_way::gread;

  /// Those who each have their part of a plan.
  [[nodiscard]] constexpr std::uint64_t readers() const {
    return by_warp ? std::uint64_t{blocks} * (threads / 32) : blocks;
  }
};

/// A gread with an unexpected result: the number of bytes, or -errno.
struct bench_failure {
  bool failed = false;
  std::int64_t result = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Kernels that read a file by a plan, each reader into a buffer of its own. Made before the clock
/// starts: it allocates.
class file_reader {
 public:
  /// `plan` has as many blocks as the shape has readers. Throws device_error naming --req and
  /// --blocks if the device has no room for the buffers.
  file_reader(access_plan const& plan, bench_shape shape);
  ~file_reader();
  file_reader(file_reader const&) = delete;
  file_reader& operator=(file_reader const&) = delete;

  /// Runs the plan `repeat` times over in one kernel and waits for it. Returns the seconds it took,
  /// by the host's clock.
  double run(fs_ref const& fs, int fd, std::uint64_t repeat);

  /// Runs the plan once. result[access::number] gets the checksum of the bytes of that request. Not
  /// for timing.
  [[nodiscard]] std::vector<std::uint64_t> checksums(fs_ref const& fs, int fd);

  /// The first request that failed since the last call.
  [[nodiscard]] bench_failure take_failure();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

struct rpc_times {
  std::vector<double> seconds_per_round;  ///< of each sample of each block
  double seconds = 0;                     ///< of the whole kernel
  std::int32_t error = 0;                 ///< of a round trip that failed
};

/// Each block makes `samples` times `rounds` empty round trips to the daemon.
[[nodiscard]] rpc_times run_rpc(fs_ref const& fs, bench_shape shape, std::uint64_t samples,
                                std::uint64_t rounds);

}  // namespace gpufs::apps
