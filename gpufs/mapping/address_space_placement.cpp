// Before a launch: every chunk that it may use gets a place that the device can use.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/device_scope.hpp>
#include <gpufs/mapping/wait_until.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <iterator>
#include <new>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::shared {

namespace {

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20, gibi = 1 << 30;
  if (bytes >= gibi) return fmt::format("{:.1f} GiB", double(bytes) / double(gibi));
  if (bytes >= mebi) return fmt::format("{:.1f} MiB", double(bytes) / double(mebi));
  return fmt::format("{:.1f} KiB", double(bytes) / double(kibi));
}

/// Chunks [first, end) that have blocks of a run, which is not empty.
std::pair<std::size_t, std::size_t> chunks_of(object const& o, block_run r) {
  return {o.chunk_of(r.first), o.chunk_of(r.end - 1) + 1};
}

/// What a call uses that may lie in one tier or another.
auto placed_of(auto const& all) {
  return all | std::views::filter([](auto const& used) { return !used.first->is_managed; });
}

}  // namespace

/// The planner's view, and what it stands for.
struct address_space::placed_chunks {
  std::vector<planned_chunk> seen;
  std::vector<std::pair<object*, std::size_t>> which;
};

// Chunks that are all in place need no plan. Those at the host, and those that advice wants there,
// get one if something has changed since the last: the gain of a move does not come by itself.
bool address_space::must_plan(used_objects const& all) {
  bool at_host = false;
  auto placed = placed_of(all);
  for (auto const& [o, u] : placed) {
    if (o->single.empty() && !tiers_.has_host_advice) continue;
    auto const [first, end] = chunks_of(*o, u.blocks);
    for (auto i = first; i < end; ++i) {
      auto& c = o->chunks[i];
      c.last_call = u.call;
      at_host = at_host || (c.advice == memory_advice::host && c.where == tier::device);
    }
    if (o->away.overlaps(u.blocks)) return true;
    at_host = at_host || o->single.overlaps(u.blocks);
  }
  if (!at_host) return false;
  return tiers_.placed_at != tiers_.changes ||
         !std::ranges::equal(placed, tiers_.last_placed, [](auto const& used, auto const& last) {
           return used.first->offset == last.first && used.second.blocks == last.second;
         });
}

address_space::placed_chunks address_space::all_chunks(used_objects const& all) {
  placed_chunks found;
  std::map<object const*, block_runs> needed;  // chunks
  for (auto const& [o, u] : all) {
    auto const [first, end] = chunks_of(*o, u.blocks);
    needed[o].add({first, end});
  }
  for (auto& [offset, o] : objects_) {
    if (o.is_managed) continue;
    auto const used = needed.find(&o);
    double const count = double(o.chunks.size());
    // A call that is released and not launched may be launched by the thread that waits here.
    block_runs waiting;
    for (auto const& u : o.uses)
      if (is_of_call(u) && !ending_.contains(std::int64_t(u.call))) waiting.add(u.blocks);
    for (std::size_t i = 0; i < o.chunks.size(); ++i) {
      auto const& c = o.chunks[i];
      bool const is_needed = used != needed.end() && used->second.contains(i);
      if (!is_needed && c.where == tier::away) continue;
      found.seen.push_back({.bytes = o.room_of_chunk(i),
                            .where = c.where,
                            .advice = c.advice,
                            .is_needed = is_needed,
                            .is_fixed = waiting.overlaps(o.blocks_of_chunk(i)),
                            .position = double(i + 1) / count,
                            .last_call = c.last_call,
                            .heat = c.heat});
      found.which.emplace_back(&o, i);
    }
  }
  return found;
}

