// The kernels of `gpufs bench patterns` that no other benchmark has.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>

#include <apps/bench/access_plan.hpp>
#include <apps/bench/kernels.hpp>
#include <apps/bench/small_files.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpufs::apps {

/// Random floats of a file or of memory. Draw i is element generate_below(seed, i, elements).
struct float_draws {
  std::uint64_t elements = 0;
  std::uint64_t draws = 0;  ///< a multiple of float_draws_together
  std::uint64_t seed = 0;
};
inline constexpr std::uint64_t float_draws_together = 8;

struct float_result {
  double seconds = 0;
  std::uint64_t sum = 0;   ///< of float_term() of all draws
  std::int32_t error = 0;  ///< the first one of an array
};

/// What draw `i` adds to the sum, if its element has these bits.
[[nodiscard]] constexpr std::uint64_t float_term(std::uint32_t bits, std::uint64_t i) {
  return base::mix64((i << 32 | bits) + golden_gamma);
}

/// Reads the draws with array<float const>. Throws device_error.
[[nodiscard]] float_result read_floats(fs_ref const& fs, int fd, float_draws const& what);
/// The same with plain loads of memory that the device can read.
[[nodiscard]] float_result read_floats(float const* memory, float_draws const& what);

/// A block alone makes the requests of a plan one after the other, in another order. Returns the
/// seconds of one request, for each group of `together` requests.
/// Throws device_error, or std::runtime_error when a request fails.
[[nodiscard]] std::vector<double> time_requests(fs_ref const& fs, int fd, access_plan const& plan,
                                                unsigned threads, std::uint64_t together);

/// Each warp opens, reads and closes files. Throws device_error, or std::runtime_error when
/// something fails.
class small_file_reader {
 public:
  small_file_reader(small_files const& files, bench_shape shape);

  /// Returns the seconds it took.
  [[nodiscard]] double run(fs_ref const& fs);
  /// Not for timing. Returns the number of files whose bytes are wrong.
  [[nodiscard]] std::uint64_t count_wrong(fs_ref const& fs);

 private:
  void launch_and_wait(fs_ref const& fs, std::uint64_t* sums);

  small_files const& files_;
  bench_shape shape_;
  buffer<char> names_;
  buffer<std::byte> buffers_;
  buffer<std::int64_t> failure_;
};

}  // namespace gpufs::apps
