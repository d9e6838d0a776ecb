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

/// An empty text if every byte of the file is of a version from `acknowledged` to `begun` of its
/// cell, else what is wrong. Cells without a value are not looked at.
[[nodiscard]] std::string wrong_cell(std::string const& path, round_plan const& plan,
                                     std::vector<std::optional<cell_versions>> const& expected);

/// An empty text if the log has each acknowledged record once, no other record twice, and else
/// nothing but gaps of failed appends; else what is wrong.
[[nodiscard]] std::string wrong_record(std::string const& path, round_plan const& plan,
                                       std::vector<append_state> const& appends);

/// All bytes of a file. Throws std::system_error naming it.
[[nodiscard]] std::vector<std::byte> file_contents(std::string const& path);

}  // namespace gpufs::stress
