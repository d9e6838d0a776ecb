// A filesystem into which tests inject faults.
#pragma once

#include <gpufs/filesystem.hpp>
#include <gpufs/testing/faults.hpp>

#include <memory>

namespace gpufs::testing {

/// For tests: a filesystem that consults an injector before each host operation.
// It has no members, so destroying the base destroys all of it.
class filesystem : public gpufs::filesystem {
 public:
  /// As gpufs::filesystem's constructor, and throws the same.
  /// @param faults  lives as long as this object at least; null: all operations pass
  explicit filesystem(config const& settings, std::shared_ptr<fault_injector> faults);
};

}  // namespace gpufs::testing
