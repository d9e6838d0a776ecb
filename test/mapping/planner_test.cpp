// The planner alone: where chunks go, what is sent away, when a move pays.
#include <gpufs/mapping/planner.hpp>

#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

using namespace gpufs;
using namespace gpufs::shared;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t mebi = 1 << 20;
using chunks = std::vector<planned_chunk>;

planned_chunk a_chunk(tier where, bool is_needed, double position = 1, std::uint64_t last = 0) {
  return {.bytes = 2 * mebi,
          .where = where,
          .advice = memory_advice::automatic,
          .is_needed = is_needed,
          .is_fixed = false,
          .position = position,
          .last_call = last};
}

/// An object of `count` chunks that are all needed.
void add_object(chunks& to, tier where, unsigned count) {
  for (unsigned i = 0; i < count; ++i) to.push_back(a_chunk(where, true, (i + 1.0) / count));
}

/// The tiers after the plan. Checks that no step exceeds a budget.
std::vector<tier> carried_out(chunks const& all, tier_budgets budgets, placement_plan const& p) {
  std::vector<tier> now;
  std::array<std::uint64_t, 3> held{};
  for (auto const& c : all) {
    now.push_back(c.where);
    held[std::size_t(c.where)] += c.bytes;
  }
  for (auto const& m : p.moves) {
    CHECK_FALSE(all[m.which].is_fixed);
    held[std::size_t(now[m.which])] -= all[m.which].bytes;
    held[std::size_t(m.to)] += all[m.which].bytes;
    now[m.which] = m.to;
    if (m.to == tier::device) CHECK(held[0] <= budgets.device);
    if (m.to == tier::host) CHECK(held[1] <= budgets.host);
  }
  return now;
}

/// Chunks at random, of `sizes` sizes, within the budgets.
struct scene {
  chunks all;
  tier_budgets budgets;
  std::uint64_t stays;  ///< bytes that must be in some memory
};
scene random_scene(std::mt19937_64& random, std::uint64_t sizes = 1) {
  auto const below = [&](std::uint64_t n) { return random() % n; };
  scene s{{}, {2 * mebi * below(12), 2 * mebi * below(12)}, 0};
  std::array<std::uint64_t, 3> held{};
  for (auto count = below(20); count > 0; --count) {
    planned_chunk c = a_chunk(tier(below(3)), below(2) == 0, double(below(10)) / 10, below(5));
    c.advice = memory_advice(below(4));
    c.heat = double(below(3)) / 2;
    c.bytes = 2 * mebi * (1 + below(sizes));
    auto const budget = c.where == tier::device ? s.budgets.device : s.budgets.host;
    if (c.where != tier::away && held[std::size_t(c.where)] + c.bytes > budget) continue;
    c.is_fixed = c.where != tier::away && below(6) == 0;
    held[std::size_t(c.where)] += c.bytes;
    s.stays += c.is_needed || c.is_fixed ? c.bytes : 0;
    s.all.push_back(c);
  }
  return s;
}

std::vector<tier> placed(chunks const& all, tier_budgets budgets) {
  auto const p = plan_placement(all, budgets);
  REQUIRE(p.is_possible);
  return carried_out(all, budgets, p);
}

}  // namespace

TEST_CASE("planner: what fits goes to device memory, and what is there stays") {
  chunks all;
  add_object(all, tier::away, 3);
  CHECK(placed(all, {6 * mebi, 100 * mebi}) == std::vector(3, tier::device));
  for (auto& c : all) c.where = tier::device;
  CHECK(plan_placement(all, {6 * mebi, 0}).moves.empty());
}

TEST_CASE("planner: the front of each object gets device memory, in proportion") {
  chunks all;
  add_object(all, tier::away, 8);
  add_object(all, tier::away, 4);
  auto const now = placed(all, {12 * mebi, 100 * mebi});
  std::vector<tier> expected(12, tier::host);
  for (int const i : {0, 1, 2, 3, 8, 9}) expected[std::size_t(i)] = tier::device;
  CHECK(now == expected);
}

TEST_CASE("planner: what is not needed is sent away, the coldest first") {
  chunks all{a_chunk(tier::device, false, 1, 7), a_chunk(tier::device, false, 1, 3),
             a_chunk(tier::device, false, 1, 9), a_chunk(tier::away, true)};
  all[3].advice = memory_advice::device;
  auto const now = placed(all, {6 * mebi, 0});
  CHECK(now == std::vector{tier::device, tier::away, tier::device, tier::device});
}

