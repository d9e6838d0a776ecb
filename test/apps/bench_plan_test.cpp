// The access plans of `gpufs bench`: which block reads what.
#include <apps/bench/access_plan.hpp>
#include <apps/bench/write.hpp>
#include <apps/harness/zipf.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

using namespace gpufs::apps;

namespace {

access_plan sequential(std::uint64_t blocks, std::uint64_t bytes, std::uint64_t request) {
  access_plan p;
  p.blocks = blocks;
  p.bytes = bytes;
  p.request = request;
  p.stride = access_plan::ranges(access_plan::ranges(bytes, request), blocks) * request;
  return p;
}

/// How often each byte of the file is read; checks what holds for every plan on the way.
std::vector<int> times_read(access_plan const& p) {
  std::vector<int> times(p.bytes, 0);
  std::set<std::uint64_t> numbers;
  std::uint64_t payload = 0;
  for (std::uint64_t b = 0; b < p.blocks; ++b) {
    for (std::uint64_t i = 0; i < p.requests_of(b); ++i) {
      gpufs::apps::access const a = p.at(b, i);
      REQUIRE(a.bytes > 0);
      REQUIRE(a.bytes <= p.request);
      REQUIRE(a.offset + a.bytes <= p.bytes);
      REQUIRE(a.number < p.numbers());
      CHECK(numbers.insert(a.number).second);
      for (std::uint64_t k = a.offset; k < a.offset + a.bytes; ++k) ++times[k];
      payload += a.bytes;
    }
  }
  CHECK(payload == p.payload());
  return times;
}

}  // namespace

TEST_CASE("bench plan: sequential blocks together read each byte once, whatever divides what") {
  for (std::uint64_t const blocks : {1u, 3u, 8u}) {
    for (std::uint64_t const bytes : {1u, 7u, 64u, 65u, 1000u}) {
      for (std::uint64_t const request : {1u, 8u, 13u, 64u, 2000u}) {
        for (int const n : times_read(sequential(blocks, bytes, request))) CHECK(n == 1);
      }
    }
  }
}

TEST_CASE("bench plan: columns are read once, each block down its own, however many blocks") {
  for (std::uint64_t const blocks : {1u, 3u, 4u, 5u, 8u, 13u, 100u}) {
    access_plan p;
    p.pattern = access_pattern::columns;
    p.blocks = blocks;
    p.request = 8;
    p.stride = 32;  // four columns
    p.bytes = 32 * 7;
    for (int const n : times_read(p)) CHECK(n == 1);
    for (std::uint64_t i = 1; i < 7 / p.column_parts(); ++i)
      CHECK(p.at(0, i).offset == p.at(0, i - 1).offset + p.stride);
  }
}

TEST_CASE("bench plan: a stride that is no multiple of the request is read to its end") {
  access_plan p = sequential(4, 400, 30);
  p.stride = 100;
  for (int const n : times_read(p)) CHECK(n == 1);
}

TEST_CASE("bench plan: strided ranges lie `stride` apart and are all read") {
  access_plan p;
  p.pattern = access_pattern::strided;
  p.blocks = 3;
  p.bytes = 1000;
  p.request = 16;
  for (std::uint64_t const stride : {16u, 24u, 999u, 5000u}) {
    p.stride = stride;
    auto const times = times_read(p);
    for (std::uint64_t k = 0; k < times.size(); ++k)
      CHECK(times[k] == (k % stride < p.request ? 1 : 0));
  }
}

TEST_CASE("bench plan: random ranges are aligned, whole, and depend on the seed alone") {
  access_plan p;
  p.pattern = access_pattern::random;
  p.blocks = 3;
  p.bytes = 1000;
  p.request = 64;
  p.draws = 100;
  p.seed = 7;
  (void)times_read(p);
  access_plan other = p;
  other.blocks = 5;
  for (std::uint64_t i = 0; i < p.draws; ++i) {
    CHECK(p.at(i % 3, i / 3).offset % p.request == 0);
    CHECK(p.at(i % 3, i / 3).offset == other.at(i % 5, i / 5).offset);
  }
}

