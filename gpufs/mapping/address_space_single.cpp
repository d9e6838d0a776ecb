// Blocks whose only memory is the CPU's side: the device uses it over the bus, or lacks it. Nothing
// is sent or fetched.
//
//   invalid    a call may have written them. The first touch behind it opens them
//   read_only  the first write is to be seen, as the block is written back
//   dirty      the CPU does as it likes
#include <gpufs/mapping/address_space.hpp>

#include <algorithm>

namespace gpufs::shared {

using device_memory::host_access;

// The whole chunk is opened, as far as no call uses it: a program that touches one block touches
// others.
fault_answer address_space::serve_single(object& o, std::uint64_t block, bool writes) {
  transfers_.count(o,
                   writes ? &mapping_statistics::faults_write : &mapping_statistics::faults_read);
  if (o.states[block] == block_state::invalid) {
    auto const i = o.chunk_of(block);
    auto const chunk = o.blocks_of_chunk(i);
    tiers_.keep(o, i);
    block_runs closed;
    for (auto const& run : o.unused(chunk)) closed.add(run);
    for (auto const& run : o.readable.within(chunk)) closed.take(run);
    for (auto const& run : o.present(closed)) open_single(o, run);
  }
  auto const after = on_touch(o.states[block], writes).after;
  if (after == o.states[block]) return fault_answer::served;
  states_.make_readable(o, {block, block + 1}, allowed(after));
  if (writes) make_dirty(o, block, true);
  return fault_answer::served;
}

// A run that cannot be protected stays closed.
void address_space::open_single(object& o, block_run r) {
  auto const open = [&](block_run some, block_state to) {
    if (states_.protect(o, some, allowed(to)) == 0) states_.set_state(o, some, to);
  };
  if (!o.is_caught()) return open(r, block_state::dirty);
  block_runs unseen;
  unseen.add(r);
  if (!o.file->is_busy) {
    for (auto const& run : o.file->changed.within(r)) {
      open(run, block_state::dirty);
      unseen.take(run);
    }
  }
  for (auto const& run : unseen.runs()) open(run, block_state::read_only);
}

// What the CPU may do with blocks, by their states.
void address_space::restore_single(object& o, block_run r) {
  if (o.protocol == coherence_protocol::batch) return;
  for (auto block = r.first; block < r.end;) {
    auto end = block + 1;
    while (end < r.end && o.states[end] == o.states[block]) ++end;
    block_run const run{block, end};
    if (range_.protect(o.begin_of(run), o.pages_of(run), allowed(o.states[block])) != 0)
      count_as_written(o, run);
    block = end;
  }
}

// What the CPU may do with these blocks is not known: it may have more than it should, and write
// unseen.
void address_space::count_as_written(object& o, block_run r) {
  block_runs some;
  some.add(r);
  for (auto const& run : o.present(some)) {
    states_.set_state(o, run, block_state::dirty);
    if (o.is_caught()) o.file->changed.add(run);
  }
}

// The object is written back: the next write to these blocks is to be seen.
void address_space::still_single(object& o, block_run r) {
  for (auto const& run : o.single.within(r)) {
    for (auto const& open : o.readable.within(run)) {
      states_.protect_or_throw(o, open, host_access::read);
      states_.set_state(o, open, block_state::read_only);
    }
  }
}

}  // namespace gpufs::shared
