// One run of a workload, and what it gave.
#pragma once

#include <gpufs/mapping_statistics.hpp>

#include <apps/mapping/options.hpp>
#include <apps/mapping/phases.hpp>
#include <apps/mapping/session.hpp>
#include <apps/mapping/workload.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::apps::workloads {

/// One run of a workload in one way.
struct measured {
  double seconds = 0;     ///< of the program, without
  double allocation = 0;  ///< seconds of making the objects
  std::array<double, phase_count> phases{};
  std::uint64_t launches = 0;
  mapping_statistics moved;
  std::optional<bool> is_verified;
  std::vector<std::string> failures;
};

/// A session and the program in it. The program goes first.
struct one_run {
  std::unique_ptr<session> in;
  std::unique_ptr<workload> program;
  measured result;
};

/// Makes the objects and runs the program once. Nothing is checked. Not for the variant `cpu`.
/// Throws as session and workload.
[[nodiscard]] one_run run_once(description const& d, setup const& of, way const& how);

}  // namespace gpufs::apps::workloads