TEST_CASE("bench plan: ranges that were drawn are read in that order, whoever reads them") {
  std::vector<std::uint32_t> const drawn = {3, 0, 3, 9, 1};
  access_plan p;
  p.pattern = access_pattern::random;
  p.blocks = 2;
  p.bytes = 1000;
  p.request = 100;
  p.draws = drawn.size();
  p.drawn = drawn.data();
  for (int const times : times_read(p)) CHECK(times <= 2);
  for (std::uint64_t i = 0; i < p.draws; ++i) CHECK(p.at(i % 2, i / 2).offset == 100 * drawn[i]);
}

TEST_CASE(
    "zipf: rank k comes k^-theta as often as the first one, for exponents below, at, near and "
    "above 1") {
  constexpr std::uint64_t n = 1000, draws = 200'000;
  std::uint64_t const seed = gpufs::test::seed();
  for (double const theta : {0.5, 0.99, 1.0, 1 + 1e-12, 1.5, 4.0}) {
    CAPTURE(theta);
    zipf_ranks const ranks(n, theta);
    std::vector<std::uint64_t> times(n + 1, 0);
    for (std::uint64_t i = 0; i < draws; ++i) ++times.at(ranks.rank(seed, i));
    CHECK(times[0] == 0);
    double sum = 0;
    for (std::uint64_t k = 1; k <= n; ++k) sum += std::pow(static_cast<double>(k), -theta);
    // Ranks [first, last]: six standard deviations of the binomial distribution either way. Ranks
    // that are hardly ever drawn come in its long tail.
    auto const check = [&](std::uint64_t first, std::uint64_t last) {
      double share = 0, got = 0;
      for (std::uint64_t k = first; k <= last; ++k) {
        share += std::pow(static_cast<double>(k), -theta) / sum;
        got += static_cast<double>(times[k]);
      }
      CAPTURE(first);
      CHECK(std::fabs(got - share * draws) <= 6 * std::sqrt(draws * share * (1 - share)) + 6);
    };
    for (std::uint64_t const k : {1, 2, 3, 10}) check(k, k);
    check(11, 100);
    check(101, 999);
    check(1000, 1000);
  }
}

TEST_CASE("zipf: a single range is always the one; draws depend on seed and number alone") {
  CHECK(zipf_ranks(1, 0.99).rank(5, 7) == 1);
  auto const some = zipf_draws(50, 0.99, 100, 3), more = zipf_draws(50, 0.99, 100'000, 3),
             other = zipf_draws(50, 0.99, 100, 4);
  CHECK(std::vector(more.begin(), more.begin() + 100) == some);
  CHECK(other != some);
}

TEST_CASE("zipf: every range has one rank, and wanted ones are no neighbours in the file") {
  for (std::uint64_t const ranges : {1, 2, 3, 7, 64, 1000, 4096}) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t rank = 1; rank <= ranges; ++rank) {
      std::uint64_t const range = range_of_rank(rank, ranges);
      CHECK(range < ranges);
      CHECK(seen.insert(range).second);
    }
    if (ranges < 64) continue;
    for (std::uint64_t rank = 1; rank < 10; ++rank) {
      auto const a = static_cast<std::int64_t>(range_of_rank(rank, ranges)),
                 b = static_cast<std::int64_t>(range_of_rank(rank + 1, ranges));
      CHECK(std::abs(a - b) > 8);
    }
  }
}

TEST_CASE("bench plan: host threads write each byte of bench write's file once, also its tail") {
  for (std::uint64_t const factor : {1u, 3u, 5u}) {
    for (std::uint64_t const request : {8u, 24u, 64u, 136u}) {
      write_plan const plan{17, 8, factor, 1};
      request_order const requests(plan, request);
      std::vector<int> times(plan.bytes(), 0);
      for (std::uint64_t i = 0; i < requests.order.ranges; ++i) {
        auto const range = requests.order.range(i), first = range * request;
        REQUIRE(first + requests.bytes_of(range) <= plan.bytes());
        for (std::uint64_t k = 0; k < requests.bytes_of(range); ++k) ++times[first + k];
      }
      CAPTURE(request);
      CAPTURE(factor);
      CHECK(times == std::vector<int>(plan.bytes(), 1));
    }
  }
}
