// System calls that signals interrupt.
#pragma once

#include <cerrno>

namespace gpufs::daemon {

/// A call that was interrupted as often has failed.
inline constexpr unsigned most_interruptions = 1000;

/// Makes a call again as long as it returns -EINTR. It gives up after many tries, as a timer of the
/// program may interrupt each one. `call` returns -errno if it fails.
template <class Call>
auto while_interrupted(Call const& call) noexcept {
  auto result = call();
  for (unsigned tries = 1; result == -EINTR && tries < most_interruptions; ++tries) result = call();
  return result;
}

}  // namespace gpufs::daemon
