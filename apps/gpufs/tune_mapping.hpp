// `gpufs tune --mapping`: finds the blocks of shared memory that are fastest on this machine, and
// writes them down.
#pragma once

#include <gpufs/mapping_options.hpp>

#include <apps/gpufs/tune_output.hpp>
#include <apps/gpufs/tune_sweep.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace gpufs::apps {

struct mapping_tune_options {
  bool is_asked = false;
  std::string size;  ///< of each vector; empty: 256M, emulated 1M
  std::int64_t rounds = 5;
};

/// Adds --mapping, --size and --rounds to the subcommand `tune`.
void add_options(CLI::App& command, mapping_tune_options& o);

/// Throws usage_error naming an option of `gpufs tune FILE` that was given with --mapping, or one
/// of --mapping that was given without it.
void require_fitting(CLI::App const& command, mapping_tune_options const& o);

struct mapping_tune_result {
  /// Settings against the best of the sweeps before, which is the first trial.
  struct compared {
    std::string what;
    sweep_result<mapping_config> found;
  };
  std::vector<compared> sweeps;
  mapping_config start, best;
  /// Of `best`, and how many times as fast as `start` it is. From the same rounds.
  run_scores score;
  double gain = 1;
  std::uint64_t bytes = 0;  ///< of each vector
  std::uint64_t runs = 0;   ///< all verified
  double seconds = 0;       ///< that all of it took
};

/// Sweeps coherence_block, then rolling_size: vector addition on shared memory, whose result is
/// verified in each run. What seems better than `start` has to be better once more, in rounds of
/// its own. Prints tables, and writes `output`, unless gpufs has these settings already.
/// `fixed(key)`: the setting keeps the value it has in `start`. Returns the program's exit status.
/// Throws usage_error (`output` cannot be written, an option is out of range, `start` has nothing
/// to sweep), device_error, shared_memory_error (`start` does not work), std::system_error, or
/// std::runtime_error (a result was wrong).
int run_mapping_tune(mapping_tune_options const& o, tune_output const& output,
                     mapping_config const& start,
                     std::function<bool(std::string_view)> const& fixed);

void print(mapping_tune_options const& o, mapping_tune_result const& r);

/// The settings that are swept, in their order.
[[nodiscard]] tuned_keys const& keys_swept();

/// The best settings as the text of a TOML file that load_file() reads.
[[nodiscard]] tuned_text to_toml(mapping_tune_options const& o, mapping_tune_result const& r);

}  // namespace gpufs::apps
