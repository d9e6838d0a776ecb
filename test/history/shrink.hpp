// Makes failing programs small.
#pragma once

#include <test/history/program.hpp>

#include <functional>
#include <string>
#include <vector>

namespace gpufs::history {

/// What is wrong with one run of a program; empty: nothing.
using trial = std::function<std::vector<std::string>(program const&)>;

/// Takes calls away, and makes the order of the others more certain, as long as one of `attempts`
/// runs still fails. Runs at most `most_runs` programs. Returns the smallest program that failed.
[[nodiscard]] program shrink(program p, trial const& run, unsigned attempts, unsigned most_runs);

/// The program without some calls. A call without its open goes, too; one that waited for a call
/// that goes waits for what that waited for.
[[nodiscard]] program without(program const& p, std::vector<bool> const& gone);

}  // namespace gpufs::history