TEST_CASE("planner: a move that the launch can do without is made only if it pays") {
  // A chunk at the host goes to free device memory: four launches pay for that.
  chunks all{a_chunk(tier::host, true)};
  CHECK(placed(all, {2 * mebi, 2 * mebi})[0] == tier::device);
  move_costs dear;
  dear.per_move = 1;
  CHECK(plan_placement(all, {2 * mebi, 2 * mebi}, dear).moves.empty());
  // If another chunk has to leave for it, four launches do not.
  all.push_back(a_chunk(tier::device, false));
  CHECK(plan_placement(all, {2 * mebi, 2 * mebi}).moves.empty());
  // Where there is no room at the host, it has to.
  all[0].where = tier::away;
  CHECK(placed(all, {2 * mebi, 0}) == std::vector{tier::device, tier::away});
}

TEST_CASE("planner: advice comes before the front of objects") {
  chunks all;
  add_object(all, tier::away, 4);
  all[2].advice = memory_advice::device;
  all[3].advice = memory_advice::atomics;
  all[0].advice = memory_advice::host;
  auto now = placed(all, {4 * mebi, 100 * mebi});
  CHECK(now == std::vector{tier::host, tier::host, tier::device, tier::device});
  // Also where it has been elsewhere.
  for (auto& c : all) c.where = tier::device;
  CHECK(placed(all, {8 * mebi, 100 * mebi}) ==
        std::vector{tier::host, tier::device, tier::device, tier::device});
  CHECK(placed(all, {8 * mebi, mebi}) == std::vector(4, tier::device));  // no room
  all[0].is_fixed = true;
  CHECK(placed(all, {8 * mebi, 100 * mebi}) == std::vector(4, tier::device));
  all[0].is_fixed = false;
  // Nothing leaves the host for it.
  all.push_back(a_chunk(tier::host, false));
  CHECK(placed(all, {8 * mebi, 2 * mebi}) ==
        std::vector{tier::device, tier::device, tier::device, tier::device, tier::host});
  all.pop_back();
  // Also where others have the room already.
  for (std::size_t i = 0; i < 4; ++i) all[i].where = i < 2 ? tier::device : tier::host;
  all[0].advice = memory_advice::automatic;
  now = placed(all, {4 * mebi, 100 * mebi});
  CHECK(now == std::vector{tier::host, tier::host, tier::device, tier::device});
}

TEST_CASE("planner: what a profile says comes before the front of objects, and behind advice") {
  chunks all;
  add_object(all, tier::away, 5);
  all[2].heat = 0.5;
  all[4].heat = 1;
  CHECK(placed(all, {4 * mebi, 100 * mebi}) ==
        std::vector{tier::host, tier::host, tier::device, tier::host, tier::device});
  // The denser one first. Advice says more.
  CHECK(placed(all, {2 * mebi, 100 * mebi})[4] == tier::device);
  all[1].advice = memory_advice::device;
  all[4].advice = memory_advice::host;
  CHECK(placed(all, {4 * mebi, 100 * mebi}) ==
        std::vector{tier::host, tier::device, tier::device, tier::host, tier::host});
  // Also where others have the room already. Then it stays.
  for (auto& c : all) c.advice = memory_advice::automatic;
  for (std::size_t i = 0; i < 5; ++i) all[i].where = i < 2 ? tier::device : tier::host;
  auto const now = placed(all, {4 * mebi, 100 * mebi});
  CHECK(now == std::vector{tier::host, tier::host, tier::device, tier::host, tier::device});
  for (std::size_t i = 0; i < 5; ++i) all[i].where = now[i];
  CHECK(plan_placement(all, {4 * mebi, 100 * mebi}).moves.empty());
}

TEST_CASE("planner: what the budgets cannot hold is refused, and what is fixed stays") {
  chunks all;
  add_object(all, tier::away, 5);
  CHECK_FALSE(plan_placement(all, {4 * mebi, 5 * mebi}).is_possible);
  CHECK(plan_placement(all, {4 * mebi, 6 * mebi}).is_possible);
  all.push_back(a_chunk(tier::device, false));
  CHECK(plan_placement(all, {4 * mebi, 6 * mebi}).is_possible);
  all.back().is_fixed = true;
  CHECK_FALSE(plan_placement(all, {4 * mebi, 6 * mebi}).is_possible);
}

