// One round, in a process of its own: filesystems, kernels, host threads, and the comparison of the
// files with what was acknowledged.
#pragma once

#include <apps/gpufs-stress/board.hpp>
#include <apps/gpufs-stress/plan.hpp>

#include <string>

namespace gpufs::stress {

/// Runs the round and reports the first problem on the board. Throws what filesystem throws.
/// @param devices  filesystem f lives on device f % devices
void run_round(round_plan const& plan, std::string const& folder, unsigned devices,
               board const& shared);

}  // namespace gpufs::stress
