// Offers in a ring of Boost.Lockfree, and a semaphore that counts them.
#include <host-daemon/device_work/offer_queue.hpp>

#include <boost/lockfree/policies.hpp>
#include <boost/lockfree/spsc_queue.hpp>
#include <time.h>

#include <mutex>
#include <utility>

#include <semaphore.h>

namespace gpufs::daemon {

struct offer_queue::parts {
  parts() { ::sem_init(&posts, 0, 0); }
  ~parts() {
    // Boost's ring does not destroy the offers that are left in it.
    offers.consume_all([](window_offer& left) { left.file.reset(); });
    ::sem_destroy(&posts);
  }

  // One thread pushes at a time; the taker needs no lock. Boost's queue for many producers is no
  // choice: its free list reads a link that another thread may be writing, which is a data race.
  std::mutex pushing;
  boost::lockfree::spsc_queue<window_offer, boost::lockfree::capacity<capacity>> offers;
  // Posted once for each offer, after its push, and once for each wake(). So a taker that waits
  // never sleeps over an offer.
  ::sem_t posts;
};

offer_queue::offer_queue() : parts_{std::make_unique<parts>()} {}
offer_queue::~offer_queue() = default;

bool offer_queue::add(window_offer const& offer) noexcept {
  waiting_.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock lock{parts_->pushing};
  bool const added = parts_->offers.push(offer);
  lock.unlock();
  if (added)
    ::sem_post(&parts_->posts);
  else
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  return added;
}

std::optional<window_offer> offer_queue::take(std::optional<clock::time_point> until) noexcept {
  int failed;
  if (until) {
    auto const ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(until->time_since_epoch()).count();
    ::timespec const end{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    failed = ::sem_clockwait(&parts_->posts, CLOCK_MONOTONIC, &end);
  } else {
    failed = ::sem_wait(&parts_->posts);
  }
  std::optional<window_offer> next;
  if (failed != 0) return next;  // the time has passed, or a signal came
  // No offer: the post was wake()'s, or the offer of this post was taken on the post of wake().
  parts_->offers.consume_one([&next](window_offer& offer) { next = std::move(offer); });
  if (next) waiting_.fetch_sub(1, std::memory_order_relaxed);
  return next;
}

void offer_queue::wake() noexcept { ::sem_post(&parts_->posts); }

}  // namespace gpufs::daemon
