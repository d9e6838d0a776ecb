// Calls: blocks are handed to the device before a launch, and can be had back when it has ended.
#include <gpufs/mapping/address_space.hpp>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace gpufs::shared {

using device_memory::host_access;

namespace {

constexpr std::int64_t failed = -EIO;

}  // namespace

std::int64_t address_space::begin(std::optional<std::vector<part>> declared) {
  quiet_lock const lock(mutex_);
  if (has_failed_) return failed;
  bool const is_declared = declared.has_value();
  auto parts = declared.value_or(std::vector<part>{});
  if (!is_declared) {
    for (auto& [offset, o] : objects_) parts.push_back({&o, o.all(), true});
  }
  try {
    rolling_.released(written_.size());
    for (auto const& p : parts) hand_over(p);
    wait_for_sends();
    for (auto const& p : parts)
      use_range(*p.of, {p.blocks, p.writes, std::uint64_t(last_call_) + 1});
  } catch (device_error const&) {
    has_failed_ = true;
    drop_uses(last_call_ + 1);
    return failed;
  }
  ++counts_.calls;
  if (is_declared) ++counts_.declared_calls;
  ++calls_under_way_;
  return ++last_call_;
}

void address_space::hand_over_batch(object& o, bool writes) {
  constexpr reason why{nullptr, &mapping_statistics::batch_h2d_bytes};
  // Between two calls without a synchronize() the device has the newest bytes.
  if (!o.is_at_device) queue_send(o, o.all(), why);
  o.is_at_device = true;
  o.is_changed = o.is_changed || writes;
}

void address_space::hand_over(part const& p) {
  object& o = *p.of;
  if (o.protocol == coherence_protocol::batch) return hand_over_batch(o, p.writes);
  block_run blocks = p.blocks;
  for (;;) {
    // Protected first and sent then: no write of the CPU is lost in between.
    auto const held = p.writes ? o.readable.within(blocks) : std::vector<block_run>{};
    int error = 0;
    for (auto const& run : held) error = error != 0 ? error : protect(o, run, host_access::none);
    if (!p.writes) {
      for (auto const& [block, place] : o.dirty) {
        if (!blocks.contains(block)) continue;
        error = error != 0 ? error : protect(o, {block, block + 1}, host_access::read);
      }
    }
    if (error == 0) break;
    // No more mappings. All blocks alike need one. What the device has as well may be fetched
    // again.
    if (blocks == o.all()) {
      protect_or_throw(o, o.all(), host_access::none);
      clean(o, o.all(), {&mapping_statistics::release_blocks, &mapping_statistics::release_bytes});
      set_state(o, o.all(), block_state::invalid);
      return;
    }
    blocks = o.all();
  }
  clean(o, blocks, {&mapping_statistics::release_blocks, &mapping_statistics::release_bytes});
  if (!p.writes) return;
  for (auto const& run : o.readable.within(blocks)) set_state(o, run, block_state::invalid);
}

void address_space::use_range(object& o, use const& u) {
  o.uses.push_back(u);
  ++o.counts.calls;
  if constexpr (!device_memory::shared_range::hands_over) return;
  if (u.blocks.first == u.blocks.end) return;
  bool const writes = o.is_used(u.blocks, false);
  range_.begin_use(o.begin_of(u.blocks), o.pages_of(u.blocks), writes);
}

void address_space::end_behind(stream& on, std::int64_t call) noexcept {
  try {
    device_memory::when_done(on, [this, call] { end_call(call); });
  } catch (...) {
    // The stream takes no more work, so nothing can be known about the call's end.
    {
      quiet_lock const lock(mutex_);
      has_failed_ = true;
    }
    end_call(call);
  }
}

void address_space::end_call(std::int64_t call) {
  quiet_lock const lock(mutex_);
  drop_uses(call);
  --calls_under_way_;
  // Under the mutex: this object may go as soon as no call is under way.
  changed_.notify_all();
  faults_.ring();
}

void address_space::drop_uses(std::int64_t call) {
  auto const is_of_call = [call](use const& u) { return u.call == std::uint64_t(call); };
  for (auto& [offset, o] : objects_) {
    std::vector<use> ended;
    std::ranges::copy_if(o.uses, std::back_inserter(ended), is_of_call);
    if (ended.empty()) continue;
    std::erase_if(o.uses, is_of_call);
    for (auto const& u : ended) end_use(o, u.blocks);
  }
}

// Gives the CPU back what no other call uses.
void address_space::end_use(object& o, block_run r) {
  if constexpr (!device_memory::shared_range::hands_over) return;
  for (auto const& free : o.unused(r)) {
    range_.end_use(o.begin_of(free), o.pages_of(free));
    if (o.protocol == coherence_protocol::batch) {
      if (protect(o, free, host_access::read_write) != 0) has_failed_ = true;
      continue;
    }
    // The device has these bytes, too. So blocks that cannot be protected are fetched again.
    for (auto const& run : o.readable.within(free)) {
      if (protect(o, run, host_access::read) != 0) set_state(o, run, block_state::invalid);
    }
  }
}

void address_space::acquire_batches() {
  constexpr reason why{nullptr, &mapping_statistics::batch_d2h_bytes};
  quiet_lock const lock(mutex_);
  for (auto& [offset, o] : objects_) {
    if (!o.is_at_device || !o.uses.empty()) continue;
    if (o.is_changed) fetch(o, o.all(), why);
    o.is_at_device = o.is_changed = false;
  }
}

int address_space::acquire(object& o, wanted const& what) {
  constexpr reason why{&mapping_statistics::acquire_blocks, &mapping_statistics::acquire_bytes};
  bool const writes = what.use != access::read;
  block_run const r = o.blocks_of(what.first, what.bytes);
  quiet_lock lock(mutex_);
  changed_.wait(
      lock, [&] { return !o.is_used(r, device_memory::shared_range::hands_over) || has_failed_; });
  if (has_failed_) return -EIO;
  try {
    if (o.protocol == coherence_protocol::batch) {
      if (o.is_at_device && o.is_changed) fetch(o, o.all(), why);
      o.is_at_device = o.is_changed = false;
      return 0;
    }
    for (std::uint64_t block = r.first; block < r.end; ++block) {
      auto const after = on_touch(o.states[block], writes);
      if (after.after == o.states[block]) continue;
      block_run const one{block, block + 1};
      std::uint64_t const begin = block * o.block_bytes;
      bool const is_overwritten = what.use == access::write && what.first <= begin &&
                                  begin + o.bytes_of(one) <= what.first + what.bytes;
      if (after.fetch && !is_overwritten) fetch(o, one, why);
      make_ready(o, block, writes);
    }
  } catch (device_error const&) {
    has_failed_ = true;
    return -EIO;
  }
  return 0;
}

int address_space::send(object& o, block_run r) {
  quiet_lock const lock(mutex_);
  if (has_failed_) return -EIO;
  if (o.protocol == coherence_protocol::batch) return 0;
  try {
    std::vector<block_run> dirty;
    for (auto at = o.dirty.lower_bound(r.first); at != o.dirty.end() && at->first < r.end; ++at)
      dirty.push_back({at->first, at->first + 1});
    for (auto const& one : dirty) {
      if (protect(o, one, host_access::read) != 0) return 0;  // the launch sends them
      clean(o, one, {&mapping_statistics::release_blocks, &mapping_statistics::release_bytes});
    }
    wait_for_sends();
  } catch (device_error const&) {
    has_failed_ = true;
    return -EIO;
  }
  return 0;
}

}  // namespace gpufs::shared
