// for_each_window(): objects of any size beside the same on plain arrays.
#include <gpufs/mapping/window_plan.hpp>
#include <gpufs/mapping_windows.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/mapping/numbers.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

__global__ void triple(std::uint32_t const* from, std::uint32_t* to, std::uint64_t first,
                       std::uint64_t count) {
  for (auto i = thread_number(); i < count; i += thread_count())
    to[i] = from[i] * 3 + static_cast<std::uint32_t>(first + i);
}

struct three {
  std::uint32_t a, b, c;
};
__global__ void add_items(three* to, std::uint32_t const* from, std::uint64_t count) {
  for (auto i = thread_number(); i < count; i += thread_count()) {
    to[i].a += from[i];
    to[i].c += to[i].b;
  }
}

template <class Call>
std::string refusal_of(int code, Call const& call) {
  try {
    call();
  } catch (shared_memory_error const& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("windows: files larger than all memory are read and written once") {
  for (auto const host : {0 * mebi, 4 * mebi}) {
    if (thread_sanitizer && host != 0) continue;
    auto const content = numbers(16 * mebi / 4 + 5);
    named_file const source(content), target;
    shared_memory memory(tight(12 * mebi, host));
    mapping in = memory.map(source.path());
    mapping out =
        memory.map(target.path(), {.access = access::write, .create = true, .length = in.size()});
    unsigned windows = 0;
    std::uint64_t next = 0;
    CHECK(for_each_window(memory, {{&in, access::read, 4}, {&out, access::write, 4}},
                          [&](memory_window const& w) {
                            CHECK(w.first == next);
                            next += w.count;
                            ++windows;
                            launch({.grid = 2, .block = 64, .on = &w.on()}, triple,
                                   w.as<std::uint32_t const>(0), w.as<std::uint32_t>(1), w.first,
                                   w.count);
                            auto const now = memory.tiers();
                            CHECK(now.device <= 12 * mebi);
                            CHECK(now.host <= host);
                          }) == 0);
    CHECK(next == content.size());
    CHECK(windows == 9);  // of a chunk each
    words expected(content.size());
    for (std::uint64_t i = 0; i < content.size(); ++i)
      expected[i] = content[i] * 3 + static_cast<std::uint32_t>(i);
    CHECK(target.content() == expected);
    CHECK(out.stats().writeback_bytes == out.size());
    CHECK(in.stats().bytes_d2h == 0);
    CHECK(out.unwritten().empty());
  }
}

TEST_CASE("windows: items of any size, in windows that share blocks and chunks") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (unsigned n = 0; n < scaled(8, 1); ++n) {
    CAPTURE(n);
    std::uint64_t const count = 1 + random() % (thread_sanitizer ? 300'000 : 700'000);
    auto plain = numbers(count * 3);
    auto const other = numbers(count);
    named_file const both(plain), from(other);
    mapping_config c = tight((random() % 10) * 2 * mebi + 1, (4 + random() % 8) * 2 * mebi);
    c.coherence_block = random() % 2 == 0 ? block_automatic : 4096;
    shared_memory memory(c);
    mapping m = memory.map(both.path(), {.access = access::read_write});
    mapping f = memory.map(from.path());
    for (unsigned round = 0; round < 2; ++round) {
      CHECK(for_each_window(memory,
                            {{&m, access::read_write, sizeof(three)}, {&f, access::read, 4}},
                            [&](memory_window const& w) {
                              launch({.grid = 2, .block = 64, .on = &w.on()}, add_items,
                                     w.as<three>(0), w.as<std::uint32_t const>(1), w.count);
                            },
                            {.items = random() % 2 == 0 ? 0 : 20'000 + random() % 100'000}) == 0);
      for (std::uint64_t i = 0; i < count; ++i) {
        plain[3 * i] += other[i];
        plain[3 * i + 2] += plain[3 * i + 1];
      }
      CHECK(both.content() == plain);
    }
    CHECK(std::equal(plain.begin(), plain.end(), m.as<std::uint32_t>()));
  }
}

TEST_CASE("windows: anonymous objects are gone through as well") {
  shared_memory memory(tight(6 * mebi, 6 * mebi));
  mapping a = memory.allocate(14 * mebi), b = memory.allocate(14 * mebi);
  std::iota(a.as<std::uint32_t>(), a.as<std::uint32_t>() + a.size() / 4, 5u);
  CHECK(for_each_window(
            memory, {{&a, access::read, 4}, {&b, access::write, 4}}, [](memory_window const& w) {
              launch({.grid = 1, .block = 64, .on = &w.on()}, triple, w.as<std::uint32_t const>(0),
                     w.as<std::uint32_t>(1), w.first, w.count);
            }) == 0);
  for (std::uint64_t i = 0; i < b.size() / 4; ++i)
    REQUIRE(b.as<std::uint32_t>()[i] == (i + 5) * 3 + i);
}

TEST_CASE("windows: managed memory beside others makes windows no smaller") {
  shared_memory memory(tight(12 * mebi, 0));
  mapping a = memory.allocate(16 * mebi);
  mapping m = memory.allocate(64 * mebi, {.backing = memory_backing::managed});
  auto const windows = [&](std::vector<windowed_object> const& objects) {
    std::vector<std::uint64_t> counts;
    CHECK(for_each_window(memory, objects,
                          [&](memory_window const& w) { counts.push_back(w.count); }) == 0);
    return counts;
  };
  windowed_object const other{&a, access::read, 4}, managed{&m, access::read_write, 16};
  auto const alone = windows({other});
  CHECK(alone == std::vector<std::uint64_t>(4, mebi));
  CHECK(windows({other, managed}) == alone);
  CHECK(windows({managed, other}) == alone);
  // Nothing else: as large as those of another object of this size.
  mapping same = memory.allocate(64 * mebi);
  CHECK(windows({managed}) == windows({{&same, access::read_write, 16}}));
}

TEST_CASE("windows: what cannot be had is refused, and named") {
  shared_memory memory(tight(2 * mebi, 0)), other;
  mapping a = memory.allocate(4 * mebi), b = memory.allocate(2 * mebi);
  mapping c = other.allocate(4 * mebi), empty;
  auto const run = [&](int code, std::vector<windowed_object> const& objects) {
    return refusal_of(code, [&] {
      for_each_window(memory, objects, [](memory_window const&) { CHECK(false); });
    });
  };
  std::string const begin = "shared memory: for_each_window: ";
  CHECK(run(EINVAL, {}) == begin + "no object is given");
  CHECK(run(EINVAL, {{&empty, access::read, 4}}) == begin + "a mapping is empty");
  CHECK(run(EINVAL, {{nullptr, access::read, 4}}) == begin + "a mapping is empty");
  CHECK(run(EINVAL, {{&c, access::read, 4}}) == begin + "an object is of another shared_memory");
  CHECK(run(EINVAL, {{&a, access::read, 0}}) ==
        begin + "item_bytes=0: an object has 4194304 bytes, which is no multiple");
  CHECK(run(EINVAL, {{&a, access::read, 4}, {&b, access::read, 4}}) ==
        begin + "an object has 1048576 items and another one 524288; map as many of each");
  // Two chunks at once do not fit.
  CHECK(run(ENOMEM, {{&a, access::read, 4}, {&b, access::read, 2}}) != "");
  named_file const file(numbers(1000));
  mapping only_read = memory.map(file.path());
  CHECK(run(EACCES, {{&only_read, access::write, 4}}) != "");
}

TEST_CASE("windows: errors end the loop, and all that came before is there") {
  auto const content = numbers(16 * mebi / 4);
  named_file const source(content), target;
  shared_memory memory(tight(12 * mebi, 0));
  mapping in = memory.map(source.path(), {.access = access::read, .eager = false});
  mapping out =
      memory.map(target.path(), {.access = access::write, .create = true, .length = in.size()});
  std::vector<windowed_object> const both{{&in, access::read, 4}, {&out, access::write, 4}};
  auto const use = [](memory_window const& w) {
    launch({.grid = 2, .block = 64, .on = &w.on()}, triple, w.as<std::uint32_t const>(0),
           w.as<std::uint32_t>(1), w.first, w.count);
  };
  unsigned windows = 0;
  CHECK_THROWS_AS(for_each_window(memory, both,
                                  [&](memory_window const& w) {
                                    if (++windows == 3) throw std::runtime_error("stop");
                                    use(w);
                                  }),
                  std::runtime_error);
  CHECK(windows == 3);
  // The file becomes shorter.
  std::filesystem::resize_file(source.path(), 8 * mebi);
  CHECK(refusal_of(ESTALE, [&] {
          for_each_window(memory, both, use);
        }).find(source.path() + ": offset") != std::string::npos);
  CHECK(in.unmap() == 0);
  CHECK(out.unmap() == 0);
  auto const found = target.content();
  for (std::uint64_t i = 0; i < mebi; ++i)
    REQUIRE(found[i] == content[i] * 3 + static_cast<std::uint32_t>(i));
}

TEST_CASE("windows: their items fit three times, in whole chunks where items allow that") {
  using shared::chunked_items;
  std::vector<chunked_items> const aligned{{4, 2 * mebi}, {8, 2 * mebi}};
  // 512 Ki items: a chunk and two chunks.
  CHECK(shared::items_of_window(aligned, {18 * mebi, 0}) == mebi / 2);
  CHECK(shared::items_of_window(aligned, {35 * mebi, 0}) == mebi / 2);
  CHECK(shared::items_of_window(aligned, {36 * mebi, 0}) == mebi);
  CHECK(shared::items_of_window(aligned, {9 * mebi, 9 * mebi}) == mebi / 2);
  CHECK(shared::items_of_window(aligned, {9 * mebi, 0}) == 0);
  // Chunks at both ends are shared.
  CHECK(shared::items_of_window(std::vector<chunked_items>{{12, 2 * mebi}}, {18 * mebi, 0}) ==
        2 * mebi / 12);
}
