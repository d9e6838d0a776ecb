// One round, in a process of its own: filesystems, kernels, host threads, and the comparison of the
// files with what was acknowledged.
#pragma once

#include <apps/gpufs-stress/board.hpp>
#include <apps/gpufs-stress/plan.hpp>

#include <string>

namespace gpufs::stress {

/// The files of a round in `folder`.
[[nodiscard]] std::string cell_file(std::string const& folder);
[[nodiscard]] std::string log_file(std::string const& folder, unsigned filesystem);

/// Runs the round and reports the first problem on the board. Throws what filesystem throws.
/// @param devices  filesystem f lives on device f % devices
void run_round(round_plan const& plan, std::string const& folder, unsigned devices,
               board const& shared);

}  // namespace gpufs::stress
