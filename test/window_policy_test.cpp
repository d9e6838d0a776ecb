// The readahead window's policy, as tables.
#include <doctest/doctest.h>

#include <initializer_list>
#include <prefetcher/window_policy.hpp>

using namespace gpufs::prefetch;

TEST_CASE("window: a read is sequential if it starts within a page of where the last one of the same version ended") {
  stream const s{.uid = 7, .next = 100000, .window = 4};
  constexpr std::uint64_t page = 4096;
  struct {
    std::uint64_t uid, begin;
    bool sequential;
  } const rows[] = {
      {7, 100000, true},         // goes on exactly there
      {7, 100000 - page, true},  // overlaps by a page
      {7, 100000 - page - 1, false},
      {7, 100000 + page, true},  // leaves out a page
      {7, 100000 + page + 1, false},
      {8, 100000, false},  // the file has changed
      {7, 0, false},
      {7, ~0ull, false},
  };
  for (auto const& r : rows) {
    CAPTURE(r.uid);
    CAPTURE(r.begin);
    CHECK(is_sequential(s, r.uid, r.begin, page) == r.sequential);
  }
  CHECK_FALSE(is_sequential(stream{}, 7, 0, page));  // nothing has been read yet, and 0 names no version
}

TEST_CASE("window: the automatic one doubles up to its limit and collapses") {
  window_rule const rule{.automatic = true, .depth = 1, .limit = 12};
  std::uint32_t const grows[] = {1, 2, 4, 8, 12, 12};
  std::uint32_t window = 0;
  for (auto const expected : grows) CHECK((window = next_window(window, true, rule)) == expected);
  CHECK((window = next_window(window, false, rule)) == 0);
  CHECK(next_window(window, true, rule) == 1);
}

TEST_CASE("window: a fixed prefetch size keeps its depth while reads are sequential") {
  for (std::uint32_t const depth : {0u, 1u, 5u}) {
    window_rule const rule{.automatic = false, .depth = depth, .limit = 3};
    CHECK(next_window(0, true, rule) == depth);
    CHECK(next_window(depth, true, rule) == depth);
    CHECK(next_window(depth, false, rule) == 0);
  }
}

TEST_CASE("window: callers share what keeps the host busy, and each has at least one chunk ahead") {
  CHECK(window_limit(0, 64, 30) == 30);
  CHECK(window_limit(1, 64, 30) == 30);
  CHECK(window_limit(4, 64, 30) == 16);
  CHECK(window_limit(64, 64, 30) == 1);
  CHECK(window_limit(120, 64, 30) == 1);
}
