// The access plans of `gpufs bench`: which block reads what.
#include <apps/gpufs/access_plan.hpp>

#include <doctest/doctest.h>

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
  p.stride = access_plan::pieces(access_plan::pieces(bytes, request), blocks) * request;
  return p;
}

/// How often each byte of the file is read; checks what holds for every plan on the way.
std::vector<int> times_read(access_plan const& p) {
  std::vector<int> times(p.bytes, 0);
  std::set<std::uint64_t> numbers;
  std::uint64_t payload = 0;
  for (std::uint64_t b = 0; b < p.blocks; ++b) {
    for (std::uint64_t i = 0; i < p.requests_of(b); ++i) {
      access const a = p.at(b, i);
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

TEST_CASE("bench plan: a stride that is no multiple of the request is read to its end") {
  access_plan p = sequential(4, 400, 30);
  p.stride = 100;
  for (int const n : times_read(p)) CHECK(n == 1);
}

TEST_CASE("bench plan: strided pieces lie `stride` apart and are all read") {
  access_plan p;
  p.pattern = access_pattern::strided;
  p.blocks = 3;
  p.bytes = 1000;
  p.request = 16;
  for (std::uint64_t const stride : {16u, 24u, 999u, 5000u}) {
    p.stride = stride;
    auto const times = times_read(p);
    for (std::uint64_t k = 0; k < times.size(); ++k) CHECK(times[k] == (k % stride < p.request ? 1 : 0));
  }
}

TEST_CASE("bench plan: random pieces are aligned, whole, and depend on the seed alone") {
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
