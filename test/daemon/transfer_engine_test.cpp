// The hand-over to the transfer thread: copies, withdrawals, stuck copies, devices that refuse.
#include <gpufs/testing/faults.hpp>

#include <host-daemon/device_work/transfer_engine.hpp>

#include <test/daemon/harness.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

using namespace gpufs::daemon;
using gpufs::test::wait_until;
using outcome = transfer_engine::outcome;
using clock_type = transfer_engine::clock;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t piece = 64 << 10;

// Staging and its twin as atomic words: a copy that was given up may read words while they are
// written.
struct device_memory {
  explicit device_memory(std::uint64_t pieces)
      : staging(pieces * piece / 8), twin(pieces * piece / 8) {}
  std::vector<std::atomic<std::uint64_t>> staging, twin;
  std::mutex mutex;  // guards the next
  std::vector<std::vector<copy_range>> batches;

  void fill(std::uint64_t n, std::uint64_t value) {
    for (std::uint64_t i = 0; i < piece / 8; ++i)
      staging[n * piece / 8 + i].store(value + i, std::memory_order_relaxed);
  }
  std::uint64_t wrong(std::uint64_t n, std::uint64_t value) const {
    std::uint64_t bad = 0;
    for (std::uint64_t i = 0; i < piece / 8; ++i)
      bad += twin[n * piece / 8 + i].load(std::memory_order_relaxed) != value + i;
    return bad;
  }
};

// Copies, or fails, at look_at_oldest() if the gate is open.
struct fake_copier final : twin_copier {
  explicit fake_copier(device_memory& m) : memory{m} {}
  device_memory& memory;
  std::shared_ptr<gate> shut;  // not null: copies end when it opens
  bool refuses = false, fails = false;
  std::vector<std::vector<copy_range>> under_way;

  unsigned depth() const noexcept override { return 2; }
  bool start(std::span<copy_range const> ranges) noexcept override {
    if (refuses) return false;
    under_way.emplace_back(ranges.begin(), ranges.end());
    if (shut) shut->arrive();
    return true;
  }
  state look_at_oldest() noexcept override {
    if (shut && !shut->is_open()) return state::under_way;
    auto const batch = under_way.front();
    under_way.erase(under_way.begin());
    if (fails) return state::failed;
    for (auto const& r : batch)
      for (auto i = r.offset / 8; i < (r.offset + r.bytes) / 8; ++i)
        memory.twin[i].store(memory.staging[i].load(std::memory_order_relaxed),
                             std::memory_order_relaxed);
    std::lock_guard const lock{memory.mutex};
    memory.batches.push_back(batch);
    return state::copied;
  }
};

outcome wait_for(transfer_engine& engine, std::uint32_t channel) {
  auto const since = clock_type::now();
  auto last = outcome::pending;
  wait_until([&] { return (last = engine.settle(channel, since, since)) != outcome::pending; },
             "the end of a transfer");
  return last;
}

outcome give_up(transfer_engine& engine, std::uint32_t channel) {
  return engine.settle(channel, clock_type::now(), clock_type::time_point::max());
}

}  // namespace

TEST_CASE(
    "transfers: what was handed over is in the twin once that is said, again and again, and "
    "nothing else is") {
  device_memory memory{4};
  transfer_engine engine{std::make_unique<fake_copier>(memory), 4, 1min};
  for (std::uint64_t round = 1; round < 50; ++round) {
    for (std::uint32_t const n : {0u, 2u}) {
      memory.fill(n, round << 32 | n << 20);
      REQUIRE(engine.hand_over(n, n * piece, piece));
    }
    for (std::uint32_t const n : {2u, 0u}) {
      REQUIRE(wait_for(engine, n) == outcome::copied);
      REQUIRE(memory.wrong(n, round << 32 | n << 20) == 0);
    }
  }
  CHECK(std::all_of(memory.twin.begin() + piece / 8, memory.twin.begin() + 2 * piece / 8,
                    [](auto& w) { return w == 0; }));
}

TEST_CASE("transfers: of two threads that hand over one channel at once one gets the transfer") {
  device_memory memory{1};
  transfer_engine engine{std::make_unique<fake_copier>(memory), 1, 1min};
  std::atomic<unsigned> here{0}, given{0}, copied{0};
  auto const hand_over = [&](unsigned round) {
    here.fetch_add(1);
    while (here.load() < 2 * round) {
    }
    if (!engine.hand_over(0, 0, piece)) return;
    given.fetch_add(1);
    copied.fetch_add(wait_for(engine, 0) == outcome::copied);
  };
  constexpr unsigned rounds = 2000;
  auto const all = [&] {
    for (unsigned round = 1; round <= rounds; ++round) hand_over(round);
  };
  std::thread other{all};
  all();
  other.join();
  CHECK(given >= rounds);
  CHECK(copied == given);
}

TEST_CASE("transfers: pieces that lie side by side and wait together are one copy") {
  device_memory memory{16};
  auto copier = std::make_unique<fake_copier>(memory);
  auto const shut = copier->shut = std::make_shared<gate>();
  transfer_engine engine{std::move(copier), 16, 1min};
  // Two batches fill the copier. Later pieces wait together.
  for (std::uint32_t n = 0; n < 2; ++n) {
    REQUIRE(engine.hand_over(n, n * piece, piece));
    wait_until([&] { return shut->arrivals() == n + 1; }, "a batch under way");
  }
  for (std::uint32_t const n : {9u, 5u, 4u, 6u, 10u, 15u})
    REQUIRE(engine.hand_over(n, n * piece, piece));
  shut->release();
  for (std::uint32_t const n : {0u, 1u, 9u, 5u, 4u, 6u, 10u, 15u})
    CHECK(wait_for(engine, n) == outcome::copied);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (auto const& b : memory.batches)
    for (auto const& r : b) ranges.emplace_back(r.offset / piece, r.bytes / piece);
  CHECK(std::count(ranges.begin(), ranges.end(), std::pair<std::uint64_t, std::uint64_t>{4, 3}) ==
        1);
  CHECK(std::count(ranges.begin(), ranges.end(), std::pair<std::uint64_t, std::uint64_t>{9, 2}) ==
        1);
}

