// The parts of shared memory that need no device: states, sets of blocks, addresses, rolling size.
#include <gpufs/mapping/arena.hpp>
#include <gpufs/mapping/block_runs.hpp>
#include <gpufs/mapping/protocol.hpp>
#include <gpufs/mapping/rolling.hpp>

#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <set>
#include <vector>

using namespace gpufs::shared;
using gpufs::device_memory::host_access;

TEST_CASE("protocol: each state answers each event as ADSM's figure 6 says") {
  using enum block_state;
  struct row {
    block_state before;
    bool fetch;
    block_state read, written;
    host_access cpu;
  };
  row const table[] = {
      {invalid, true, read_only, dirty, host_access::none},
      {read_only, false, read_only, dirty, host_access::read},
      {dirty, false, dirty, dirty, host_access::read_write},
  };
  for (auto const& r : table) {
    CAPTURE(int(r.before));
    CHECK(on_touch(r.before, false).fetch == r.fetch);
    CHECK(on_touch(r.before, true).fetch == r.fetch);
    CHECK(on_touch(r.before, false).after == r.read);
    CHECK(on_touch(r.before, true).after == r.written);
    CHECK(allowed(r.before) == r.cpu);
  }
}

TEST_CASE("protocol: blocks are 2 MiB, a sixteenth of the object at most, 64 KiB at least") {
  CHECK(automatic_block(1) == 64 << 10);
  CHECK(automatic_block(1 << 20) == 64 << 10);
  CHECK(automatic_block(2 << 20) == 128 << 10);
  CHECK(automatic_block((2 << 20) - 1) == 64 << 10);
  CHECK(automatic_block(32 << 20) == 2 << 20);
  CHECK(automatic_block(1ull << 40) == 2 << 20);
}

TEST_CASE("runs: a set of blocks is what a plain set is, and its runs do not touch") {
  CAPTURE(gpufs::test::seed());
  std::mt19937_64 random(gpufs::test::seed());
  constexpr std::uint64_t most = 60;
  for (int round = 0; round < 200; ++round) {
    block_runs runs;
    std::set<std::uint64_t> plain;
    for (int step = 0; step < 40; ++step) {
      block_run const r{random() % most, random() % (most + 1)};
      if (random() % 2 == 0) {
        runs.add(r);
        for (auto b = r.first; b < r.end; ++b) plain.insert(b);
      } else {
        std::uint64_t taken = 0, there = 0;
        for (auto const& t : runs.take(r)) taken += t.end - t.first;
        for (auto b = r.first; b < r.end; ++b) there += plain.erase(b);
        REQUIRE(taken == there);
      }
      std::set<std::uint64_t> listed;
      std::uint64_t before = 0;
      for (auto const& part : runs.within({0, most})) {
        REQUIRE(part.first < part.end);
        REQUIRE((listed.empty() || part.first > before));
        before = part.end;
        for (auto b = part.first; b < part.end; ++b) listed.insert(b);
      }
      REQUIRE(listed == plain);
      REQUIRE(runs.empty() == plain.empty());
    }
  }
}

TEST_CASE("arena: what is taken does not overlap, and all of it can be had again") {
  CAPTURE(gpufs::test::seed());
  std::mt19937_64 random(gpufs::test::seed());
  constexpr std::uint64_t room = 1000;
  arena a(room);
  struct piece {
    std::uint64_t offset, bytes;
  };
  std::vector<piece> taken;
  std::vector<bool> used(room);
  for (int step = 0; step < 5000; ++step) {
    if (random() % 2 == 0) {
      std::uint64_t const bytes = 1 + random() % 100;
      auto const offset = a.take(bytes);
      if (!offset) continue;
      REQUIRE(*offset + bytes <= room);
      for (auto n = *offset; n < *offset + bytes; ++n) {
        REQUIRE(!used[n]);
        used[n] = true;
      }
      taken.push_back({*offset, bytes});
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      auto const [offset, bytes] = taken.back();
      taken.pop_back();
      for (auto n = offset; n < offset + bytes; ++n) used[n] = false;
      a.give_back(offset, bytes);
    }
  }
  for (auto const& [offset, bytes] : taken) a.give_back(offset, bytes);
  CHECK(a.take(room) == 0);
  CHECK(!a.take(1));
}

TEST_CASE(
    "rolling size: grows with writes to blocks just sent, is halved by launches that find few") {
  gpufs::mapping_config c;
  rolling_size size(c);
  for (int n = 0; n < 3; ++n) size.object_added();
  CHECK(size.limit() == 6);
  auto const sent = size.evicted();
  for (std::uint32_t n = 0; n < c.rolling_patience; ++n) CHECK(size.written_again(sent));
  CHECK(size.limit() == 7);
  for (int n = 0; n < 7; ++n) size.evicted();
  CHECK(!size.written_again(sent));
  size.released(7);
  CHECK(size.limit() == 7);
  size.released(6);
  CHECK(size.limit() == 3);
  for (int n = 0; n < 5; ++n) size.released(0);
  CHECK(size.limit() == 2);
}

TEST_CASE("rolling size: a fixed one stays") {
  gpufs::mapping_config c;
  c.rolling_size = 1;
  rolling_size size(c);
  size.object_added();
  auto const sent = size.evicted();
  for (int n = 0; n < 100; ++n) size.written_again(sent);
  size.released(0);
  CHECK(size.limit() == 1);
}
