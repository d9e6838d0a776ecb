// Launches of a kernel that does nothing.
#pragma once

#include <gpufs/mapping.hpp>

namespace gpufs::apps::workloads {

/// Launches a kernel that does nothing, as one that uses what `call` declares, and waits for it.
void launch_nothing(shared_call& call);

/// The same without shared objects.
void launch_nothing();

}  // namespace gpufs::apps::workloads
