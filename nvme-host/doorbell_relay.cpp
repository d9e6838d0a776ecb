#include <host-daemon/base/idle_policy.hpp>
#include <host-daemon/base/thread.hpp>

#include <nvme-host/doorbell_relay.hpp>

#include <algorithm>
#include <chrono>

namespace gpufs::nvme_host {

namespace {

// A word has two cache lines to itself: processors fetch lines in pairs.
constexpr std::size_t word_distance = 128;
// After this many rests, about a second, nobody reads for now: each rest is longer then.
constexpr unsigned short_rests = 10'000;
constexpr std::chrono::microseconds long_rest{1000};

}  // namespace

doorbell_relay::doorbell_relay(std::vector<relayed_doorbell> const& doorbells,
                               memory_source const& memory)
    : words_{memory(std::max<std::size_t>(doorbells.size(), 1) * word_distance)} {
  std::size_t members = 0;
  for (relayed_doorbell const& each : doorbells) {
    entries_.push_back({each});
    members = std::max(members, each.member + 1);
  }
  has_ended_.resize(members);
  thread_ = daemon::start_thread("lower the number of threads", [this] { run(); });
}

std::uint32_t* doorbell_relay::word(std::size_t doorbell) const {
  return reinterpret_cast<std::uint32_t*>(words_.get() + doorbell * word_distance);
}

void doorbell_relay::run() noexcept {
  daemon::set_up_thread("nvme-relay", daemon::rest_precision::fine);
  daemon::idle_policy idle;
  unsigned rests = 0;
  while (!stops_.load(std::memory_order_relaxed)) {
    if (pass()) {
      idle.reset();
      rests = 0;
    } else if (auto const rest = idle.next(); rest.count() > 0) {
      daemon::idle_policy::sleep(rests < short_rests ? rest : long_rest);
      rests += rests < short_rests ? 1 : 0;
    }
  }
}

bool doorbell_relay::pass() noexcept {
  bool found = false;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    // Pairs with nvme::ring(): the entries are there, or have been looked at.
    std::uint32_t const value = std::atomic_ref{*word(i)}.load(std::memory_order_acquire);
    if (value == entries_[i].last) continue;
    entries_[i].last = value;
    write(entries_[i].doorbell, value);
    found = true;
  }
  return found;
}

// The lock is taken for a change only. So end() gets it while kernels ring all the time.
void doorbell_relay::write(relayed_doorbell const& to, std::uint32_t value) noexcept {
  std::lock_guard const lock{writing_};
  if (has_ended_[to.member]) return;
  // Pairs with the acquire of a software controller.
  std::atomic_ref{*to.to}.store(value, std::memory_order_release);
  relayed_.fetch_add(1, std::memory_order_relaxed);
}

void doorbell_relay::end(std::size_t member) noexcept {
  std::lock_guard const lock{writing_};
  if (member < has_ended_.size()) has_ended_[member] = true;
}

void doorbell_relay::stop() noexcept {
  stops_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

}  // namespace gpufs::nvme_host
