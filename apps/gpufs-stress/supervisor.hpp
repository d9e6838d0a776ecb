// Runs rounds in processes of their own, kills some, watches for hangs, and compares what is left.
#pragma once

#include <apps/gpufs-stress/plan.hpp>

#include <cstdint>
#include <string>

namespace gpufs::stress {

/// The command line of the supervisor.
struct supervisor_options {
  std::string folder;         ///< for the files of the rounds
  double seconds = 60;        ///< for all rounds
  std::uint64_t rounds = 0;   ///< 0: as many as the time allows
  std::uint64_t seed = 0;     ///< of the first round; the next has the next number
  double hang_seconds = 120;  ///< without an operation once the files are made: the round hangs
  /// Of a wide round once its files are made; others get a quarter. Then the workers are to end. A
  /// quarter later the round is killed at its next sign of life, and what is left is compared.
  double round_seconds = 20;
  memory_limits limits;
  unsigned devices = 1;
  bool emulated = false;
  bool verbose = false;  ///< a line for each round
};

/// Runs rounds until the time is over or one fails, and prints the verdict.
/// Returns the exit status. Throws std::system_error if there is no process or no file to be had.
int supervise(supervisor_options const& options);

}  // namespace gpufs::stress