TEST_CASE(
    "transfers: a copy that does not end is given up, and its channel takes none until it has "
    "ended; so do those behind it") {
  device_memory memory{8};
  auto copier = std::make_unique<fake_copier>(memory);
  auto const shut = copier->shut = std::make_shared<gate>();
  transfer_engine engine{std::move(copier), 8, 1min};
  for (std::uint32_t n = 0; n < 2; ++n) {
    memory.fill(n, n << 20);
    REQUIRE(engine.hand_over(n, n * piece, piece));
    wait_until([&] { return shut->arrivals() == n + 1; }, "a batch under way");
  }
  REQUIRE(
      engine.hand_over(2, 2 * piece, piece));  // waits: both batches of the copier are under way
  auto const now = clock_type::now();
  CHECK(engine.settle(0, now, now) == outcome::pending);
  CHECK(engine.settle(2, now, now) == outcome::pending);
  CHECK(engine.settle(0, now, now + 2min) == outcome::none);
  CHECK(engine.settle(2, now, now + 2min) == outcome::none);
  CHECK_FALSE(engine.hand_over(0, 0, piece));
  CHECK_FALSE(engine.hand_over(2, 2 * piece, piece));
  memory.fill(0, 77);  // the channel's next request
  shut->release();
  CHECK(wait_for(engine, 1) == outcome::copied);
  CHECK(memory.wrong(1, 1 << 20) == 0);
  for (std::uint32_t const n : {0u, 2u}) {
    memory.fill(n, n + 1000);
    wait_until([&] { return engine.hand_over(n, n * piece, piece); },
               "a channel that takes transfers again");
    CHECK(wait_for(engine, n) == outcome::copied);
    CHECK(memory.wrong(n, n + 1000) == 0);
  }
}

TEST_CASE(
    "transfers: a thread that stays in a call to the device is noticed, and nothing more is handed "
    "to it meanwhile") {
  struct stuck_call final : fault_injector {
    gate shut;
    void before_copy() override {
      shut.arrive();
      while (!shut.is_open()) std::this_thread::yield();
    }
  } faults;
  device_memory memory{4};
  transfer_engine engine{std::make_unique<fake_copier>(memory), 4, 5ms, &faults};
  auto const since = clock_type::now();
  REQUIRE(engine.hand_over(0, 0, piece));
  wait_until([&] { return faults.shut.arrivals() == 1; }, "a call to the device");
  wait_until([&] { return engine.settle(0, since, clock_type::now()) == outcome::none; },
             "a transfer given up");
  CHECK_FALSE(engine.hand_over(1, piece, piece));
  faults.shut.release();
  memory.fill(1, 5);
  wait_until([&] { return engine.hand_over(1, piece, piece); }, "transfers again");
  while (engine.settle(1, clock_type::now(), clock_type::now()) == outcome::pending)
    std::this_thread::yield();
}

TEST_CASE("transfers: after a refusal or a failed copy there are no more") {
  for (bool const refuses : {false, true}) {
    device_memory memory{4};
    auto copier = std::make_unique<fake_copier>(memory);
    (refuses ? copier->refuses : copier->fails) = true;
    transfer_engine engine{std::move(copier), 4, 1min};
    REQUIRE(engine.hand_over(0, 0, piece));
    CHECK(wait_for(engine, 0) == outcome::none);
    CHECK_FALSE(engine.hand_over(0, 0, piece));
    CHECK_FALSE(engine.hand_over(1, piece, piece));
  }
}

TEST_CASE(
    "transfers: many threads that hand over and give up at random: what is said to be copied is, "
    "and the channel's own") {
  constexpr std::uint32_t threads = 4, each = 4;
  device_memory memory{threads * each};
  transfer_engine engine{std::make_unique<fake_copier>(memory), threads * each, 1min};
  auto const start = gpufs::test::seed();
  CAPTURE(start);
  std::atomic<std::uint64_t> wrong{0}, copied{0}, none{0};
  std::vector<std::thread> all;
  for (std::uint32_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      std::mt19937_64 random{start + t};
      for (std::uint64_t round = 1; round < 400; ++round) {
        auto const n = t * each + std::uint32_t(random() % each);
        auto const value = round << 32 | std::uint64_t(n) << 20;
        memory.fill(n, value);
        if (!engine.hand_over(n, n * piece, piece)) continue;
        auto const patience = random() % 3 == 0 ? random() % 20 : ~0ull;
        auto last = outcome::pending;
        for (std::uint64_t i = 0; i < patience && last == outcome::pending; ++i) {
          auto const now = clock_type::now();
          last = engine.settle(n, now, now);
          std::this_thread::yield();
        }
        if (last == outcome::pending) last = give_up(engine, n);
        ++(last == outcome::copied ? copied : none);
        if (last == outcome::copied) wrong += memory.wrong(n, value);
      }
    });
  for (auto& t : all) t.join();
  CHECK(wrong == 0);
  CHECK(copied > 0);
}
