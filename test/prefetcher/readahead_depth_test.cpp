// The policy of the readahead depth, as tables.
#include <prefetcher/readahead_depth.hpp>
#include <prefetcher/stride.hpp>

#include <doctest/doctest.h>

#include <initializer_list>

using namespace gpufs::prefetch;

TEST_CASE(
    "readahead depth: a read is sequential if it starts where the last one of the same version "
    "ended, or up to a page before; with a gap of up to a page it may leave room for others") {
  stream const s{.version = 7, .next = 100000, .depth = 4};
  constexpr std::uint64_t page = 4096;
  struct {
    std::uint64_t version, begin;
    read_kind kind;
  } const rows[] = {
      {7, 100000, read_kind::sequential},         // goes on exactly there
      {7, 100000 - page, read_kind::sequential},  // overlaps by a page
      {7, 100000 - page - 1, read_kind::jump},
      {7, 100001, read_kind::gap},         // leaves out a byte
      {7, 100000 + page, read_kind::gap},  // leaves out a page
      {7, 100000 + page + 1, read_kind::jump},
      {8, 100000, read_kind::jump},  // the file has changed
      {7, 0, read_kind::jump},
      {7, ~0ull, read_kind::jump},
  };
  for (auto const& r : rows) {
    CAPTURE(r.version);
    CAPTURE(r.begin);
    CHECK(kind_of(s, r.version, r.begin, page) == r.kind);
  }
  // nothing has been read yet, and 0 names no version
  CHECK(kind_of(stream{}, 7, 0, page) == read_kind::jump);
}

TEST_CASE("readahead depth: a caller's own pages are those that it brings in one after the other") {
  stream s;
  s.bring_in(4096, 8192);
  CHECK(s.follows(8192));
  s.bring_in(8192, 16384);
  CHECK(s.own_begin == 4096);
  CHECK(s.own_end == 16384);
  CHECK(s.follows(12288));  // one of them again: it has left the cache
  CHECK_FALSE(s.follows(20480));
  s.bring_in(20480, 24576);  // another caller has brought in the page before
  CHECK(s.own_begin == 20480);
  CHECK(s.own_end == 24576);
  CHECK_FALSE(s.follows(16384));
}

TEST_CASE("readahead depth: a caller that may share pages has at most 1/16 of its own run ahead") {
  constexpr std::uint64_t chunk = 65536;
  CHECK(cautious_limit(0, chunk) == 0);
  CHECK(cautious_limit(16 * chunk - 1, chunk) == 0);
  CHECK(cautious_limit(16 * chunk, chunk) == 1);
  CHECK(cautious_limit(100 * chunk, chunk) == 6);
  CHECK(cautious_limit(~0ull, 512) == 0xffffffffu);
}

TEST_CASE("readahead depth: the automatic one doubles up to its limit and collapses") {
  depth_rule const rule{.automatic = true, .depth = 1, .limit = 12};
  std::uint32_t const grows[] = {1, 2, 4, 8, 12, 12};
  std::uint32_t depth = 0;
  for (auto const expected : grows) CHECK((depth = next_depth(depth, true, rule)) == expected);
  CHECK((depth = next_depth(depth, false, rule)) == 0);
  CHECK(next_depth(depth, true, rule) == 1);
}

TEST_CASE("readahead depth: a fixed prefetch size keeps its depth while reads are sequential") {
  for (std::uint32_t const depth : {0u, 1u, 5u}) {
    depth_rule const rule{.automatic = false, .depth = depth, .limit = 3};
    CHECK(next_depth(0, true, rule) == depth);
    CHECK(next_depth(depth, true, rule) == depth);
    CHECK(next_depth(depth, false, rule) == 0);
  }
}

TEST_CASE(
    "readahead depth: callers share what keeps the host busy, and each has at least one chunk "
    "ahead") {
  CHECK(depth_limit(0, 64, 30) == 30);
  CHECK(depth_limit(1, 64, 30) == 30);
  CHECK(depth_limit(4, 64, 30) == 16);
  CHECK(depth_limit(64, 64, 30) == 1);
  CHECK(depth_limit(120, 64, 30) == 1);
}

TEST_CASE(
    "readahead depth: advice decides where the reads themselves say nothing or something else") {
  using gpufs::advice;
  constexpr std::uint64_t page = 4096;
  stream const begun{.version = 7, .next = 100000, .depth = 4};
  struct {
    stream reads;
    std::uint64_t begin;
    bool normal, random, sequential;
  } const rows[] = {
      {begun, 100000, true, false, true},    // goes on
      {begun, 500000, false, false, false},  // a jump is a jump, whatever was said
      {begun, 0, false, false, false},
      {stream{}, 0, false, false, true},       // the first read
      {stream{}, 500000, false, false, true},  // of a part in the middle
      {{.version = 8, .next = 0, .depth = 9},
       0,
       false,
       false,
       true},  // the first one of this version
  };
  for (auto const& r : rows) {
    CAPTURE(r.reads.version);
    CAPTURE(r.begin);
    auto const sequential = [&](advice a) {
      return kind_of(r.reads, 7, r.begin, page, a) == read_kind::sequential;
    };
    CHECK((kind_of(r.reads, 7, r.begin, page) == read_kind::sequential) == r.normal);
    CHECK(sequential(advice::normal) == r.normal);
    CHECK(sequential(advice::random) == r.random);
    CHECK(sequential(advice::sequential) == r.sequential);
  }
}

TEST_CASE(
    "readahead depth: at once means the limit from the first sequential read on, also behind a "
    "jump; a "
    "fixed size keeps its depth") {
  depth_rule const rule{.automatic = true, .depth = 1, .limit = 12, .at_once = true};
  CHECK(next_depth(0, true, rule) == 12);
  CHECK(next_depth(12, true, rule) == 12);
  CHECK(next_depth(12, false, rule) == 0);
  CHECK(next_depth(0, true, rule) == 12);
  CHECK(next_depth(0, true, {.automatic = false, .depth = 3, .limit = 12, .at_once = true}) == 3);
}

