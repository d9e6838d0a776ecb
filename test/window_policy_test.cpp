// The readahead window's policy, as tables.
#include <prefetcher/window_policy.hpp>

#include <doctest/doctest.h>

#include <initializer_list>

using namespace gpufs::prefetch;

TEST_CASE(
    "window: a read is sequential if it starts within a page of where the last one of the same "
    "version ended") {
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
  CHECK_FALSE(
      is_sequential(stream{}, 7, 0, page));  // nothing has been read yet, and 0 names no version
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

TEST_CASE("window: advice decides where the reads themselves say nothing or something else") {
  using gpufs::advice;
  constexpr std::uint64_t page = 4096;
  stream const begun{.uid = 7, .next = 100000, .window = 4};
  struct {
    stream reads;
    std::uint64_t begin;
    bool normal, random, sequential;
  } const rows[] = {
      {begun, 100000, true, false, true},    // goes on
      {begun, 500000, false, false, false},  // a jump is a jump, whatever was said
      {begun, 0, false, false, false},
      {stream{}, 0, false, false, true},                            // the first read
      {stream{}, 500000, false, false, true},                       // of a part in the middle
      {{.uid = 8, .next = 0, .window = 9}, 0, false, false, true},  // the first one of this version
  };
  for (auto const& r : rows) {
    CAPTURE(r.reads.uid);
    CAPTURE(r.begin);
    CHECK(is_sequential(r.reads, 7, r.begin, page) == r.normal);
    CHECK(is_sequential(r.reads, 7, r.begin, page, advice::normal) == r.normal);
    CHECK(is_sequential(r.reads, 7, r.begin, page, advice::random) == r.random);
    CHECK(is_sequential(r.reads, 7, r.begin, page, advice::sequential) == r.sequential);
  }
}

TEST_CASE(
    "window: at once means the limit from the first sequential read on, also behind a jump; a "
    "fixed size keeps its depth") {
  window_rule const rule{.automatic = true, .depth = 1, .limit = 12, .at_once = true};
  CHECK(next_window(0, true, rule) == 12);
  CHECK(next_window(12, true, rule) == 12);
  CHECK(next_window(12, false, rule) == 0);
  CHECK(next_window(0, true, rule) == 12);
  CHECK(next_window(0, true, {.automatic = false, .depth = 3, .limit = 12, .at_once = true}) == 3);
}

TEST_CASE("window: a limit that falls takes the window down with it at the next read") {
  window_rule rule{.automatic = true, .depth = 1, .limit = 30};
  CHECK(next_window(16, true, rule) == 30);
  rule.limit = 4;  // more callers have come
  CHECK(next_window(30, true, rule) == 4);
  rule.limit = 1;
  CHECK(next_window(4, true, rule) == 1);
}

TEST_CASE("window: a fixed depth, a jump or neither, in any order") {
  struct {
    std::uint32_t window;
    bool sequential, automatic;
    std::uint32_t depth, limit, next;
  } const rows[] = {
      {0, false, true, 5, 8, 0}, {0, false, false, 5, 8, 0}, {7, false, true, 5, 8, 0},
      {0, true, true, 5, 8, 1},  {1, true, true, 5, 8, 2},   {3, true, true, 5, 8, 6},
      {5, true, true, 5, 8, 8},  {8, true, true, 5, 8, 8},   {0, true, true, 5, 1, 1},
      {0, true, false, 5, 8, 5}, {30, true, false, 0, 8, 0}, {0, true, false, 16, 8, 16},
  };
  for (auto const& r : rows) {
    CAPTURE(r.window);
    CAPTURE(r.sequential);
    CHECK(next_window(r.window, r.sequential, {r.automatic, r.depth, r.limit}) == r.next);
  }
}
