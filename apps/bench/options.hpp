// The command line of `gpufs bench`, and the plan that follows from it.
#pragma once

#include <gpufs/config.hpp>

#include <apps/bench/access_plan.hpp>
#include <apps/bench/kernels.hpp>
#include <apps/common/program.hpp>

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace gpufs::apps {

/// As given; complete() fills in what depends on the device.
struct bench_options {
  std::string pattern;  ///< seq, strided, rand, hit, write or rpc
  std::string file;     ///< empty: a temporary one of `size` bytes in `folder`
  std::string folder;
  std::string size = "0";  ///< 0: of a temporary file 1G, emulated 64M; of a copy of drives 64M
  std::string bytes;       ///< empty: all, or half of the cache
  std::string request = "64K";
  std::string stride;  ///< empty: even parts, or `request`
  std::int64_t blocks = not_given;
  std::int64_t threads = not_given;
  std::uint64_t seed = 1;
  std::int64_t runs = 5;
  std::int64_t repeat = not_given;  ///< hit: passes in one kernel; rpc: round trips
  bool random_order = false;        ///< write: ranges in random order
  bool once = false;                ///< write: O_GWRONCE
  std::string baseline;             ///< empty, or "gpufs": what else reads the file in the same run
  std::int64_t baseline_threads = 4;     ///< its host threads
  std::string access = "gread";          ///< rand: how the kernel has the bytes delivered
  std::string distribution = "uniform";  ///< rand: or zipf
  double theta = 0.99;                   ///< its exponent
  std::string level = "block";           ///< rand: who makes a request; or warp
  bool hot = false;                      ///< rand: all in the GPU cache already
  bool cold = false;
  bool json = false;
  bool no_limits = false;
  bool thorough = false;
  bool no_verify = false;
  bool quiet = false;  ///< no progress bar: the caller has one

  [[nodiscard]] bool is(char const* name) const { return pattern == name; }
  /// everything is read once before the clock starts
  [[nodiscard]] bool begins_hot() const { return is("hit") || hot; }
  [[nodiscard]] bool zipf() const { return distribution == "zipf"; }
  [[nodiscard]] bool by_warp() const { return level == "warp"; }
};

/// Adds the options to the subcommand.
void add_options(CLI::App& command, bench_options& o);

/// Fills in blocks, threads and size for the device if they were not given. Checks all that needs
/// no file. Throws usage_error; device_error if there is no device.
void complete(bench_options& o);

/// After complete().
[[nodiscard]] bench_shape shape_of(bench_options const& o);

/// `settings` with a seat for every reader. After complete().
[[nodiscard]] config with_seats(bench_options const& o, config settings);

/// The plan for a file of `file_bytes` bytes. Throws usage_error naming the option that does not
/// fit it.
[[nodiscard]] access_plan make_plan(bench_options const& o, std::uint64_t file_bytes,
                                    config const& settings);

}  // namespace gpufs::apps
