// The model of the rolling protocol that gpufs-mapping checks tpacf by, against shared memory.
#include <gpufs/mapping.hpp>

#include <apps/mapping/checks.hpp>
#include <apps/mapping/rolling_model.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>

using namespace gpufs;
using namespace gpufs::apps::workloads;
using namespace gpufs::test;

TEST_CASE("rolling model: random writes make the faults and send the bytes that it says") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  unsigned const programs = scaled(40, 10);
  for (unsigned n = 0; n < programs; ++n) {
    CAPTURE(n);
    std::uint64_t const bytes = 1 + random() % (100 << 10), block = 4096ull << random() % 3;
    mapping_config c;
    c.coherence_block = block;
    c.rolling_size = static_cast<std::uint32_t>(1 + random() % 6);
    shared_memory memory(c);
    mapping object = memory.allocate(bytes);
    rolling_model model(bytes, block, c.rolling_size);
    std::uint64_t at = 0;
    for (unsigned write = 0; write < 300; ++write) {
      // Streams, and jumps.
      at = random() % 4 == 0 ? random() % bytes : (at + random() % 2000) % bytes;
      object.as<unsigned char volatile>()[at] = 1;
      model.write(at);
    }
    model.release();
    REQUIRE(object.stats().faults_write == model.faults());
    REQUIRE(object.prefetch_to_device(0, bytes) == 0);
    REQUIRE(object.stats().bytes_h2d == model.bytes_sent());
  }
}

TEST_CASE("checks: wrong values are told once a kind, with their number; right ones are not") {
  checks c;
  c.equal("a count", 3, 3);
  c.near("a value", 0, 1.0, 1.05, 0, 0.1);
  c.expect(true, "a claim");
  CHECK(c.passed());
  c.equal("a count", 3, 4);
  c.equal("a count", 5, 6);
  c.near("a value", 7, 1.0, 1.2, 0.1, 0.05);
  c.near("no number", 0, std::nan(""), 1, 1e9, 0);
  c.expect(false, "a claim");
  CHECK(!c.passed());
  REQUIRE(c.failures().size() == 4);
  CHECK(c.failures()[1] == "a count: 3 instead of 4 (and 1 more)");
}
