// The ring of free places.
#include <host-daemon/files/free_places.hpp>

#include <thread>

namespace gpufs::daemon {

namespace {

// The other thread is a few instructions away, unless the system has stopped it there.
void pause(unsigned& tries) noexcept {
  if (++tries > 64) std::this_thread::yield();
}

}  // namespace

free_places::free_places(std::uint32_t count) : slots_(count), given_{count} {
  for (std::uint32_t i = 0; i < count; ++i) slots_[i].store(i, std::memory_order_relaxed);
}

std::optional<std::uint32_t> free_places::take() noexcept {
  // Acquire pairs with the release of the exchange that made it this number. So given_ is at least
  // as new as that thread saw it, and not below this number.
  auto ticket = taken_.load(std::memory_order_acquire);
  do {
    // Equal: none was free at the moment of this load, as taken_ only grows.
    if (ticket == given_.load(std::memory_order_acquire)) return std::nullopt;
  } while (!taken_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                         std::memory_order_acquire));
  auto& slot = slots_[ticket % slots_.size()];
  for (unsigned tries = 0;; pause(tries)) {
    auto place = slot.load(std::memory_order_relaxed);
    // Acquire pairs with the release of the place in give(). Release pairs with the acquire there:
    // a place comes to a slot after the one before has left it.
    if (place != none && slot.compare_exchange_strong(place, none, std::memory_order_acq_rel,
                                                      std::memory_order_relaxed))
      return place;
  }
}

void free_places::give(std::uint32_t place) noexcept {
  // Release pairs with the acquire in take() and size().
  auto& slot = slots_[given_.fetch_add(1, std::memory_order_acq_rel) % slots_.size()];
  for (unsigned tries = 0;; pause(tries)) {
    auto empty = none;
    if (slot.load(std::memory_order_relaxed) == none &&
        slot.compare_exchange_strong(empty, place, std::memory_order_acq_rel,
                                     std::memory_order_relaxed))
      return;
  }
}

std::uint64_t free_places::size() const noexcept {
  for (;;) {
    auto const taken = taken_.load(std::memory_order_acquire);
    auto const given = given_.load(std::memory_order_acquire);
    // Unchanged: both had these values when given_ was loaded.
    if (taken_.load(std::memory_order_relaxed) == taken) return given - taken;
  }
}

}  // namespace gpufs::daemon
