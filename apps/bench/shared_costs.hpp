// `gpufs bench shared`: what single operations on shared memory cost, each beside what it contains.
#pragma once

#include <gpufs/mapping_options.hpp>

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace gpufs::apps {

struct shared_costs_options {
  std::string folder;      ///< of the file that is read
  std::string size = "0";  ///< bytes of that file; 0: 1G, emulated 8M
  std::int64_t rounds = 5;
  bool json = false;
};

void add_options(CLI::App& command, shared_costs_options& o);

/// Measures and prints. Returns the exit status: status_failed if a byte was wrong. Throws
/// usage_error, config_error, device_error, shared_memory_error, std::system_error.
[[nodiscard]] int run_shared_costs(shared_costs_options& o, mapping_config const& settings);

}  // namespace gpufs::apps