int address_space::refuse_to_place(placed_chunks const& all) {
  std::map<object const*, std::uint64_t> needed;
  std::uint64_t sum = 0, fixed = 0;
  for (std::size_t i = 0; i < all.seen.size(); ++i) {
    auto const& c = all.seen[i];
    if (c.is_needed) needed[all.which[i].first] += c.bytes;
    (c.is_needed ? sum : fixed) += c.is_needed || c.is_fixed ? c.bytes : 0;
  }
  auto const most = std::ranges::max_element(needed, {}, [](auto const& n) { return n.second; });
  auto const& o = *most->first;
  why_refused_ = fmt::format(
      "{}: {} mapped, and a launch may use {} of shared objects in chunks of {}, device_memory is "
      "{} and host_memory {}{}: declare the ranges that it uses (shared_call), use "
      "for_each_window(), free objects, raise device_memory or host_memory, or set "
      "backing = managed",
      o.name(), size_text(o.bytes), size_text(sum), size_text(o.chunk_bytes),
      size_text(tiers_.budgets.device), size_text(tiers_.budgets.host),
      fixed == 0
          ? std::string()
          : fmt::format(", {} of which calls have that are not launched yet", size_text(fixed)));
  return -ENOMEM;
}

// Nobody uses the blocks, reads them from a file or writes them there.
bool address_space::can_move(object const& o, block_run blocks) const {
  if (o.is_used(blocks, true)) return false;
  if (o.file == nullptr) return true;
  // remap() has waited for moves. The chunks of an object that goes may move until it is gone.
  if (o.file->stops.load(std::memory_order_relaxed) && !o.is_going) return false;
  auto const bytes = o.bytes_in(blocks);
  return !o.is_still(blocks) && !o.file->is_filling(o.file->units_of(bytes.first, bytes.end));
}

// Returns 0: all is in place; 1: look again, objects may have come or gone; -EAGAIN: chunks have to
// move, which is not wanted here; or an error.
// `cuts`: how often the caller's plans have been cut short.
int address_space::place_all(quiet_lock& lock, used_objects const& all, missing_bytes missing,
                             std::size_t& cuts) {
  if (tiers_.single_chunks == 0 && !tiers_.has_host_advice) return 0;
  bool const may_wait = missing == missing_bytes::bring;
  if (tiers_.is_placing) {
    if (!may_wait) return -EAGAIN;
    wait_until(lock, [this] { return has_failed_ || !tiers_.is_placing; });
    return 1;
  }
  if (!must_plan(all)) return 0;
  // Not in the middle of moves: a GPU may give memory back between kernels only, and a kernel may
  // wait for a CPU thread that waits for a move.
  if (tiers_.is_short && may_wait) {
    wait_until(lock, [this] { return has_failed_ || tiers_.forgetting == 0; });
    tiers_.is_short = false;
    return 1;
  }
  auto const chunks = all_chunks(all);
  auto const plan = plan_placement(chunks.seen, tiers_.budgets);
  if (!plan.is_possible && tiers_.forgetting != 0) {
    if (!may_wait) return -EAGAIN;
    wait_until(lock, [this] { return tiers_.forgetting == 0; });
    return 1;
  }
  if (!plan.is_possible) return refuse_to_place(chunks);
  if (plan.moves.empty()) {
    tiers_.last_placed.clear();
    for (auto const& [o, u] : placed_of(all)) tiers_.last_placed.emplace_back(o->offset, u.blocks);
    tiers_.placed_at = tiers_.changes;
    return 0;
  }
  if (!may_wait) return -EAGAIN;
  struct end_of_placing {
    address_space& space;
    ~end_of_placing() {
      space.tiers_.is_placing = false;
      space.tell_changes();
    }
  };
  tiers_.is_placing = true;
  end_of_placing const end{*this};
  int const result = carry_out(lock, chunks, plan.moves, cuts);
  wait_until(lock, [this] { return !tiers_.is_spilling; });
  spill(lock, true);
  return result;
}

