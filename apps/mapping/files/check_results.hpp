// Compares the files that a run has left with the reference.
#pragma once

#include <apps/mapping/checks.hpp>
#include <apps/mapping/files/file_workload.hpp>
#include <apps/mapping/files/work_files.hpp>

#include <span>

namespace gpufs::apps::workloads {

/// Reads each result back from its file and compares it: all of it, or groups drawn at random if
/// there are too many. prepare_reference() has been called.
void check_results(file_workload const& of, work_files const& files, std::uint64_t seed, checks& c);

/// Elements of one of these types as double.
void as_doubles(element type, std::span<std::byte const> from, std::span<double> to);
/// Doubles as elements.
void from_doubles(element type, std::span<double const> from, std::span<std::byte> to);

}  // namespace gpufs::apps::workloads
