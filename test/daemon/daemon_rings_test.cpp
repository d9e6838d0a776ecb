// Several rings: the spread of channels over them, and answers to requests in each of them.
#include <gpufs/rpc/channel_places.hpp>

#include <host-daemon/serve/server.hpp>

#include <test/daemon/harness.hpp>
#include <test/support/faults.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

using gpufs::io_backend;
using gpufs::daemon::server;
using gpufs::daemon::server_settings;
using gpufs::test::caller;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::ticket_source;
using gpufs::test::write_range;
using gpufs::test::wrong_bytes;
namespace rpc = gpufs::rpc;

namespace {

server_settings with_threads(unsigned threads) {
  server_settings s;
  s.threads = threads;
  s.backend = io_backend::pread;
  return s;
}

// The rings of a region as regions of one ring each.
std::deque<ticket_source> tickets_of(rpc::shared_region const& region) {
  std::deque<ticket_source> sources;
  for (std::uint64_t i = 0; i < region.rings; ++i) {
    auto one = region;
    one.ring += i * region.slots;
    sources.emplace_back(one);
  }
  return sources;
}

}  // namespace

TEST_CASE("rings: no ring serves more than its share of the channels, however many there are") {
  for (std::uint32_t rings = 1; rings <= 20; ++rings) {
    CAPTURE(rings);
    std::vector<std::uint32_t> served(rings);
    for (std::uint32_t channel = 0; channel < 3 * rings * rings + 7; ++channel) {
      CAPTURE(channel);
      auto const ring = rpc::place_of_channel(channel, rings);
      REQUIRE(ring < rings);
      REQUIRE(rpc::channel_of_place(ring, channel / rings, rings) == channel);
      REQUIRE(++served[ring] <= (channel + rings) / rings);
    }
  }
}

// A warp begins to look for channels 32 behind the one before. So these are the distances if one
// warp of each block asks, with blocks of 32 to 1024 threads.
TEST_CASE("rings: callers whose channels lie at a regular distance spread over them") {
  constexpr std::uint32_t first = 256;
  for (std::uint32_t const callers : {32u, 64u, 128u, 256u}) {
    for (std::uint32_t rings = 1; rings <= 32; ++rings) {
      for (std::uint32_t distance = 32; distance <= 1024; distance += 32) {
        CAPTURE(callers);
        CAPTURE(rings);
        CAPTURE(distance);
        std::vector<std::uint32_t> served(rings);
        for (std::uint32_t i = 0; i < callers; ++i)
          ++served[rpc::place_of_channel(first + i * distance, rings)];
        std::uint32_t const share = (callers + rings - 1) / rings;
        CHECK(*std::max_element(served.begin(), served.end()) <= 3.4 * share);
      }
    }
  }
}

TEST_CASE("rings: callers at a regular distance spread over replicas, and over their queue pairs") {
  constexpr std::uint32_t first = 256, callers = 1024;
  for (std::uint32_t const replicas : {2u, 3u, 4u, 8u}) {
    for (std::uint32_t const pairs : {4u, 8u, 16u, 32u}) {
      for (std::uint32_t distance = 32; distance <= 1024; distance += 32) {
        CAPTURE(replicas);
        CAPTURE(pairs);
        CAPTURE(distance);
        std::vector<std::uint32_t> served(replicas * pairs), by_replica(replicas);
        for (std::uint32_t i = 0; i < callers; ++i) {
          auto const channel = first + i * distance;
          auto const replica = rpc::replica_of_channel(channel, replicas);
          REQUIRE(replica < replicas);
          ++by_replica[replica];
          ++served[replica * pairs + rpc::place_of_channel(channel, pairs)];
        }
        CHECK(*std::ranges::max_element(by_replica) * replicas <= 1.2 * callers);
        CHECK(*std::ranges::max_element(served) * served.size() <= 3.3 * callers);
      }
    }
  }
}

