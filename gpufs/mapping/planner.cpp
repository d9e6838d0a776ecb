#include <gpufs/mapping/planner.hpp>

#include <algorithm>
#include <array>
#include <tuple>

namespace gpufs::shared {

namespace {

std::size_t index_of(tier t) { return std::size_t(t); }

constexpr int usual_rank = 1;

// A profile counts where advice says nothing.
int rank(planned_chunk const& c) {
  switch (c.advice) {
    case memory_advice::atomics: return 4;
    case memory_advice::device: return 3;
    case memory_advice::automatic: return c.heat > 0 ? 2 : usual_rank;
    case memory_advice::host: return 0;
  }
  return usual_rank;
}

class planner {
 public:
  planner(std::span<planned_chunk const> chunks, tier_budgets budgets, move_costs const& costs)
      : chunks_(chunks),
        costs_(costs),
        budgets_{budgets.device, budgets.host},
        to_(chunks.size()) {}

  placement_plan run() {
    // Chunks that leave device memory by advice make room. Where they should not take what others
    // may need at the host, these may need that room.
    if (try_to_plan(true) || try_to_plan(false)) return {true, moves()};
    return {false, {}};
  }

 private:
  bool try_to_plan(bool spares_host) {
    for (std::size_t i = 0; i < chunks_.size(); ++i) to_[i] = at(i).where;
    count_kept();
    auto const order = needed_in_order();
    demote(order, spares_host);
    // A chunk of more than the budget in device memory: the budget has shrunk.
    bool possible = true;
    for (auto const i : order)
      if (to_[i] == tier::away) possible = possible && place(order, i);
    if (!possible && !pack_anew(order)) return false;
    // What the one moves is room for the other: they trade places in one plan. It ends, as each
    // move puts more of what ranks high into device memory, or less of what ranks lowest.
    while (possible && promote(order) && demote(order, spares_host)) {
    }
    make_room(tier::device);
    make_room(tier::host);
    return true;
  }

  [[nodiscard]] planned_chunk const& at(std::size_t i) const { return chunks_[i]; }
  [[nodiscard]] std::uint64_t& kept(tier t) { return kept_[index_of(t)]; }
  [[nodiscard]] std::uint64_t& held(tier t) { return held_[index_of(t)]; }
  [[nodiscard]] std::uint64_t budget(tier t) const { return budgets_[index_of(t)]; }
  [[nodiscard]] bool fits(tier t, std::uint64_t bytes) {
    return kept(t) <= budget(t) && bytes <= budget(t) - kept(t);
  }

  // kept: what must stay in a tier. held: what would be there if nothing else left it.
  void count_kept() {
    kept_ = held_ = {};
    for (auto const& c : chunks_) {
      held_[index_of(c.where)] += c.bytes;
      if (c.is_needed || c.is_fixed) kept_[index_of(c.where)] += c.bytes;
    }
  }

  std::vector<std::size_t> needed_in_order() const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < chunks_.size(); ++i)
      if (at(i).is_needed) order.push_back(i);
    std::ranges::stable_sort(order, {}, [this](std::size_t i) {
      bool const is_profiled = at(i).advice == memory_advice::automatic;
      return std::tuple(-rank(at(i)), is_profiled ? -at(i).heat : 0, at(i).position);
    });
    return order;
  }

  void assign(std::size_t i, tier to) {
    auto const bytes = at(i).bytes;
    kept(to_[i]) -= bytes;
    held(to_[i]) -= bytes;
    kept(to) += bytes;
    held(to) += bytes;
    to_[i] = to;
  }

  // Of the moves that make room for `bytes` more, at most.
  [[nodiscard]] double cost_of_room(tier t, std::uint64_t bytes) {
    auto const after = held(t) + bytes;
    if (after <= budget(t)) return 0;
    auto const missing = after - budget(t);
    return costs_.move(t, tier::away, missing);
  }

  // Puts a chunk that is away to the better place.
  bool place(std::vector<std::size_t> const& order, std::size_t i) {
    auto const& c = at(i);
    bool const is_asked = rank(c) > usual_rank;
    bool const device = fits(tier::device, c.bytes) || (is_asked && displace(order, i));
    bool const host = fits(tier::host, c.bytes);
    if (!device && !host) return false;
    if (!device || !host) {
      assign(i, device ? tier::device : tier::host);
      return true;
    }
    double const to_device =
        costs_.move(tier::away, tier::device, c.bytes) + cost_of_room(tier::device, c.bytes);
    double const to_host =
        costs_.move(tier::away, tier::host, c.bytes) + cost_of_room(tier::host, c.bytes);
    bool const pays = to_device - to_host <= launches_that_pay * costs_.gain(c.bytes);
    bool const is_kept_out = c.advice == memory_advice::host;
    assign(i, (pays || is_asked) && !is_kept_out ? tier::device : tier::host);
    return true;
  }

