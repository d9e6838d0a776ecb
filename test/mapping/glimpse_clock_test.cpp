// When the CPU's glimpses of running calls end: not before an instruction has had what it needs,
// and not never.
#include <gpufs/mapping/glimpse_clock.hpp>

#include <doctest/doctest.h>

using namespace std::chrono_literals;
using gpufs::shared::glimpse_clock;

namespace {

glimpse_clock::clock::time_point const zero{};

}  // namespace

TEST_CASE("glimpse clock: without glimpses nothing ends") {
  glimpse_clock c;
  CHECK(!c.runs());
  CHECK(!c.is_over(zero));
  CHECK(!c.is_over(zero + 24h));
  c.end();
  CHECK(!c.runs());
}

TEST_CASE("glimpse clock: a period has its least length, and begins anew with the next glimpse") {
  glimpse_clock c;
  for (auto begin = zero; begin < zero + 1s; begin += 300ms) {
    c.came(begin, 0ns);
    CHECK(c.runs());
    CHECK(!c.is_over(begin));
    CHECK(!c.is_over(begin + 999us));
    CHECK(c.is_over(begin + 1ms));
    c.end();
    CHECK(!c.is_over(begin + 10ms));
  }
}

TEST_CASE("glimpse clock: four blocks with slow copies are there at once") {
  for (auto const copy : {1us, 100us, 10'000us, 1'000'000us}) {
    CAPTURE(copy.count());
    glimpse_clock c;
    auto now = zero + 5s;
    for (int block = 0; block < 4; ++block) {
      now += copy;
      CHECK(!c.is_over(now));  // the service thread looks after each
      c.came(now, copy);
    }
    CHECK(!c.is_over(now + copy));
  }
}

TEST_CASE("glimpse clock: others that read on and on do not put the end off") {
  glimpse_clock c;
  auto now = zero;
  for (int i = 0; i < 100'000 && !c.is_over(now); ++i) {
    c.came(now, 20us);
    now += 21us;
  }
  CHECK(c.is_over(now));
  CHECK(now < zero + 2ms);
}
