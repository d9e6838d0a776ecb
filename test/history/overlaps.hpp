// Programs in which kernels do not read bytes while others write them.
#pragma once

#include <test/history/program.hpp>

namespace gpufs::history {

/// The program without reads and writes of the same bytes side by side, by kernels. The later of
/// two such calls waits for the earlier one. If that does not put it behind all of them, it is left
/// out; an open is left without O_TRUNC.
///
/// docs/consistency.md allows such calls, and each byte has the value of before or after. To
/// ThreadSanitizer they are races, which they are: whoever needs an order makes one.
[[nodiscard]] program without_overlaps(program const& p);

}  // namespace gpufs::history
