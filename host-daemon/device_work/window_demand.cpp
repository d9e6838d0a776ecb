#include <host-daemon/device_work/window_demand.hpp>

namespace gpufs::daemon {

namespace {

constexpr unsigned count_bits = 32;

std::uint64_t count_in(std::uint64_t word) noexcept { return word & ((1ull << count_bits) - 1); }

}  // namespace

// A counter changes by one compare-and-swap, which adds a cost or takes a count that is enough. So
// no cost is counted twice. If another thread changed the counter meanwhile, this cost is lost,
// which delays a window by one read. The counts order nothing.
bool window_demand::add(std::uint64_t key, std::uint64_t cost) noexcept {
  auto const tag = key >> count_bits | 1;  // the lower bits choose the set; not 0: that is empty
  auto& counters = sets_[key % sets].counter;
  auto* chosen = &counters[0];
  auto seen = chosen->load(std::memory_order_relaxed);
  for (auto& counter : counters) {
    auto const word = counter.load(std::memory_order_relaxed);
    bool const is_it = word >> count_bits == tag;
    if (!is_it && count_in(word) >= count_in(seen)) continue;
    chosen = &counter;
    seen = word;
    if (is_it) break;
  }
  auto const sum = count_in(seen) + cost;
  bool const is_enough = sum >= enough_;
  auto const next = is_enough ? 0 : tag << count_bits | sum;  // `enough_` needs 28 bits
  return chosen->compare_exchange_strong(seen, next, std::memory_order_relaxed) && is_enough;
}

}  // namespace gpufs::daemon