TEST_CASE("readahead depth: a limit that falls takes the depth down with it at the next read") {
  depth_rule rule{.automatic = true, .depth = 1, .limit = 30};
  CHECK(next_depth(16, true, rule) == 30);
  rule.limit = 4;  // more callers have come
  CHECK(next_depth(30, true, rule) == 4);
  rule.limit = 1;
  CHECK(next_depth(4, true, rule) == 1);
}

TEST_CASE("readahead depth: a fixed depth, a jump or neither, in any order") {
  struct {
    std::uint32_t before;
    bool sequential, automatic;
    std::uint32_t depth, limit, next;
  } const rows[] = {
      {0, false, true, 5, 8, 0}, {0, false, false, 5, 8, 0}, {7, false, true, 5, 8, 0},
      {0, true, true, 5, 8, 1},  {1, true, true, 5, 8, 2},   {3, true, true, 5, 8, 6},
      {5, true, true, 5, 8, 8},  {8, true, true, 5, 8, 8},   {0, true, true, 5, 1, 1},
      {0, true, false, 5, 8, 5}, {30, true, false, 0, 8, 0}, {0, true, false, 16, 8, 16},
  };
  for (auto const& r : rows) {
    CAPTURE(r.before);
    CAPTURE(r.sequential);
    CHECK(next_depth(r.before, r.sequential, {r.automatic, r.depth, r.limit}) == r.next);
  }
}

TEST_CASE(
    "strides: the depth is an eighth of the pieces at one distance, and any other piece ends it") {
  strides s;
  std::uint64_t at = 5000;
  for (std::uint32_t n = 0; n < 200; ++n, at += 16384) {
    s = s.after({at, 512}, n == 0 ? 0 : at - 16384 + 512, 20);
    CAPTURE(n);
    CHECK(s.repeats == (n < 2 ? 0 : n - 1));
    CHECK(s.depth == (s.repeats / 8 < 20 ? s.repeats / 8 : 20));
  }
  struct {
    char const* what;
    piece next;
  } const rows[] = {
      {"another distance", {at + 4096, 512}},  {"another length", {at, 513}},
      {"backwards", {at - 2 * 16384, 512}},    {"the same piece again", {at - 16384, 512}},
      {"a read too long to be predicted", {}},
  };
  for (auto const& r : rows) {
    CAPTURE(r.what);
    strides const ended = s.after(r.next, s.begin + s.length, 20);
    CHECK(ended.repeats == 0);
    CHECK(ended.depth == 0);
  }
  CHECK(s.after({at, 512}, s.begin + 512, 0).depth == 0);
  CHECK(strides{}.after({0, 512}, 0, 20).depth == 0);
}

TEST_CASE("strides: pieces that the caller found between two of its own") {
  strides s;
  std::uint64_t const distance = 16384;
  for (std::uint32_t n = 0; n < 20; ++n) s = s.after({n * distance, 512}, n * distance - 15872, 20);
  CHECK(s.repeats == 18);
  CHECK(s.depth == 2);
  s.entered = 2;
  struct {
    char const* what;
    std::uint64_t passed, last, length;
    std::uint32_t repeats;
  } const rows[] = {
      {"the first of those that came with it is missing", 1, 1, 512, 19},
      {"all that came with it", 3, 1, 512, 21},
      {"others had brought in some more", 50, 1, 512, 21},
      {"the last one was another distance", 3, 2, 512, 0},
      {"another length", 1, 1, 513, 0},
  };
  for (auto const& r : rows) {
    CAPTURE(r.what);
    std::uint64_t const at = s.begin + r.passed * distance;
    strides const next = s.after({at, r.length}, at - r.last * distance + r.length, 20);
    CHECK(next.repeats == r.repeats);
    CHECK(next.entered == 0);
  }
  // The last read was at the distance, but the way from the last piece is no multiple of it.
  std::uint64_t const odd = s.begin + 3 * distance + 4096;
  CHECK(s.after({odd, 512}, odd - distance + 512, 20).repeats == 0);
}

TEST_CASE(
    "strides: what comes with a piece is at most the depth, and callers share what there is") {
  constexpr std::uint32_t plenty = 1 << 20;
  constexpr std::uint64_t page = 4096;
  strides s;
  s.length = 512;
  s.distance = 4 * page;
  for (s.depth = 0; s.depth < 30; ++s.depth)
    CHECK(pieces_entered(s, {1, plenty, plenty}, page) ==
          (s.depth < most_pieces_entered ? s.depth : most_pieces_entered));
  struct {
    std::uint64_t begin, distance;
    pieces_pools of;
    std::uint32_t entered;
  } const rows[] = {
      {0, 16384, {1, 16384, 1 << 18}, 14},   {0, 16384, {120, 16384, 1 << 18}, 14},
      {0, 16384, {1920, 16384, 1 << 18}, 7}, {0, 16384, {4000, 16384, 1 << 18}, 3},
      {0, 16384, {100, 16384, 64}, 0},       {0, 16384, {0, 16, 1 << 18}, 14},
      {0, 16384, {1, 16384, 8}, 3},          {0, 20000, {1, 16, 1 << 18}, 7},
      {3900, 16384, {1, 16, 1 << 18}, 7},
  };
  for (auto const& r : rows) {
    CAPTURE(r.of.callers);
    CAPTURE(r.of.frames);
    s.begin = r.begin;
    s.distance = r.distance;
    CHECK(pieces_entered(s, r.of, page) == r.entered);
  }
}
