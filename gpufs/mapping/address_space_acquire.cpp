// What the CPU does of its own accord: bytes are made ready, sent ahead, fetched by the batch
// protocol.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/no_mappings.hpp>
#include <gpufs/mapping/wait_until.hpp>

#include <cerrno>
#include <exception>
#include <new>
#include <optional>

namespace gpufs::shared {

using device_memory::host_access;

void address_space::acquire_batches() {
  if (in_forked_child()) return;
  constexpr reason why{nullptr, &mapping_statistics::batch_d2h_bytes};
  quiet_lock const lock(mutex_);
  take_ended_calls();
  for (auto& [offset, o] : objects_) {
    if (!o.is_at_device || !o.uses.empty()) continue;
    try {
      if (o.is_changed) transfers_.fetch(o, o.all(), why);
    } catch (std::bad_alloc const&) {
      throw;  // it is fetched next time
    } catch (...) {
      fail();
      throw;
    }
    o.is_at_device = o.is_changed = false;
  }
}

int address_space::acquire(object& o, wanted const& what) try {
  if (in_forked_child()) return -EIO;
  bool const writes = what.use != access::read;
  bool const is_batch = o.protocol == coherence_protocol::batch;
  block_run const r = o.blocks_of(what.first, what.bytes);
  if (r.first == r.end) return 0;
  quiet_lock lock(mutex_);
  if (writes && o.is_read_only()) return -EACCES;
  auto const is_usable = [&] {
    bool const is_used =
        is_batch ? !o.uses.empty() : o.is_used(r, device_memory::shared_range::hands_over);
    return has_failed_ || (!is_used && !(writes && o.is_still(r)));
  };
  // What comes stays, until a call uses it. If it fails, what others have made ready does so still.
  block_runs added;
  bool const stays = tiers_.can_spill(o) || o.is_caught();
  if (stays) {
    added.add(r);
    for (auto const& run : o.acquired.within(r)) added.take(run);
    o.acquired.add(r);
  }
  std::optional<int> error;
  while (!error) {
    wait_until(lock, is_usable);
    if (stays) o.acquired.add(r);  // a call that has begun meanwhile has taken them
    error = bring_for_cpu(lock, o, what);
  }
  if (*error == 0) spill(lock, false);
  if (*error != 0) try {
      for (auto const& run : added.runs()) o.acquired.take(run);
    } catch (std::bad_alloc const&) {  // they stay all the same
    }
  return *error;
} catch (std::bad_alloc const&) {
  return -ENOMEM;
}

// No call uses the bytes, and they may be written. Nothing: that may be otherwise now.
std::optional<int> address_space::bring_for_cpu(quiet_lock& lock, object& o,
                                                wanted const& what) try {
  constexpr reason why{&mapping_statistics::acquire_blocks, &mapping_statistics::acquire_bytes};
  bool const writes = what.use != access::read;
  block_run const r = o.blocks_of(what.first, what.bytes);
  if (has_failed_) return -EIO;
  if (writes && o.is_read_only()) return -EACCES;  // since remap()
  if (o.shows_file()) {
    int const error = o.file->look_for_end(what.first + what.bytes);
    if (error != 0) note_error(o, what.first, error);
    return error;
  }
  if (o.lacks(r)) {
    int const error = bring(lock, o, r);
    return error != 0 ? std::optional(error) : std::nullopt;
  }
  if (o.protocol == coherence_protocol::batch) {
    if (o.is_at_device && o.is_changed) transfers_.fetch(o, o.all(), why);
    o.is_at_device = o.is_changed = false;
    return 0;
  }
  // They stay with the CPU until a release, however many there are, also those written before.
  if (writes) states_.keep_dirty(o, r);
  for (std::uint64_t block = r.first; block < r.end; ++block) {
    auto const touch = on_touch(o.states[block], writes);
    if (touch.after == o.states[block]) continue;
    block_run const one{block, block + 1};
    std::uint64_t const begin = block * o.block_bytes;
    bool const is_overwritten = what.use == access::write && what.first <= begin &&
                                begin + o.bytes_of(one) <= what.first + what.bytes;
    if (touch.fetch && !is_overwritten) transfers_.fetch(o, one, why);
    states_.make_readable(o, one, allowed(touch.after));
    if (writes) make_dirty(o, block, false);
  }
  return 0;
} catch (no_mappings const&) {
  return -ENOMEM;
} catch (std::bad_alloc const&) {
  return -ENOMEM;
} catch (std::exception const&) {
  fail();
  return -EIO;
}

int address_space::send(object& o, block_run r) {
  if (in_forked_child()) return -EIO;
  quiet_lock const lock(mutex_);
  if (has_failed_) return -EIO;
  if (o.protocol == coherence_protocol::batch) return 0;
  try {
    for (auto const& run : o.dirty_runs(r)) {
      if (states_.protect(o, run, host_access::read) != 0) break;  // the launch sends them
      states_.clean(o, run, released);
    }
    transfers_.wait_for_sends();
  } catch (std::bad_alloc const&) {
    return -ENOMEM;
  } catch (std::exception const&) {
    fail();
    return -EIO;
  }
  return 0;
}

}  // namespace gpufs::shared
