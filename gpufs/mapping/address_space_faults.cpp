// Faults of CPU threads, answered by the service thread.
#include <gpufs/device/memory.hpp>
#include <gpufs/mapping/address_space.hpp>

#include <cerrno>
#include <utility>

#include <pthread.h>

namespace gpufs::shared {

using device_memory::host_access;

void address_space::serve_faults() {
  ::pthread_setname_np(::pthread_self(), "gpufs-shared");
  device_memory::enter_library_thread(device_);
  std::vector<fault*> open;
  for (;;) {
    auto const seen = faults_.rings();
    for (fault* f = faults_.take_all(); f != nullptr; f = f->next) open.push_back(f);
    if (stops_.load(std::memory_order_acquire) && open.empty()) return;
    std::erase_if(open, [this](fault* f) {
      auto const answer = try_to_serve(*f);
      if (answer == fault_answer::waiting) return false;
      fault_queue::answer(*f, answer);
      return true;
    });
    faults_.wait(seen);
  }
}

fault_answer address_space::try_to_serve(fault const& f) {
  quiet_lock const lock(mutex_);
  std::uint64_t const at = f.address - reinterpret_cast<std::uintptr_t>(range_.base());
  object* const o = object_at(at);
  if (o == nullptr) return fault_answer::not_ours;
  try {
    return serve(*o, (at - o->offset) / o->block_bytes, f);
  } catch (device_error const&) {
    has_failed_ = true;
    return fault_answer::failed;
  }
}

fault_answer address_space::serve(object& o, std::uint64_t block, fault const& f) {
  block_run const one{block, block + 1};
  bool const is_used = o.is_used(one, device_memory::shared_range::hands_over);
  // A kernel would wait for itself. It may use what its call was given, and nothing else.
  if (f.in_kernel) return fault_answer::not_ours;
  if (has_failed_) return fault_answer::failed;
  if (is_used) return fault_answer::waiting;
  if (o.protocol == coherence_protocol::batch) {
    // A call has ended since.
    count(o, &mapping_statistics::faults_spurious);
    return fault_answer::served;
  }
  auto const touch = on_touch(o.states[block], f.writes);
  if (touch.after == o.states[block]) {
    count(o, &mapping_statistics::faults_spurious);
    return fault_answer::served;
  }
  count(o, f.writes ? &mapping_statistics::faults_write : &mapping_statistics::faults_read);
  if (touch.fetch)
    fetch(o, one,
          f.writes ? reason{&mapping_statistics::fault_write_blocks,
                            &mapping_statistics::fault_write_bytes}
                   : reason{&mapping_statistics::fault_read_blocks,
                            &mapping_statistics::fault_read_bytes});
  make_ready(o, block, f.writes);
  return fault_answer::served;
}

// The CPU's bytes of the block are up to date.
void address_space::make_ready(object& o, std::uint64_t block, bool writes) {
  block_run const one{block, block + 1};
  host_access const to = writes ? host_access::read_write : host_access::read;
  if (protect(o, one, to) != 0) {
    // Fetched bytes and states agree for the merge only if the block counts as readable.
    if (o.states[block] == block_state::invalid) set_state(o, one, block_state::read_only);
    if (o.uses.empty()) merge(o);
    protect_or_throw(o, one, to);
  }
  if (!writes) return set_state(o, one, block_state::read_only);
  make_dirty(o, block);
}

void address_space::make_dirty(object& o, std::uint64_t block) {
  block_run const one{block, block + 1};
  set_state(o, one, block_state::dirty);
  if (o.protocol == coherence_protocol::lazy) {
    o.dirty.emplace(block, written_.end());
    return;
  }
  if (rolling_.written_again(o.evicted_at[block])) count(o, &mapping_statistics::reevictions);
  written_.push_back({&o, block});
  o.dirty.emplace(block, std::prev(written_.end()));
  evict_beyond_limit(written_.back());
}

// The neighbour of the block that was written last stays: an access may need both of them.
void address_space::evict_beyond_limit(written_block const& newest) {
  auto oldest = written_.begin();
  while (written_.size() > rolling_.limit() && oldest != written_.end()) {
    auto const next = std::next(oldest);
    bool const is_near = oldest->of == newest.of && oldest->block + 1 >= newest.block &&
                         oldest->block <= newest.block + 1;
    if (!is_near) evict(*oldest);
    oldest = next;
  }
  if (to_send_.empty()) return;
  device_memory::copy_to_device(sends_, std::exchange(to_send_, {}));
  is_sending_ = true;
}

void address_space::evict(written_block oldest) {
  object& o = *oldest.of;
  // Protected first, sent then. A write meanwhile faults, and has the block sent again.
  if (protect(o, {oldest.block, oldest.block + 1}, host_access::read) != 0) return;
  clean(o, {oldest.block, oldest.block + 1},
        {&mapping_statistics::eviction_blocks, &mapping_statistics::eviction_bytes});
  o.evicted_at[oldest.block] = rolling_.evicted();
}

}  // namespace gpufs::shared
