// The counts that tell when a file window is worth registering: the bar, many windows, a full
// table, and many threads.
#include <gpufs/base/mix64.hpp>

#include <host-daemon/device_work/window_demand.hpp>

#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

using namespace gpufs::daemon;
using gpufs::test::seed;

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20, gibi = 1 << 30;

std::uint64_t key_of(std::uint64_t version, std::uint64_t window) {
  return gpufs::base::mix64(version << 32 | window) | 1ull << 63;
}

// The table is too large for a stack.
std::unique_ptr<window_demand> demand_for(std::uint64_t window_bytes) {
  return std::make_unique<window_demand>(window_bytes);
}

/// Reads of `cost` bytes until the window is worth it.
std::uint64_t calls_until_worth(window_demand& demand, std::uint64_t key, std::uint64_t cost) {
  std::uint64_t calls = 1;
  while (!demand.add(key, cost)) ++calls;
  return calls;
}

}  // namespace

TEST_CASE("window demand: a window is worth it after a quarter of its bytes, and then anew") {
  for (std::uint64_t const bytes : {64 * kibi, 16 * mebi, gibi}) {
    CAPTURE(bytes);
    auto const demand = demand_for(bytes);
    for (int time = 0; time < 3; ++time)
      CHECK(calls_until_worth(*demand, key_of(1, 5), 4 * kibi) == bytes / 4 / (4 * kibi));
    CHECK(calls_until_worth(*demand, key_of(1, 5), bytes / 4 - 1) == 2);
    CHECK(calls_until_worth(*demand, key_of(1, 5), bytes / 4) == 1);
    CHECK(calls_until_worth(*demand, key_of(1, 5), (1ull << 30) - 1) == 1);  // the longest read
  }
}

TEST_CASE("window demand: windows of a file, and versions of it, are counted apart") {
  auto const demand = demand_for(64 * kibi);
  for (std::uint64_t version = 1; version <= 4; ++version)
    for (std::uint64_t window = 0; window < 4; ++window)
      for (int i = 0; i < 3; ++i) REQUIRE_FALSE(demand->add(key_of(version, window), 4 * kibi));
  for (std::uint64_t version = 1; version <= 4; ++version)
    for (std::uint64_t window = 0; window < 4; ++window)
      CHECK(demand->add(key_of(version, window), 4 * kibi));
  for (std::uint64_t window = 0; window < 4; ++window)
    CHECK_FALSE(demand->add(key_of(1, window), 4 * kibi));
}

TEST_CASE("window demand: random reads find every window of a large file worth it") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  // 64 GiB of windows: a quarter of the slots. Few sets are full.
  constexpr std::uint64_t windows = window_demand::sets * window_demand::ways / 4;
  auto const demand = demand_for(256 * kibi);
  std::vector<bool> found(windows);
  for (std::uint64_t i = 0; i < 64 * windows; ++i) {
    auto const window = random() % windows;
    if (demand->add(key_of(1, window), 4 * kibi)) found[window] = true;
  }
  std::uint64_t missing = 0;
  for (bool const is_found : found) missing += is_found ? 0 : 1;
  CHECK(missing < windows / 100);
}

TEST_CASE(
    "window demand: in a full table every find is paid for in full, and old counts do not keep a "
    "new window out") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  constexpr std::uint64_t windows = 8 * window_demand::sets * window_demand::ways;
  constexpr std::uint64_t enough = 16 * kibi;
  auto const demand = demand_for(4 * enough);
  std::uint64_t paid = 0, finds = 0;
  auto const read = [&](std::uint64_t key, std::uint64_t cost) {
    paid += cost;
    bool const found = demand->add(key, cost);
    finds += found ? 1 : 0;
    REQUIRE(finds * enough <= paid);
    return found;
  };
  for (std::uint64_t i = 0; i < 4 * windows; ++i)
    read(key_of(1, random() % windows), 1 + random() % (8 * kibi));
  CHECK(finds > 0);
  for (std::uint64_t window = 0; window < 100; ++window) {
    unsigned calls = 1;
    while (!read(key_of(2, window), 4 * kibi)) REQUIRE(++calls <= 4);
  }
}

TEST_CASE(
    "window demand: threads that count together pay in full for every find, and find what they "
    "read") {
  CAPTURE(seed());
  constexpr std::uint64_t windows = 16, enough = 64 * kibi, each = 20'000;
  constexpr unsigned threads = 4;
  auto const demand = demand_for(4 * enough);
  std::atomic<std::uint64_t> paid{0}, finds{0};  // counters: order nothing
  std::vector<std::atomic<std::uint64_t>> found(windows);
  std::vector<std::thread> readers;
  for (unsigned t = 0; t < threads; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937_64 random(seed() + t);
      for (std::uint64_t i = 0; i < each; ++i) {
        auto const window = random() % windows;
        auto const cost = 1 + random() % (8 * kibi);
        paid += cost;
        if (!demand->add(key_of(1, window), cost)) continue;
        ++finds;
        ++found[window];
      }
    });
  }
  for (auto& r : readers) r.join();
  CHECK(finds * enough <= paid);
  for (auto const& times : found) CHECK(times > 0);
}

TEST_CASE("window demand: pages alone and short chunks are random access, long chunks are not") {
  CHECK(is_random(1, false));
  CHECK(is_random(4 * mebi, false));
  CHECK(is_random(1, true));
  CHECK(is_random(32 * kibi - 1, true));
  CHECK_FALSE(is_random(32 * kibi, true));
}

TEST_CASE(
    "window demand: short reads cost as much as 4 KiB; pages that are read once never pay, but for "
    "elements they soon do") {
  CHECK(staging_cost(1, true) == 4096);
  CHECK(staging_cost(4096, true) == 4096);
  CHECK(staging_cost(28 * kibi, true) == 28 * kibi);
  for (std::uint64_t page = 4 * kibi; page <= 4 * mebi; page *= 2)
    for (std::uint64_t window = page; window <= 64 * mebi; window *= 2)
      CHECK(window / page * staging_cost(page, false) < window / window_demand::part);
  for (std::uint64_t page = 32 * kibi; page <= 4 * mebi; page *= 2)
    for (std::uint64_t window = page; window <= 64 * mebi; window *= 2)
      CHECK(window / page * staging_cost(page, true) < window / window_demand::part);
}
