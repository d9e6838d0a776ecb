// Comparison of the files with what the kernels were told.
#pragma once

#include <apps/gpufs-stress/plan.hpp>
#include <apps/gpufs-stress/worker.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::stress {

/// The bytes of a version of a cell.
[[nodiscard]] std::vector<std::byte> cell_bytes_of(round_plan const& plan, std::uint64_t cell,
                                                   std::uint32_t version);

/// Makes the file with version 0 of all cells. Throws std::system_error naming it.
void make_cells(std::string const& path, round_plan const& plan);

/// What a look at a file has found.
struct comparison {
  std::string problem;      ///< empty: nothing wrong
  std::uint64_t bytes = 0;  ///< compared
};

/// Compares each byte of the file with the versions from `acknowledged` to `begun` of its cell.
/// Cells without a value are not looked at. Throws std::system_error naming the file.
[[nodiscard]] comparison compare_cells(std::string const& path, round_plan const& plan,
                                       std::vector<std::optional<cell_versions>> const& expected);

/// For each cell the number of writes that its worker may have begun, whatever it had time for.
[[nodiscard]] std::vector<std::uint32_t> most_versions(round_plan const& plan);

/// An empty text if the log has each acknowledged record once, no other record twice, and else
/// nothing but gaps of failed appends; else what is wrong.
[[nodiscard]] std::string wrong_record(std::string const& path, round_plan const& plan,
                                       std::vector<append_state> const& appends);

}  // namespace gpufs::stress
