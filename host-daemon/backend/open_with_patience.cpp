#include <host-daemon/backend/open_with_patience.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace gpufs::daemon {

// An open that waits in the system could not be told to end, and would wait for ever for the peer
// of a FIFO that has got the file's name meanwhile. So opens that do not wait are repeated. The
// first one has asked the holder to let go; the system takes the lease away when its time is over.
opened_file open_with_patience(storage_backend& storage, std::string const& path, int flags,
                               unsigned mode, std::function<bool()> const& goes_on) {
  using namespace std::chrono_literals;
  constexpr auto longest_pause = 20ms;
  auto const end = std::chrono::steady_clock::now() + 90s;
  auto pause = 1ms;
  for (;;) {
    auto opened = storage.open(path, flags, mode);
    if (!opened.is_leased || std::chrono::steady_clock::now() > end) return opened;
    if (goes_on && !goes_on()) return {nullptr, -ETIMEDOUT};
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, longest_pause);
  }
}

}  // namespace gpufs::daemon
