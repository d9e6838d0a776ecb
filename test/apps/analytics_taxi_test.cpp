// The rows of the taxi queries: what the generator promises, and the arithmetic of ratios.
#include <apps/analytics/strided.hpp>
#include <apps/analytics/taxi/columns.hpp>
#include <apps/analytics/taxi/query.hpp>
#include <apps/common/program.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

using namespace gpufs;
using namespace gpufs::apps;
using namespace gpufs::apps::analytics;

TEST_CASE("columns have the values that they should") {
  std::uint64_t const seed = test::seed();
  for (auto const how : {clustering::scattered, clustering::runs, clustering::mixed}) {
    taxi_rows const rows(seed, how);
    for (std::uint64_t i = 0; i < 100'000; ++i) {
      std::int64_t const distance = rows.distance(i);
      REQUIRE((distance >= long_trip) == rows.is_long(i));
      REQUIRE(distance >= 30);
      REQUIRE(distance < 9000);
      std::int64_t const noise = rows.value(1, i) - 300 - 275 * distance / 100;
      REQUIRE(noise >= 0);
      REQUIRE(noise < 200);
      std::int64_t const tolls = rows.value(4, i);
      REQUIRE((tolls == 0 || (tolls == 655 && rows.is_long(i))));
      REQUIRE(rows.value(5, i) == 50);
    }
  }
}

TEST_CASE("one of 3327 trips is long, however they lie, and short ones have 2.9 miles on average") {
  constexpr std::uint64_t count = 4 << 20;
  for (auto const how : {clustering::scattered, clustering::runs, clustering::mixed}) {
    taxi_rows const rows(test::seed(), how);
    std::uint64_t trips = 0, changes = 0;
    bool last = false;
    for (std::uint64_t i = 0; i < count; ++i) {
      bool const now = rows.is_long(i);
      trips += now ? 1 : 0;
      changes += now && !last ? 1 : 0;
      last = now;
    }
    double const expected = count * 3.006e-4;
    // Runs vary 8 times as much as single rows, rates that change about 2 times.
    double const deviation = std::sqrt(expected) * (how == clustering::scattered ? 1 : 8);
    CHECK(std::fabs(static_cast<double>(trips) - expected) < 6 * deviation);
    CHECK(changes <= (how == clustering::runs ? trips / 64 : trips));
  }
  taxi_rows const rows(test::seed(), clustering::scattered);
  double sum = 0;
  for (std::uint64_t i = 0; i < 1'000'000; ++i)
    sum += rows.is_long(i) ? 290 : static_cast<double>(rows.distance(i));
  CHECK(sum / 1e6 == doctest::Approx(290).epsilon(0.01));
}

TEST_CASE("ratios are rounded down") {
  CHECK(ratio_of(100, 50) == 2 << 20);
  CHECK(ratio_of(1, 3) == (1 << 20) / 3);
  CHECK(ratio_of(-1, 3) == -(1 << 20) / 3 - 1);
  CHECK(ratio_of(-3, 3) == -(1 << 20));
  CHECK_THROWS_AS((void)clustering_named("nothing"), usage_error);
}

TEST_CASE("each part comes once, whatever the stride") {
  for (std::uint64_t const parts : {1, 7, 64, 100}) {
    for (std::uint64_t const stride : {1, 2, 7, 64, 99, 100, 1000}) {
      std::vector<bool> seen(parts);
      for (std::uint64_t i = 0; i < parts; ++i) {
        std::uint64_t const part = part_at_turn(i, parts, stride);
        REQUIRE(part < parts);
        REQUIRE_FALSE(seen[part]);
        seen[part] = true;
      }
      if (parts / stride > 1) CHECK(part_at_turn(1, parts, stride) == stride);
    }
  }
}
