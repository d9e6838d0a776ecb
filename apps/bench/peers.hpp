// `gpufs bench peers`: gpufs with default settings beside what its users would take instead.
#pragma once

#include <gpufs/config.hpp>

#include <apps/bench/study.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::apps {

struct peers_options : study_options {
  std::string record = "4K";         ///< bytes of a record
  std::int64_t records = not_given;  ///< how many; 262144, emulated 256
  std::vector<std::string> only;     ///< keys; empty: all rows
  bool json = false;
};

void add_options(CLI::App& command, peers_options& o);

/// Measures and prints. A way that is not installed says so, one that fails, too. Returns the exit
/// status: status_failed if one failed. Throws usage_error, config_error, device_error,
/// std::system_error.
[[nodiscard]] int run_peers(peers_options& o, config const& settings);

}  // namespace gpufs::apps
