#include <gpufs/mapping/memory_ahead.hpp>
#include <gpufs/mapping/quiet_lock.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

#include <pthread.h>

namespace gpufs::shared {

memory_ahead::memory_ahead(std::function<bool()> give_some) : give_some_(std::move(give_some)) {
  no_signals const inherited;  // by the thread
  try {
    thread_ = std::thread([this] { give_in_turn(); });
  } catch (std::system_error const&) {
  }
}

memory_ahead::~memory_ahead() {
  if (!thread_.joinable()) return;
  stops_.store(true, std::memory_order_release);
  bell_.ring();
  thread_.join();
}

void memory_ahead::want(bytes_ahead const& what) {
  if (!thread_.joinable()) return;
  wanted_.push_back(what);
  bell_.ring();
}

std::optional<bytes_ahead> memory_ahead::take(std::uint64_t most) {
  if (wanted_.empty()) return std::nullopt;
  auto& all = wanted_.front().bytes;
  auto part = wanted_.front();
  part.bytes.end = std::min(all.first + most, all.end);
  all.first = part.bytes.end;
  if (all.first == all.end) wanted_.pop_front();
  return part;
}

void memory_ahead::give_in_turn() noexcept {
  ::pthread_setname_np(::pthread_self(), "gpufs-ahead");
  for (auto seen = bell_.rings(); !stops_.load(std::memory_order_acquire); seen = bell_.rings()) {
    if (!give_some_()) bell_.wait(seen);
  }
}

}  // namespace gpufs::shared
