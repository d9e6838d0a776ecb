// The consumer's side of the ring: each request goes to one consumer, also in races of many
// producers and consumers.
#include <host-daemon/serve/request_queue.hpp>

#include <test/daemon/harness.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

using gpufs::daemon::request_queue;
using gpufs::test::region_memory;
using gpufs::test::ticket_source;
namespace rpc = gpufs::rpc;

namespace {

rpc::request numbered(std::uint64_t n) {
  return {.op = rpc::operation::read,
          .channel = std::uint32_t(n),
          .sequence = std::uint32_t(n * 3 + 1),
          .file = std::int32_t(n % 1000),
          .offset = n,
          .length = n * 5,
          .staging = n * 7,
          .argument = {n * 11, n * 13}};
}

// All seven words come from one request.
bool is_whole(rpc::request const& r) {
  auto const n = r.offset;
  return r.op == rpc::operation::read && r.sequence == std::uint32_t(n * 3 + 1) &&
         r.file == std::int32_t(n % 1000) && r.length == n * 5 && r.staging == n * 7 &&
         r.argument[0] == n * 11 && r.argument[1] == n * 13;
}

}  // namespace

TEST_CASE("ring: zeroed memory is an empty ring") {
  region_memory memory{8, 8};
  request_queue queue{memory.region.ring, 8, 1};
  rpc::request out[4];
  CHECK_FALSE(queue.ready());
  CHECK(queue.take(out) == 0);
}

TEST_CASE("ring: requests come out in the order of their tickets, lap after lap, and never twice") {
  region_memory memory{8, 8};
  ticket_source tickets{memory.region};
  request_queue queue{memory.region.ring, 8, 1};
  std::uint64_t expected = 0;
  for (std::uint64_t lap = 0; lap < 100; ++lap) {
    for (std::uint64_t i = 0; i < 1 + lap % 8; ++i) {
      auto const t = tickets.take();
      tickets.write(t, numbered(t));
    }
    rpc::request out[3];
    while (auto const count = queue.take(out)) {
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(out[i].offset == expected++);
        CHECK(is_whole(out[i]));
      }
    }
  }
  CHECK(expected == tickets.take());
}

TEST_CASE("ring: a ticket that is not committed yet holds back those behind it, and only them") {
  region_memory memory{8, 8};
  ticket_source tickets{memory.region};
  request_queue queue{memory.region.ring, 8, 1};
  for (std::uint64_t const t : {0, 1, 3, 4, 5, 6, 7}) tickets.write(t, numbered(t));
  rpc::request out[8];
  REQUIRE(queue.take(out) == 2);
  CHECK(out[0].offset == 0);
  CHECK(out[1].offset == 1);
  CHECK(queue.take(out) == 0);
  CHECK_FALSE(queue.ready());
  tickets.write(2, numbered(2));
  CHECK(queue.ready());
  std::uint64_t expected = 2;
  while (auto const count = queue.take(out))
    for (std::size_t i = 0; i < count; ++i) CHECK(out[i].offset == expected++);
  CHECK(expected == 8);
}

TEST_CASE(
    "ring: a request is there once all its words are, in whatever order they arrive, and not "
    "before") {
  region_memory memory{2, 2};
  ticket_source tickets{memory.region};
  request_queue queue{memory.region.ring, 2, 1};
  std::mt19937_64 random{gpufs::test::seed()};
  std::array<unsigned, rpc::words_per_slot> order;
  std::iota(order.begin(), order.end(), 0u);
  for (int i = 0; i < 200; ++i) {  // 100 laps: all slots hold the words of a lap before
    auto const t = tickets.take();
    std::shuffle(order.begin(), order.end(), random);
    rpc::request out[2];
    for (auto const word : order) {
      REQUIRE_FALSE(queue.ready());
      REQUIRE(queue.take(out) == 0);
      std::atomic_ref<std::uint64_t>{memory.region.ring[t % 2].word[word]}.store(
          rpc::pack_word(numbered(t), word, rpc::lap_tag(t, 2)), std::memory_order_release);
    }
    REQUIRE(queue.ready());
    REQUIRE(queue.take(out) == 1);
    CHECK(out[0].offset == t);
    CHECK(is_whole(out[0]));
  }
}

TEST_CASE("ring: tags that come round after 65535 laps are no obstacle") {
  region_memory memory{1, 1};
  ticket_source tickets{memory.region};
  request_queue queue{memory.region.ring, 1, 1};
  rpc::request out[1];
  std::uint64_t wrong = 0;
  for (std::uint64_t t = 0; t < 2 * 65535 + 10; ++t) {
    wrong += queue.ready();
    tickets.write(tickets.take(), numbered(t));
    wrong += queue.take(out) != 1 || out[0].offset != t;
  }
  CHECK(wrong == 0);
}

