// Decides whether a history agrees with docs/consistency.md.
#pragma once

#include <test/history/program.hpp>

#include <string>
#include <vector>

namespace gpufs::history {

/// Takes each byte of the file as a register with the values "absent" (beyond the end), zero, and
/// the tags of writes. A write must be seen, may be seen or must not be seen by a read as the table
/// of docs/consistency.md says for the two callers. Returns what is wrong, a line each; at most a
/// few.
[[nodiscard]] std::vector<std::string> check(program const& p, history const& h);

}  // namespace gpufs::history
