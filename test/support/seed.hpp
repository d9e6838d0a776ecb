// The seed of randomised tests, so that a failure can be run again.
#pragma once

#include <cstdint>

namespace gpufs::test {

/// GPUFS_TEST_SEED where it is set (any 64-bit integer), else drawn once per process. main() prints
/// it.
[[nodiscard]] std::uint64_t seed();

}  // namespace gpufs::test
