// The way of a test's fault injector into a filesystem. The public constructor takes settings
// alone.
#pragma once

#include <gpufs/testing/faults.hpp>

#include <memory>

namespace gpufs::owner {

/// Returns the injector of the testing::filesystem that the calling thread is constructing, once.
/// Null: it constructs another kind, or the injector has been taken.
[[nodiscard]] std::shared_ptr<testing::fault_injector> take_injected_faults() noexcept;

}  // namespace gpufs::owner