TEST_CASE("rings: one whose own thread is held up is served beside a ring that is never empty") {
  scratch_folder folder;
  write_range(folder / "a", 0, 100'000);
  constexpr std::uint64_t slots = 256;
  region_memory memory{2 * slots, 2 * slots, 4 << 20};
  auto region = memory.region;
  region.rings = 2;
  region.slots = slots;
  auto tickets = tickets_of(region);
  gpufs::test::scripted_faults faults;
  std::vector<std::uint64_t> order;
  faults.on_read = [&](std::uint64_t offset, std::uint64_t) {
    order.push_back(offset);
    return gpufs::testing::fault_action::pass();
  };
  server daemon{region, with_threads(1), &faults};
  std::vector<caller> callers;
  for (std::uint32_t channel = 0; channel < 2 * slots; ++channel)
    callers.emplace_back(region, tickets[rpc::place_of_channel(channel, 2)], channel);
  daemon.start();
  auto const fd = callers[0].open(folder / "a");
  REQUIRE(fd > 0);
  daemon.stop();
  // One thread for both rings. One has as many requests as it holds, the other has one.
  for (std::uint32_t const full : {0u, 1u}) {
    CAPTURE(full);
    order.clear();
    std::vector<std::uint32_t> posted;
    bool other = false;
    for (std::uint32_t channel = 1; channel < 2 * slots; ++channel) {
      bool const is_full = rpc::place_of_channel(channel, 2) == full;
      if (!is_full && std::exchange(other, true)) continue;
      callers[channel].post_read(fd, is_full ? 100 : 200, 1);
      posted.push_back(channel);
    }
    daemon.start();
    for (auto const channel : posted) CHECK(callers[channel].wait() == 1);
    daemon.stop();
    auto const place = std::ranges::find(order, 200u) - order.begin();
    CHECK(place <= 8 * 16);
    CHECK(order.size() == posted.size());
  }
}

TEST_CASE(
    "rings: the callers of every ring are answered, with more threads than rings and with fewer") {
  scratch_folder folder;
  write_range(folder / "a", 0, 100'000);
  for (std::uint64_t const rings : {2, 3, 5}) {
    for (unsigned const threads : {1u, 3u, 7u}) {
      CAPTURE(rings);
      CAPTURE(threads);
      constexpr std::uint64_t slots = 4;
      std::uint64_t const channels = 3 * rings;
      region_memory memory{rings * slots, channels, 1 << 20};
      auto region = memory.region;
      region.rings = rings;
      region.slots = slots;
      auto tickets = tickets_of(region);
      server daemon{region, with_threads(threads)};
      daemon.start();
      std::atomic<int> wrong{0};
      std::vector<std::thread> callers;
      for (std::uint32_t channel = 0; channel < channels; ++channel) {
        callers.emplace_back([&, channel] {
          caller c{region, tickets[rpc::place_of_channel(channel, std::uint32_t(rings))], channel};
          auto const fd = c.open(folder / "a");
          for (std::uint64_t i = 0; i < 50; ++i) {
            auto const offset = i * 1000 + channel;
            if (c.read(fd, offset, 3000) != 3000 || wrong_bytes(c.data(), offset, 3000) != 0)
              ++wrong;
          }
          if (c.close(fd) != 0) ++wrong;
        });
      }
      for (auto& t : callers) t.join();
      CHECK(wrong == 0);
      CHECK(daemon.statistics().requests == channels * 52);
    }
  }
}

TEST_CASE("rings: what waits in any ring when the daemon starts is answered") {
  constexpr std::uint64_t rings = 4;
  constexpr std::uint64_t slots = 4;
  region_memory memory{rings * slots, rings * slots, 1 << 20};
  auto region = memory.region;
  region.rings = rings;
  region.slots = slots;
  auto tickets = tickets_of(region);
  server daemon{region, with_threads(1)};
  std::vector<caller> callers;
  for (std::uint32_t channel = 0; channel < rings * slots; ++channel) {
    callers.emplace_back(region, tickets[rpc::place_of_channel(channel, rings)], channel);
    callers.back().post({.op = rpc::operation::nop});
  }
  daemon.start();
  for (auto& c : callers) CHECK(c.wait() == 0);
}

TEST_CASE("rings: a region whose rings cannot hold a request of each channel is refused") {
  region_memory memory{8, 8};
  auto region = memory.region;
  region.slots = 2;
  region.rings = 4;
  CHECK_NOTHROW(server{region, with_threads(1)});
  region.rings = 3;
  CHECK_THROWS_AS((server{region, with_threads(1)}), std::invalid_argument);
  region.rings = 0;
  CHECK_THROWS_AS((server{region, with_threads(1)}), std::invalid_argument);
}
