// States of blocks, as calls and faults change them.
#include <gpufs/mapping/block_states.hpp>
#include <gpufs/mapping/no_mappings.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpufs::shared {

using device_memory::host_access;

// While a call uses blocks on the emulated device, the device's bytes lie there. The end of the
// call sets what the CPU may do with them.
int block_states::protect(object& o, block_run r, host_access to) {
  if (!device_memory::shared_range::hands_over || o.uses.empty())
    return range_.protect(o.begin_of(r), o.pages_of(r), to);
  int error = 0;
  for (auto const& free : o.unused(r)) {
    if (error == 0) error = range_.protect(o.begin_of(free), o.pages_of(free), to);
  }
  return error;
}

void block_states::protect_or_throw(object& o, block_run r, host_access to) {
  if (protect(o, r, to) != 0) throw no_mappings();
}

void block_states::set_state(object& o, block_run r, block_state to) {
  // First what may find no memory.
  if (to == block_state::invalid)
    o.readable.take(r);
  else
    o.readable.add(r);
  fill(o, r, to);
}

void block_states::fill(object& o, block_run r, block_state to) noexcept {
  std::fill(o.states.begin() + std::ptrdiff_t(r.first), o.states.begin() + std::ptrdiff_t(r.end),
            to);
}

void block_states::make_readable(object& o, block_run one, host_access to) {
  auto const is_made = [&] {
    bool const was_invalid = o.states[one.first] == block_state::invalid;
    if (was_invalid) set_state(o, one, block_state::read_only);
    if (protect(o, one, to) == 0) return true;
    if (was_invalid) set_state(o, one, block_state::invalid);
    return false;
  };
  if (is_made()) return;
  // Parts of the object that a call uses cannot be made alike.
  if (o.uses.empty()) merge(o);
  if (!is_made()) throw no_mappings();
}

void block_states::make_dirty(object& o, std::uint64_t block, bool rolls) {
  block_run const one{block, block + 1};
  if (o.file != nullptr) o.file->changed.add(one);
  if (o.single.contains(block)) return set_state(o, one, block_state::dirty);  // nothing is sent
  // If memory runs out on the way, it is sent once more than it need be.
  auto const place = o.dirty.emplace(block, written_.end()).first;
  if (o.protocol != coherence_protocol::lazy && rolls) {
    written_.push_back({&o, block});
    place->second = std::prev(written_.end());
    if (rolling_.written_again(o.evicted_at[block]))
      transfers_.count(o, &mapping_statistics::reevictions);
  }
  set_state(o, one, block_state::dirty);
}

void block_states::keep_dirty(object& o, block_run r) noexcept {
  for (auto at = o.dirty.lower_bound(r.first); at != o.dirty.end() && at->first < r.end; ++at) {
    auto const place = std::exchange(at->second, written_.end());
    if (place != written_.end()) written_.erase(place);
  }
}

// The neighbour of the block that was written last stays: an access may need both of them.
void block_states::evict_beyond_limit() {
  if (written_.size() <= rolling_.limit()) return;
  auto const newest = written_.back();
  auto oldest = written_.begin();
  while (written_.size() > rolling_.limit() && oldest != written_.end()) {
    auto const next = std::next(oldest);
    bool const is_near = oldest->of == newest.of && oldest->block + 1 >= newest.block &&
                         oldest->block <= newest.block + 1;
    if (!is_near) evict(*oldest);
    oldest = next;
  }
}

void block_states::evict(written_block oldest) {
  object& o = *oldest.of;
  // Protected first, sent then. A write meanwhile faults, and has the block sent again.
  if (protect(o, {oldest.block, oldest.block + 1}, host_access::read) != 0) return;
  clean(o, {oldest.block, oldest.block + 1},
        {&mapping_statistics::eviction_blocks, &mapping_statistics::eviction_bytes});
  o.evicted_at[oldest.block] = rolling_.evicted();
}

void block_states::clean(object& o, block_run r, reason why) {
  // If memory runs out on the way, they are dirty still, and sent once more.
  auto const all = o.dirty_runs(r);
  for (auto const& run : all) transfers_.queue_send(o, run, why);
  for (auto const& run : all) set_state(o, run, block_state::read_only);
  forget_dirty(o, r);
}

void block_states::forget_dirty(object& o, block_run r) {
  auto const first = o.dirty.lower_bound(r.first), end = o.dirty.lower_bound(r.end);
  for (auto at = first; at != end; ++at) {
    if (at->second != written_.end()) written_.erase(at->second);
  }
  o.dirty.erase(first, end);
}

// Blocks that the device lacks are in the file, so all are invalid then.
void block_states::merge(object& o) {
  constexpr reason why{nullptr, &mapping_statistics::merged_bytes};
  protect_or_throw(o, o.all(), host_access::none);
  clean(o, o.all(), why);
  transfers_.wait_for_sends();
  if (o.lacks(o.all())) return set_state(o, o.all(), block_state::invalid);
  block_runs missing;
  missing.add(o.all());
  for (auto const& run : o.readable.runs()) missing.take(run);
  for (auto const& run : missing.runs()) transfers_.fetch(o, run, why);
  set_state(o, o.all(), block_state::read_only);
  protect_or_throw(o, o.all(), host_access::read);
}

}  // namespace gpufs::shared
