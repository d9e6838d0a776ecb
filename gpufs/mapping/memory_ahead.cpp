#include <gpufs/mapping/fault_queue.hpp>
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
  ring();
  thread_.join();
}

void memory_ahead::want(bytes_ahead const& what) {
  if (!thread_.joinable()) return;
  wanted_.push_back(what);
  ring();
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

// Release: who sees the new number sees what is to be given, and that the thread shall stop.
void memory_ahead::ring() noexcept {
  bell_.fetch_add(1, std::memory_order_release);
  futex_wake(&bell_);
}

void memory_ahead::give_in_turn() noexcept {
  ::pthread_setname_np(::pthread_self(), "gpufs-ahead");
  for (;;) {
    auto const seen = bell_.load(std::memory_order_acquire);  // pairs with ring()
    bool gives = true;
    while (gives && !stops_.load(std::memory_order_acquire)) gives = give_some_();
    if (stops_.load(std::memory_order_acquire)) return;
    futex_wait(bell_, seen);
  }
}

}  // namespace gpufs::shared
