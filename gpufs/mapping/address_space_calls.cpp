// Calls begin: blocks are handed to the device before a launch.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/device_scope.hpp>
#include <gpufs/mapping/no_mappings.hpp>
#include <gpufs/mapping/wait_until.hpp>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <utility>
#include <vector>

namespace gpufs::shared {

using device_memory::host_access;

namespace {

// A call may name an object several times.
bool is_first_of_object(auto const& all, auto at) {
  return std::none_of(all.begin(), at, [&](auto const& other) { return other.first == at->first; });
}

constexpr std::int64_t failed = -EIO;

}  // namespace

// The objects of a call, and what it does with them.
int address_space::collect(parts_of_call const& parts, used_objects& all) {
  all.clear();
  auto const number = std::uint64_t(last_call_) + 1;
  if (!parts) {
    all.reserve(objects_.size());
    for (auto& [offset, o] : objects_) {
      if (!o.is_going) all.push_back({&o, {o.all(), !o.is_read_only(), number}});
    }
    return 0;
  }
  for (auto const& p : *parts) {
    object* const o = object_at(p.offset);
    if (o == nullptr || o->id != p.id || o->is_going) return -EINVAL;
    if (p.writes && o->is_read_only()) return -EACCES;
    if (p.blocks.first != p.blocks.end) all.push_back({o, {p.blocks, p.writes, number}});
  }
  return 0;
}

// The same, as soon as the device has the bytes of files that the call uses.
int address_space::bring_all(quiet_lock& lock, parts_of_call const& parts, missing_bytes missing,
                             used_objects& all) try {
  std::size_t cuts = 0;
  for (;;) {
    take_ended_calls();
    if (has_failed_) return -EIO;
    if (int const error = collect(parts, all); error != 0) return error;
    // A remap() is under way: its objects' bytes and chunks stay as they are until it has ended. It
    // waits for no call that is not launched, as this thread may have one.
    auto const stopped = std::ranges::find_if(all, [](std::pair<object*, use> const& each) {
      auto const* const f = each.first->file.get();
      return f != nullptr && f->stops.load(std::memory_order_relaxed);
    });
    if (stopped != all.end()) {
      if (missing == missing_bytes::refuse) return -EAGAIN;
      if (int const error = bring(lock, *stopped->first, stopped->second.blocks); error != 0)
        return error;
      continue;
    }
    if (int const placed = place_all(lock, all, missing, cuts); placed != 0) {
      if (placed < 0) return placed;
      continue;
    }
    auto const waits = std::ranges::find_if(all, [this](std::pair<object*, use> const& each) {
      auto const& [o, u] = each;
      return o->lacks(u.blocks) || (u.writes && keeps_writers_out(*o));
    });
    if (waits == all.end()) return 0;
    if (missing == missing_bytes::refuse) return -EAGAIN;
    // Objects may come and go meanwhile.
    if (int const error = bring(lock, *waits->first, waits->second.blocks); error != 0)
      return error;
  }
} catch (std::bad_alloc const&) {
  return lacks_memory();
}

int address_space::prepare(parts_of_call const& parts) {
  if (in_forked_child()) return -EIO;
  quiet_lock lock(mutex_);
  why_refused_.clear();
  used_objects all;
  return bring_all(lock, parts, missing_bytes::bring, all);
}

std::int64_t address_space::begin(parts_of_call const& parts, beginning const& how) {
  if (in_forked_child()) return failed;
  quiet_lock lock(mutex_);
  why_refused_.clear();
  used_objects all;
  if (int const error = bring_all(lock, parts, how.missing, all); error != 0) return error;
  if (all.empty()) return 0;
  for (auto& [o, u] : all) u.is_declared = parts.has_value() && how.is_ordered;
  auto const number = std::uint64_t(last_call_) + 1;
  try {
    states_.launched();
    order(how.on, all);
    std::vector<block_run> written;
    for (auto at = all.cbegin(); at != all.cend(); ++at)
      written.push_back(hand_over(*at->first, at->second, is_first_of_object(all, at)));
    transfers_.wait_for_sends();
    // Not before the device has them: what it lacks can be saved from the CPU's side.
    for (auto const& [o, u] : all) use_range(*o, u);
    for (std::size_t i = 0; i < all.size(); ++i) leave_to_device(*all[i].first, written[i]);
  } catch (no_mappings const&) {
    drop_uses(std::int64_t(number));
    why_refused_ = no_mappings::text;
    return -ENOMEM;
  } catch (std::bad_alloc const&) {
    drop_uses(std::int64_t(number));
    return lacks_memory();
  } catch (std::exception const&) {
    drop_uses(std::int64_t(number));
    fail();
    return failed;
  }
  count_call(all, parts.has_value());
  return ++last_call_;
}

// Calls that are launched on other streams, and that use what this one does, come first: one of the
// two writes it, and one declares it. Two launches that declare nothing may use everything. These
// are ordered as the device's streams are, or programs with several streams would run on one.
void address_space::order(stream& on, used_objects const& all) {
  auto const beside = ends_.under_way_beside(on);
  if (beside.empty()) return;
  std::vector<std::int64_t> before;
  for (auto const& [o, u] : all) {
    for (auto const& other : o->uses) {
      if ((u.writes || other.writes) && (u.is_declared || other.is_declared) &&
          u.blocks.overlaps(other.blocks) &&
          std::ranges::binary_search(beside, std::int64_t(other.call)))
        before.push_back(std::int64_t(other.call));
    }
  }
  if (before.empty()) return;
  std::ranges::sort(before);
  device_scope const here(device_);
  ends_.order_behind(on, before);
}

std::optional<part> address_space::part_at(void const* first, std::uint64_t bytes, bool writes) {
  auto const at = range_.offset_of(first);
  if (bytes == 0 || !range_.may_have(at)) return std::nullopt;
  quiet_lock const lock(mutex_);
  object* const o = object_at(at);
  if (o == nullptr) return std::nullopt;
  auto const within = at - o->offset;
  return part{o->offset, o->id, o->blocks_of(within, std::min(bytes, o->bytes - within)), writes};
}

// Each object once, however many parts of it the call uses.
void address_space::count_call(used_objects const& all, bool is_declared) {
  ++transfers_.counts().calls;
  transfers_.counts().declared_calls += is_declared ? 1 : 0;
  for (auto at = all.begin(); at != all.end(); ++at) {
    if (is_declared && !is_first_of_object(all, at)) continue;
    ++at->first->counts.calls;
    at->first->counts.declared_calls += is_declared ? 1 : 0;
  }
}

// Blocks are protected first and sent then: no write of the CPU is lost in between. Returns those
// that the call may write. If it does not begin, the first touch of the CPU opens them again.
block_run address_space::hand_over(object& o, use const& u, bool is_first) {
  auto [blocks, writes] = std::pair(u.blocks, u.writes);
  if (o.protocol == coherence_protocol::batch) {
    constexpr reason why{nullptr, &mapping_statistics::batch_h2d_bytes};
    // Between two calls without a synchronize() the device has the newest bytes.
    if (is_first && o.single.empty() && !o.is_sent()) transfers_.queue_send(o, o.all(), why);
    return {0, 0};
  }
  int error = 0;
  o.acquired.take(blocks);
  if (writes && o.file != nullptr && o.file->is_written_back()) o.file->changed.add(blocks);
  if (writes) {
    for (auto const& run : o.readable.within(blocks))
      error = error != 0 ? error : states_.protect(o, run, host_access::none);
  } else {
    for (auto const& run : o.dirty_runs(blocks))
      error = error != 0 ? error : states_.protect(o, run, host_access::read);
  }
  if (error != 0) {
    // No more mappings. All blocks alike need one. What the device has as well is fetched again.
    blocks = o.all();
    writes = true;
    states_.protect_or_throw(o, blocks, host_access::none);
    o.glimpses = {};
  }
  states_.clean(o, blocks, released);
  return writes ? blocks : block_run{0, 0};
}

// The device has all bytes that a call uses. The CPU may do nothing with `written`.
void address_space::leave_to_device(object& o, block_run written) {
  for (auto const& run : o.readable.within(written))
    states_.set_state(o, run, block_state::invalid);
}

void address_space::use_range(object& o, use const& u) {
  o.uses.push_back(u);
  if constexpr (!device_memory::shared_range::hands_over) return;
  block_runs to_map;
  to_map.add(u.blocks);
  // What another use may write stays so.
  for (auto const& other : o.uses) {
    if (other.writes && !u.writes) to_map.take(other.blocks);
  }
  for (auto const& r : to_map.within(u.blocks))
    range_.begin_use(o.begin_of(r), o.pages_of(r), u.writes);
}

}  // namespace gpufs::shared
