// The sweep behind `gpufs tune --mapping`, over speeds that are known.
#include <apps/gpufs/tune_sweep.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>
#include <vector>

using namespace gpufs::apps;

namespace {

/// Candidates are numbers. Run number `run` of candidate `c`, from 0, has speed at(c, run).
sweep_result<int> sweep_of(std::vector<int> const& candidates, unsigned rounds,
                           std::function<double(int, unsigned)> const& at) {
  std::vector<unsigned> runs(100);
  return sweep<int>(candidates, rounds, [&](int c) { return at(c, runs.at(std::size_t(c))++); });
}

}  // namespace

TEST_CASE("tune sweep: candidates take turns, one run of each in a round") {
  std::vector<int> order;
  auto const r = sweep_of({7, 3, 5}, 3, [&](int c, unsigned) {
    order.push_back(c);
    return 1.0;
  });
  CHECK(order == std::vector{7, 3, 5, 7, 3, 5, 7, 3, 5});
  CHECK(r.best == 0);
  REQUIRE(r.trials.size() == 3);
  for (auto const& t : r.trials) CHECK(t.score.runs == 3);
  CHECK(r.trials[1].settings == 3);
}

TEST_CASE("tune sweep: the highest median of those that are better is the best") {
  auto const r = sweep_of({0, 1, 2, 3}, 3, [](int c, unsigned run) {
    double const speeds[4] = {1.0, 1.5, 2.0, 1.8};
    return speeds[c] + 0.01 * run;
  });
  CHECK(r.best == 2);
  CHECK(r.trials[2].score.median == doctest::Approx(2.01));
  CHECK(r.trials[2].score.low == doctest::Approx(2.0));
  CHECK(r.trials[2].score.high == doctest::Approx(2.02));
}

TEST_CASE("tune sweep: a gain below the margin and runs that overlap move nothing") {
  auto const r = sweep_of({0, 1, 2}, 3, [](int c, unsigned run) {
    if (c == 1) return 1.019;               // less than 2 %
    if (c == 2) return run == 0 ? 0.9 : 5;  // one run is slower than the first candidate's
    return 1.0;
  });
  CHECK(r.best == 0);
  CHECK(r.trials[2].score.median == 5);
}

TEST_CASE(
    "tune sweep: candidates that fail are named and left out, the first one's error is the "
    "caller's") {
  auto const speed = [](int c, unsigned run) -> double {
    if (c == 1) throw std::runtime_error("no room");
    if (c == 2 && run == 1) throw std::runtime_error("no room any more");
    return c == 2 ? 9 : 1;
  };
  auto const r = sweep_of({0, 1, 2}, 3, speed);
  CHECK(r.best == 0);
  CHECK(r.trials[1].failure == "no room");
  CHECK(r.trials[1].score.runs == 0);
  CHECK(r.trials[2].failure == "no room any more");
  CHECK_THROWS_WITH((void)sweep_of({1, 0}, 3, speed), "no room");
}