// Returns as place_all().
int address_space::carry_out(quiet_lock& lock, placed_chunks const& all,
                             std::vector<planned_move> const& moves, std::size_t& cuts) {
  struct moved {
    std::uint64_t offset, id;
    block_run blocks;
  };
  std::vector<moved> busy;
  for (auto const& m : moves) {
    auto const& [o, i] = all.which[m.which];
    if (!can_move(*o, o->blocks_of_chunk(i)))
      busy.push_back({o->offset, o->id, o->blocks_of_chunk(i)});
  }
  if (!busy.empty()) {
    wait_until(lock, [&] {
      return has_failed_ || std::ranges::all_of(busy, [this](moved const& m) {
               auto* const o = object_at(m.offset);
               return o == nullptr || o->id != m.id || can_move(*o, m.blocks);
             });
    });
    return has_failed_ ? -EIO : 1;
  }
  // Threads that want to use these blocks wait as for a call. So their objects stay.
  struct uses_of_moves {
    std::vector<object*> of;
    ~uses_of_moves() {
      for (auto* const o : of)
        std::erase_if(o->uses, [](use const& u) { return u.call == moving; });
    }
  } held;
  quiet_lock::closed const quiet{lock};
  for (auto const& m : moves) {
    auto const& [o, i] = all.which[m.which];
    held.of.push_back(o);
    o->uses.push_back({o->blocks_of_chunk(i), true, moving});
  }
  ++tiers_.changes;
  try {
    device_scope const here(device_);
    for (auto m = moves.begin(); m != moves.end(); ++m) {
      auto const& [o, i] = all.which[m->which];
      bool const is_last = std::ranges::none_of(
          m + 1, moves.end(), [&](planned_move const& later) { return later.which == m->which; });
      if (int const result = move_chunk(lock, *o, i, m->to, is_last); result != 0) return result;
      // Chunks that leave the device fill the host. They spill before others follow. But plans that
      // are cut short may move chunks there and back for ever, while those carried out whole end.
      // Then the host has more for a moment.
      if (tiers_.make_spill_file != nullptr && tiers_.is_over() && cuts < 2 * all.which.size()) {
        ++cuts;
        break;
      }
    }
  } catch (std::bad_alloc const&) {  // chunks that have not moved are as they were
    return lacks_memory();
  } catch (std::exception const&) {
    fail();
    return -EIO;
  }
  return 1;
}

// The system or the device gives less than the settings say.
void address_space::shrink_budget(tier t, std::string const& why) {
  auto& budget = t == tier::device ? tiers_.budgets.device : tiers_.budgets.host;
  auto const held = tiers_.in(t);
  notes_.push_back(fmt::format("{}: {} instead of {}: {}",
                               t == tier::device ? "device_memory" : "host_memory", size_text(held),
                               size_text(budget), why));
  budget = held;
}

void address_space::advise(object& o, block_run r, memory_advice advice) {
  if (in_forked_child() || r.first == r.end || o.is_managed) return;
  quiet_lock const lock(mutex_);
  auto const [first, end] = chunks_of(o, r);
  for (auto i = first; i < end; ++i) o.chunks[i].advice = advice;
  tiers_.has_host_advice |= advice == memory_advice::host;
  ++tiers_.changes;
}

tier_budgets address_space::budgets() const {
  if (in_forked_child()) return {0, 0};
  quiet_lock const lock(mutex_);
  return tiers_.budgets;
}

memory_tiers address_space::tiers(object const* of) const {
  if (in_forked_child()) return {};
  quiet_lock const lock(mutex_);
  if (of == nullptr)
    return {tiers_.in(tier::device), tiers_.in(tier::host) + tiers_.managed_bytes,
            tiers_.in(tier::away)};
  std::uint64_t bytes[3]{};
  for (std::size_t i = 0; i < of->chunks.size(); ++i)
    bytes[std::size_t(of->chunks[i].where)] += of->room_of_chunk(i);
  return {bytes[0], bytes[1], bytes[2]};
}

}  // namespace gpufs::shared