TEST_CASE("ring: a consumer takes its share of what waits and leaves the rest to the others") {
  region_memory memory{64, 64};
  ticket_source tickets{memory.region};
  rpc::request out[request_queue::most_at_once];
  auto const commit = [&](int count) {
    for (int i = 0; i < count; ++i) {
      auto const t = tickets.take();
      tickets.write(t, numbered(t));
    }
  };
  SUBCASE("fewer than two for each: one") {
    request_queue queue{memory.region.ring, 64, 4};
    commit(7);
    CHECK(queue.take(out) == 1);
  }
  SUBCASE("two for each: two") {
    request_queue queue{memory.region.ring, 64, 4};
    commit(8);
    CHECK(queue.take(out) == 2);
  }
  SUBCASE("never more than asked for") {
    request_queue queue{memory.region.ring, 64, 1};
    commit(64);
    CHECK(queue.take(std::span{out}.first(3)) == 3);
    CHECK(queue.take(std::span{out}.first(0)) == 0);
    CHECK(queue.taken() == 3);
  }
  SUBCASE("alone: all, up to the most at once") {
    request_queue queue{memory.region.ring, 64, 1};
    commit(64);
    CHECK(queue.take(out) == request_queue::most_at_once);
  }
}

TEST_CASE(
    "ring race: every request goes whole to exactly one consumer, oldest first, however often the "
    "ring laps") {
  struct shape {
    unsigned producers, consumers;
    std::uint64_t slots;
  };
  for (auto const s : {shape{8, 4, 8}, shape{3, 6, 4}, shape{1, 4, 1}, shape{16, 3, 64}}) {
    CAPTURE(s.producers);
    CAPTURE(s.consumers);
    std::uint64_t const each = 12'000 / s.producers;
    auto const total = each * s.producers;
    region_memory memory{s.slots, s.producers};
    auto const& region = memory.region;
    ticket_source tickets{region};
    request_queue queue{region.ring, s.slots, s.consumers};
    std::vector<std::atomic<int>> taken(total);
    std::vector<std::uint64_t> plain(
        s.producers);  // ordinary memory that each request hands over and gets back
    std::atomic<std::uint64_t> torn{0}, out_of_order{0}, wrong_plain{0}, answered{0};

    std::vector<std::thread> threads;
    for (unsigned p = 0; p < s.producers; ++p) {
      threads.emplace_back([&, p] {
        for (std::uint64_t i = 0; i < each; ++i) {
          auto const t = tickets.take();
          auto request = numbered(t);
          request.channel = p;
          plain[p] = t;
          tickets.write(t, request);
          std::atomic_ref<std::uint64_t> const done{region.completions[p].word};
          // Pairs with the consumer's release below.
          while (done.load(std::memory_order_acquire) != t + 1) std::this_thread::yield();
          if (plain[p] != ~t) wrong_plain.fetch_add(1, std::memory_order_relaxed);
        }
      });
    }
    for (unsigned c = 0; c < s.consumers; ++c) {
      threads.emplace_back([&, c] {
        std::mt19937_64 random{gpufs::test::seed() + c};
        rpc::request out[request_queue::most_at_once];
        std::uint64_t last = 0;
        bool first = true;
        while (answered.load(std::memory_order_relaxed) < total) {
          auto const count = queue.take(std::span{out}.first(1 + random() % std::size(out)));
          for (std::size_t i = 0; i < count; ++i) {
            auto const t = out[i].offset;
            if (!is_whole(out[i]) || t >= total || out[i].channel >= s.producers) {
              torn.fetch_add(1, std::memory_order_relaxed);
              continue;
            }
            if (!first && t <= last) out_of_order.fetch_add(1, std::memory_order_relaxed);
            if (i > 0 && t != last + 1) out_of_order.fetch_add(1, std::memory_order_relaxed);
            last = t, first = false;
            taken[t].fetch_add(1, std::memory_order_relaxed);
            auto& handed = plain[out[i].channel];
            if (handed != t) wrong_plain.fetch_add(1, std::memory_order_relaxed);
            handed = ~t;
            std::atomic_ref<std::uint64_t>{region.completions[out[i].channel].word}.store(
                t + 1, std::memory_order_release);
            answered.fetch_add(1, std::memory_order_relaxed);
          }
          if (count == 0) std::this_thread::yield();
        }
      });
    }
    for (auto& t : threads) t.join();
    std::uint64_t not_once = 0;
    for (auto const& n : taken) not_once += n.load(std::memory_order_relaxed) != 1;
    CHECK(not_once == 0);
    CHECK(torn == 0);
    CHECK(out_of_order == 0);
    CHECK(wrong_plain == 0);
    CHECK(queue.taken() == total);
  }
}
