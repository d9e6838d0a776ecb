// The command line that all applications share.
#pragma once

#include <apps/harness/port.hpp>

namespace gpufs::apps {

/// main() of the program of one application. Returns its exit status: 0, status_failed (something
/// did not work, or a check failed) or status_usage.
int run_port(port_description const& what, int argc, char** argv);

}  // namespace gpufs::apps