TEST_CASE("planner: large and small chunks are packed anew where they fit no other way") {
  chunks all{a_chunk(tier::device, true), a_chunk(tier::device, true), a_chunk(tier::away, true)};
  all[2].bytes = 6 * mebi;
  auto const now = placed(all, {6 * mebi, 4 * mebi});
  CHECK(now == std::vector{tier::host, tier::host, tier::device});
}

TEST_CASE("planner: what is away and is to lie at the host comes before what would have to move") {
  chunks all{a_chunk(tier::device, true), a_chunk(tier::away, true, 0.5),
             a_chunk(tier::away, true)};
  for (auto& c : all) c.advice = memory_advice::host;
  CHECK(placed(all, {4 * mebi, 2 * mebi}) == std::vector{tier::device, tier::host, tier::device});
}

TEST_CASE("planner: random chunks keep the budgets, all that is needed has a place") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  long possible = 0;
  for (unsigned n = 0; n < scaled(20'000, 2'000); ++n) {
    CAPTURE(n);
    auto [all, budgets, stays] = random_scene(random);
    auto const p = plan_placement(all, budgets);
    // Chunks of one size fit exactly if their sum does.
    REQUIRE(p.is_possible == (stays <= budgets.device + budgets.host));
    if (!p.is_possible) continue;
    ++possible;
    auto const now = carried_out(all, budgets, p);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].is_needed) REQUIRE(now[i] != tier::away);
      if (all[i].is_fixed) REQUIRE(now[i] == all[i].where);
      if (!all[i].is_needed && all[i].where == tier::away) REQUIRE(now[i] == tier::away);
    }
    // A second launch like the first finds all in its place.
    for (std::size_t i = 0; i < all.size(); ++i) all[i].where = now[i];
    CHECK(plan_placement(all, budgets).moves.empty());
  }
  CHECK(possible > 100);
}

TEST_CASE("planner: plans that are cut short, and whole ones behind them, come to an end") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (unsigned n = 0; n < scaled(40'000, 4'000); ++n) {
    CAPTURE(n);
    auto [all, budgets, stays] = random_scene(random, 1 + n % 4);
    auto p = plan_placement(all, budgets);
    if (!p.is_possible) continue;
    // As address_space does it: so often a plan ends behind its first move.
    std::size_t const cuts = 2 * all.size();
    std::size_t rounds = 0;
    for (; rounds < cuts + 4 && p.is_possible && !p.moves.empty(); ++rounds) {
      auto const made = rounds < cuts ? 1 : p.moves.size();
      for (std::size_t m = 0; m < made; ++m) all[p.moves[m].which].where = p.moves[m].to;
      p = plan_placement(all, budgets);
    }
    CHECK(p.moves.empty());
  }
}

TEST_CASE("planner: where plans that are cut short never end, whole ones do") {
  // Found by search: behind its first move each plan leads to the other.
  chunks all{a_chunk(tier::device, true, 0.6), a_chunk(tier::host, true, 0.6),
             a_chunk(tier::away, true, 0.9), a_chunk(tier::device, true, 0.3),
             a_chunk(tier::away, true, 0)};
  std::uint64_t const sizes[] = {8, 4, 8, 4, 6};
  for (std::size_t i = 0; i < 5; ++i) all[i].bytes = sizes[i] * mebi;
  all[3].advice = memory_advice::device;
  all[4].advice = memory_advice::atomics;
  tier_budgets const budgets{16 * mebi, 18 * mebi};
  auto p = plan_placement(all, budgets);
  for (unsigned round = 0; round < 4 && !p.moves.empty(); ++round) {
    auto const now = carried_out(all, budgets, p);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].where = now[i];
    p = plan_placement(all, budgets);
  }
  CHECK(p.is_possible);
  CHECK(p.moves.empty());
}

TEST_CASE("planner: advice for the host is followed where others find no room otherwise") {
  chunks all{a_chunk(tier::host, true), a_chunk(tier::away, true), a_chunk(tier::device, true)};
  std::uint64_t const sizes[] = {4, 6, 4};
  for (std::size_t i = 0; i < 3; ++i) all[i].bytes = sizes[i] * mebi;
  all[1].advice = all[2].advice = memory_advice::host;
  CHECK(placed(all, {6 * mebi, 8 * mebi}) == std::vector{tier::host, tier::device, tier::host});
}