  // What lies in device memory and is to lie at the host, as far as that has room. Nothing has to
  // leave the host for it: that would come back at the next launch. With `spares_host` what is away
  // comes first, as it has to move in any case. Returns whether any moves.
  bool demote(std::vector<std::size_t> const& order, bool spares_host) {
    bool moved = false;
    std::uint64_t coming = 0;
    for (auto const i : order)
      if (spares_host && at(i).advice == memory_advice::host && to_[i] == tier::away)
        coming += at(i).bytes;
    for (auto const i : order) {
      auto const& c = at(i);
      if (c.advice == memory_advice::host && to_[i] == tier::device && !c.is_fixed &&
          held(tier::host) + coming + c.bytes <= budget(tier::host)) {
        assign(i, tier::host);
        moved = true;
      }
    }
    return moved;
  }

  // What lies at the host and would pay in device memory. What advice asks for takes the place of
  // what has none. Returns whether any moves.
  bool promote(std::vector<std::size_t> const& order) {
    bool moved = false;
    for (auto const i : order) {
      auto const& c = at(i);
      if (to_[i] != tier::host || c.where != tier::host || c.is_fixed) continue;
      if (c.advice == memory_advice::host) continue;
      bool const is_asked = rank(c) > usual_rank;
      if (is_asked) {
        assign(i, tier::away);  // what it displaces may take its place
        bool const fits_now = fits(tier::device, c.bytes) || displace(order, i);
        assign(i, fits_now ? tier::device : tier::host);
        moved = moved || fits_now;
        continue;
      }
      if (!fits(tier::device, c.bytes)) continue;
      double const cost =
          costs_.move(tier::host, tier::device, c.bytes) + cost_of_room(tier::device, c.bytes);
      if (cost < launches_that_pay * costs_.gain(c.bytes)) {
        assign(i, tier::device);
        moved = true;
      }
    }
    return moved;
  }

  // Sends chunks of lower rank to the host, the last ones first, until `i` fits.
  bool displace(std::vector<std::size_t> const& order, std::size_t i) {
    std::vector<std::size_t> gone;
    for (auto last = order.rbegin(); last != order.rend() && !fits(tier::device, at(i).bytes);
         ++last) {
      auto const& other = at(*last);
      if (to_[*last] != tier::device || other.is_fixed || rank(other) >= rank(at(i))) continue;
      if (!fits(tier::host, other.bytes)) break;
      assign(*last, tier::host);
      gone.push_back(*last);
    }
    if (fits(tier::device, at(i).bytes)) return true;
    for (auto const back : gone) assign(back, tier::device);
    return false;
  }

  // No chunk keeps its place. The large ones choose first.
  bool pack_anew(std::vector<std::size_t> order) {
    for (auto const i : order) {
      if (!at(i).is_fixed) assign(i, tier::away);
    }
    std::ranges::stable_sort(order, std::greater{}, [this](std::size_t i) { return at(i).bytes; });
    for (auto const i : order) {
      if (to_[i] != tier::away) continue;
      bool const host_first = at(i).advice == memory_advice::host;
      auto const first = host_first ? tier::host : tier::device;
      auto const second = host_first ? tier::device : tier::host;
      if (!fits(first, at(i).bytes) && !fits(second, at(i).bytes)) return false;
      assign(i, fits(first, at(i).bytes) ? first : second);
    }
    return true;
  }

  // Sends away what is not needed, the coldest first.
  void make_room(tier t) {
    std::vector<std::size_t> others;
    for (std::size_t i = 0; i < chunks_.size(); ++i)
      if (to_[i] == t && !at(i).is_needed && !at(i).is_fixed) others.push_back(i);
    std::ranges::stable_sort(others, {}, [this](std::size_t i) {
      return std::tuple(rank(at(i)), at(i).last_call, -at(i).position);
    });
    for (auto const i : others) {
      if (held(t) <= budget(t)) return;
      held(t) -= at(i).bytes;
      to_[i] = tier::away;
    }
  }

  [[nodiscard]] std::vector<planned_move> moves() const {
    std::vector<planned_move> all;
    for (std::size_t i = 0; i < chunks_.size(); ++i)
      if (to_[i] != at(i).where && at(i).where != tier::away) all.push_back({i, tier::away});
    for (std::size_t i = 0; i < chunks_.size(); ++i)
      if (to_[i] != at(i).where && to_[i] != tier::away) all.push_back({i, to_[i]});
    return all;
  }

  std::span<planned_chunk const> chunks_;
  move_costs costs_;
  std::array<std::uint64_t, 2> budgets_;
  std::vector<tier> to_;
  std::array<std::uint64_t, 3> kept_{}, held_{};
};

}  // namespace

double move_costs::move(tier from, tier to, std::uint64_t bytes) const {
  double const n = double(bytes);
  double cost = 0;
  if (from == tier::device || to == tier::device) cost += per_move + n * bus;
  if (from == tier::host) cost += n * unregistering;
  if (to == tier::host) cost += n * registering;
  return cost;
}

placement_plan plan_placement(std::span<planned_chunk const> chunks, tier_budgets budgets,
                              move_costs const& costs) {
  return planner(chunks, budgets, costs).run();
}

}  // namespace gpufs::shared
