// Options that the analytics programs share, and what follows from them.
#pragma once

#include <gpufs/config.hpp>

#include <apps/analytics/drives.hpp>
#include <apps/analytics/variant.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpufs::apps::analytics {

struct run_options {
  std::vector<std::string> variants = {"pointer"};
  std::int64_t blocks = INT64_MIN;   ///< INT64_MIN: as many as suit the device
  std::int64_t threads = INT64_MIN;  ///< the same
  std::int64_t stride = 1;
  std::int64_t runs = 3;
  std::uint64_t seed = 1;
  std::int64_t drives = 0;       ///< modelled ones, that have the input files; 0: none
  std::string drive = "optane";  ///< their model
  bool cold = false;
  bool check = false;
  bool json = false;
};

/// Adds the options. `allowed`: what --variant takes.
void add_run_options(CLI::App& app, run_options& o, std::vector<variant> const& allowed);

/// Blocks of a launch and threads of each.
struct launch_shape {
  unsigned blocks = 1;
  unsigned threads = 32;

  [[nodiscard]] std::uint64_t warps() const { return std::uint64_t{blocks} * (threads / 32); }
};

/// Shared memory of a block has room for this many warps' pieces.
inline constexpr unsigned most_warps = 4;

/// Throws usage_error, or device_error if there is no device.
[[nodiscard]] launch_shape shape_of(run_options const& o);

/// Whether one of the variants reads through a filesystem of gpufs.
[[nodiscard]] bool is_by_filesystem(run_options const& o);

/// The drives that kernels read from. Throws usage_error.
[[nodiscard]] drive_set drives_of(run_options const& o);

/// Whether the OS page cache has the files, so that windows of them can be registered.
[[nodiscard]] inline bool is_warm(run_options const& o) { return !o.cold && o.drives == 0; }

/// Checks --runs and --stride. Throws usage_error.
void check_run_options(run_options const& o);

/// The settings of a run: each warp that reads has a seat of its own. Throws config_error.
[[nodiscard]] config settings_of(config settings, launch_shape const& shape);

}  // namespace gpufs::apps::analytics
