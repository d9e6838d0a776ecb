// Profiles of launches as text: what is written is read, and wrong lines are found.
#include <gpufs/mapping/launch_profile.hpp>

#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace gpufs::shared;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t mebi = 1 << 20;

std::vector<block_run> units_of(launch_profile const& p, profiled_object const& of) {
  auto const* const found = p.find(of);
  return found == nullptr ? std::vector<block_run>{} : found->runs();
}

std::size_t wrong_line(std::string const& text) {
  launch_profile p;
  return p.read(text);
}

}  // namespace

TEST_CASE("profile: text is read as it was written") {
  launch_profile p;
  CHECK(p.add({"expand", 1, 20 * mebi}, {2, 4}));
  CHECK_FALSE(p.add({"expand", 1, 20 * mebi}, {3, 4}));
  CHECK(p.add({"expand", 1, 20 * mebi}, {3, 5}));
  CHECK(p.add({"expand", 1, 20 * mebi}, {7, 8}));
  CHECK(p.add({"a name, with 2-3 things", 0, 1}, {0, 1}));
  launch_profile again;
  CHECK(again.read(p.text()) == 0);
  CHECK(again.text() == p.text());
  CHECK(units_of(again, {"expand", 1, 20 * mebi}) == std::vector<block_run>{{2, 5}, {7, 8}});
  CHECK(units_of(again, {"a name, with 2-3 things", 0, 1}) == std::vector<block_run>{{0, 1}});
  CHECK(again.find({"expand", 0, 20 * mebi}) == nullptr);
  CHECK(again.find({"expand", 1, 21 * mebi}) == nullptr);
  CHECK_FALSE(again.add(p));
  CHECK(again.read("0 4194304 1 more\n") == 0);
  CHECK(p.add(again));
  CHECK(p.text() == again.text());
}

TEST_CASE("profile: random ones come back whole") {
  std::mt19937_64 random(seed());
  for (unsigned round = 0; round < 200; ++round) {
    launch_profile p, again;
    for (auto n = random() % 20; n > 0; --n) {
      std::uint64_t const units = 1 + random() % 40, first = random() % units;
      p.add(
          {"launch " + std::to_string(random() % 3), random() % 3, units * 2 * mebi - random() % 9},
          {first, first + 1 + random() % (units - first)});
    }
    CHECK(again.read(p.text()) == 0);
    CHECK(again.text() == p.text());
  }
}

TEST_CASE("profile: wrong lines are named") {
  CHECK(wrong_line("") == 0);
  CHECK(wrong_line("# x\n\n0 8388608 0,2-3 add") == 0);
  CHECK(wrong_line("0 8388608 0-3 add\n0 8388608 4 add\n") == 2);  // behind its end
  for (auto const* const line :
       {"add", "0", "0 1", "0 1 0", "0 1 0 ", "0 8388608 3-2 add", "0 8388608 - add",
        "0 8388608 0, add", "0 8388608 0-  add", "-1 8388608 0 add", "0 0 0 add",
        "0 99999999999999999999 0 add", "0 8388608 0 a\tb", "0 8388608 18446744073709551615 add"}) {
    CAPTURE(line);
    CHECK(wrong_line(line) == 1);
  }
  CHECK_FALSE(is_launch_name(""));
  CHECK_FALSE(is_launch_name("a\nb"));
  CHECK_FALSE(is_launch_name(std::string(201, 'a')));
  CHECK(is_launch_name(std::string(200, 'a')));
}
