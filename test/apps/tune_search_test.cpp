// The search behind `gpufs tune`, over scores that are known.
#include <apps/gpufs/tune_search.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::apps;

namespace {

std::vector<coordinate> pages_and_threads() {
  return {{"page_size",
           [](config const&) {
             return std::vector<std::string>{"4K", "64K", "1M"};
           }},
          {"host_threads", [](config const&) {
             return std::vector<std::string>{"1", "2", "4", "8"};
           }}};
}

auto const for_ever = [] { return true; };

/// Runs that all give `score`.
run_scores steady(double score) { return {score, score, score, 3}; }

}  // namespace

TEST_CASE(
    "tune search: it finds the best of settings that do not depend on each other, and makes no "
    "trial twice") {
  config start;
  start.page_size = 4 << 10;
  start.host_threads = 1;
  unsigned calls = 0;
  std::set<std::string> seen;
  auto const r = descend(
      start, pages_and_threads(),
      [&](config const& c, double best) {
        ++calls;
        CHECK(
            seen.insert(std::to_string(c.page_size) + "/" + std::to_string(c.host_threads)).second);
        CHECK((calls == 1 ? best == 0 : best > 0));
        return steady((c.page_size == 64 << 10 ? 2.0 : 1.0) * (c.host_threads == 4 ? 3.0 : 1.0));
      },
      for_ever);
  CHECK(r.complete);
  CHECK(r.trials[r.best].settings.page_size == 64 << 10);
  CHECK(r.trials[r.best].settings.host_threads == 4);
  CHECK(r.trials[r.best].score.median == 6);
  CHECK(r.trials.front().settings.page_size == start.page_size);
  // Two pages, three numbers of threads, and in the second round the two pages with the best number
  // of threads.
  CHECK(calls == 1 + 2 + 3 + 2);
  CHECK(r.trials.size() == calls);
}

TEST_CASE("tune search: what one setting changes for another is found in a further round") {
  config start;
  start.page_size = 4 << 10;
  start.host_threads = 1;
  auto const r = descend(
      start, pages_and_threads(),
      [](config const& c, double) {
        bool const large = c.page_size == 1 << 20;
        return steady(c.host_threads == 8 ? (large ? 9.0 : 5.0) : (large ? 1.0 : 3.0));
      },
      for_ever);
  CHECK(r.trials[r.best].score.median == 9);
  CHECK(r.complete);
}

TEST_CASE("tune search: noise below the margin moves nothing") {
  double noise = 1;
  auto const r = descend(
      config{}, pages_and_threads(), [&](config const&, double) { return steady(noise += 0.001); },
      for_ever);
  CHECK(r.best == 0);
  CHECK(r.complete);
}

TEST_CASE("tune search: runs that overlap with those of the best settings move nothing") {
  config start;
  start.page_size = 4 << 10;
  start.host_threads = 1;
  auto const r = descend(
      start, pages_and_threads(),
      [](config const& c, double) {
        if (c.page_size == 64 << 10) return run_scores{1.2, 1.05, 1.3, 3};
        if (c.page_size == 1 << 20) return run_scores{1.15, 1.12, 1.2, 3};
        return run_scores{1.0, 0.9, 1.1, 3};
      },
      for_ever);
  CHECK(r.complete);
  CHECK(r.trials[r.best].settings.page_size == 1 << 20);
  CHECK(r.trials[r.best].score.low == 1.12);
}

TEST_CASE("tune search: it ends when the time is up, with the best so far") {
  int left = 3;
  config start;
  start.page_size = 4 << 10;
  auto const r = descend(
      start, pages_and_threads(),
      [](config const& c, double) { return steady(c.page_size == 64 << 10 ? 2 : 1); },
      [&] { return left-- > 0; });
  CHECK_FALSE(r.complete);
  CHECK(r.trials.size() == 4);
  CHECK(r.trials[r.best].settings.page_size == 64 << 10);
}

TEST_CASE(
    "tune search: settings that do not fit together are left out, those that fail are named, a "
    "start that fails is an error") {
  config start;
  start.page_size = 4 << 10;
  start.prefetch_size = 4 << 10;
  start.staging_size = 1 << 20;
  std::vector<coordinate> along{
      {"page_size",
       [](config const&) {
         return std::vector<std::string>{"2K", "64K", "1M", "3000"};
       }},
      {"prefetch_size", [](config const& c) {
         return std::vector<std::string>{format_size(c.page_size), format_size(3 * c.page_size)};
       }}};
  auto const r = descend(
      start, along,
      [](config const& c, double) {
        validate(c);
        if (c.page_size == 2 << 10) throw std::runtime_error("no room");
        return steady(1);
      },
      for_ever);
  // 64K is more than prefetch_size, 1M more than staging allows, 3000 is no page size at all.
  REQUIRE(r.trials.size() == 3);
  CHECK(r.trials[1].failure == "no room");
  CHECK(r.trials[2].settings.prefetch_size == 12 << 10);
  CHECK(r.best == 0);
  CHECK_THROWS_WITH(
      (void)descend(
          start, along,
          [](config const&, double) -> run_scores { throw std::runtime_error("no device"); },
          for_ever),
      "no device");
}
