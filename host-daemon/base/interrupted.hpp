// System calls that signals interrupt.
#pragma once

#include <cerrno>

namespace gpufs::daemon {

/// Makes a call again as long as it returns -EINTR. It gives up after many tries, as a timer of the
/// program may interrupt each one. `call` returns -errno if it fails.
template <class Call>
auto while_interrupted(Call const& call) noexcept {
  constexpr unsigned most = 1000;
  auto result = call();
  for (unsigned tries = 1; result == -EINTR && tries < most; ++tries) result = call();
  return result;
}

}  // namespace gpufs::daemon
