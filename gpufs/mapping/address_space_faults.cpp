// Faults of CPU threads, answered by the service thread.
#include <gpufs/device/memory.hpp>
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/no_mappings.hpp>

#include <exception>
#include <new>
#include <string>
#include <utility>

#include <pthread.h>

namespace gpufs::shared {

using device_memory::host_access;

void address_space::serve_faults() {
  ::pthread_setname_np(::pthread_self(), "gpufs-shared");
  try {
    device_memory::enter_library_thread(device_);
  } catch (std::exception const&) {
    quiet_lock const lock(mutex_);
    fail();
  }
  fault* open = nullptr;
  for (unsigned times = 0;;) {
    auto const seen = faults_.rings();
    fault** last = &open;
    while (*last != nullptr) last = &(*last)->next;
    *last = faults_.take_all();
    if (stops_.load(std::memory_order_acquire) && open == nullptr) return;
    bool const has_answered = answer_all(open);
    {
      quiet_lock lock(mutex_);
      spill(lock, false);
    }
    bool const has_glimpses = end_old_glimpses();
    if (has_answered) times = 0;
    bool const asks = device_memory::call_ends::must_ask && open != nullptr;
    if (!asks && !has_glimpses)
      faults_.wait(seen, has_answered && open == nullptr);
    else if (!asks || !yields(times))
      faults_.wait_shortly(seen);
  }
}

// Those that wait for a call, or for bytes of a file, stay in the list. Returns whether any left.
bool address_space::answer_all(fault*& open) {
  if (open == nullptr) return false;
  {
    quiet_lock const lock(mutex_);
    take_ended_calls();
    // From here on, what changes has them tried again.
    open_faults_ = 0;
    for (fault const* f = open; f != nullptr; f = f->next) ++open_faults_;
  }
  bool has_answered = false;
  for (fault** at = &open; *at != nullptr;) {
    auto* const next = (*at)->next;  // it is gone once it is answered
    if (try_to_answer(**at)) {
      *at = next;
      has_answered = true;
    } else {
      at = &(*at)->next;
    }
  }
  return has_answered;
}

bool address_space::try_to_answer(fault& f) {
  quiet_lock lock(mutex_);
  auto answer = fault_answer::failed;
  std::string text;
  try {
    answer = answer_to(lock, f);
    text = std::exchange(to_say_, {});
    if (!text.empty()) text = "gpufs: " + text + "\n";
  } catch (std::bad_alloc const&) {  // not even for the text
  }
  if (answer == fault_answer::waiting) return false;
  --open_faults_;
  // With a listener the thread may wait in write(2), with the lock of a pipe that is stderr. If it
  // waits in an access instead, it comes again by a signal. It may have the lock of the stream.
  if (!text.empty() && f.listener == nullptr) lock.without([&] { say(text.c_str()); });
  fault_queue::answer(f, answer);
  // The thread that faulted goes on meanwhile. What is sent is protected: a write to it faults, and
  // is answered after this.
  try {
    transfers_.start_sends();
  } catch (std::bad_alloc const&) {  // they start with the next ones
  } catch (std::exception const&) {
    fail();
  }
  return true;
}

fault_answer address_space::answer_to(quiet_lock& lock, fault const& f) {
  std::uint64_t const at = f.address - reinterpret_cast<std::uintptr_t>(range_.base());
  object* const o = object_at(at);
  // A kernel would wait for itself. It may use what its call was given, and nothing else.
  if (o == nullptr) return fault_answer::not_ours;
  if (f.in_kernel) {
    bool const is_refused =
        settings_.guard_read_only && o->is_read_only() && f.kind != touch_kind::read;
    return is_refused ? fault_answer::refused : fault_answer::not_ours;
  }
  try {
    auto const answer = serve(lock, *o, (at - o->offset) / o->block_bytes, f.kind);
    if (answer != fault_answer::waiting) return answer;
    // Bytes that were absent may be there now. Faults of other threads could have them spilled
    // before this one comes again. The object may have gone meanwhile.
    object* const now = object_at(at);
    if (now == nullptr) return fault_answer::not_ours;
    auto const block = (at - now->offset) / now->block_bytes;
    if (now->lacks({block, block + 1})) {
      // The process ends, and other threads with it. One that ends it would wait for itself.
      if (!reads_no_more(*now->file) || f.thread != ends_process_.load(std::memory_order_relaxed))
        return fault_answer::waiting;
      to_say_ = now->name() + ": not read any more, as the process ends";
      return fault_answer::failed;
    }
    return serve(lock, *now, block, f.kind);
  } catch (no_mappings const&) {
    // Once its calls have ended, all blocks of the object can be made alike.
    object* const now = object_at(at);
    if (now == nullptr) return fault_answer::not_ours;
    if (!now->uses.empty()) return fault_answer::waiting;
    to_say_ = now->name() + ": " + no_mappings::text;
    return fault_answer::failed;
  } catch (std::bad_alloc const&) {  // the block is as it was
    to_say_ = "shared memory: no host memory left for an access to it";
    return fault_answer::failed;
  } catch (std::exception const&) {
    fail();
    return fault_answer::failed;
  }
}

fault_answer address_space::serve(quiet_lock& lock, object& o, std::uint64_t block,
                                  touch_kind kind) {
  block_run const one{block, block + 1};
  bool const is_batch = o.protocol == coherence_protocol::batch;
  if (o.is_used(one, device_memory::shared_range::hands_over))
    return has_failed_ ? fault_answer::failed : glimpse(o, block, kind);
  auto const state = is_batch ? block_state::dirty : o.states[block];
  // Where the processor does not tell, the first fault counts as a read, and one on a block that
  // may be read as a write.
  bool const writes =
      kind == touch_kind::write || (kind == touch_kind::unknown && state == block_state::read_only);
  auto const touch = on_touch(state, writes);
  if (writes && o.is_read_only()) return fault_answer::not_ours;
  if (writes && o.is_still(one)) return fault_answer::waiting;
  if (touch.fetch && o.lacks(one)) return serve_absent(lock, o, one);
  if (touch.after == state) {  // another thread was first, or a call has ended since
    transfers_.count(o, &mapping_statistics::faults_spurious);
    // Or it may do less than it should: the system had no more mappings, or what closed the block
    // did not come to its end. Without userfaultfd an access that fails again comes back at once.
    if (!is_batch && states_.protect(o, one, allowed(state)) != 0 &&
        range_.user_faults() == nullptr)
      throw no_mappings();
    return fault_answer::served;
  }
  if (o.single.contains(block)) return serve_single(o, block, writes);
  if (has_failed_ && touch.fetch) return fault_answer::failed;
  transfers_.count(o,
                   writes ? &mapping_statistics::faults_write : &mapping_statistics::faults_read);
  if (touch.fetch)
    transfers_.fetch(o, one,
                     writes ? reason{&mapping_statistics::fault_write_blocks,
                                     &mapping_statistics::fault_write_bytes}
                            : reason{&mapping_statistics::fault_read_blocks,
                                     &mapping_statistics::fault_read_bytes});
  states_.make_readable(o, one, allowed(touch.after));
  if (writes) {
    make_dirty(o, block, true);
    if (!has_failed_) states_.evict_beyond_limit();
  }
  expect_next(o, block);
  return fault_answer::served;
}

// The thread waits until they are there, and then faults once more. If the process ends before or
// meanwhile, this thread ends with it.
fault_answer address_space::serve_absent(quiet_lock& lock, object& o, block_run one) {
  if (reads_no_more(*o.file)) return fault_answer::waiting;
  auto const bytes = o.bytes_in(one);
  auto const& units = o.file->units_of(bytes.first, bytes.end);
  if (fill(lock, o, units) == 0 || reads_no_more(*o.file)) return fault_answer::waiting;
  to_say_ = why_refused_;
  return fault_answer::failed;
}

// See block_states. Host memory keeps blocks whose only memory it is.
void address_space::make_dirty(object& o, std::uint64_t block, bool rolls) try {
  states_.make_dirty(o, block, rolls);
  if (o.single.contains(block)) tiers_.keep(o, o.chunk_of(block));
} catch (std::bad_alloc const&) {
  // It is open for writing already, and would be written unseen.
  if (states_.protect(o, {block, block + 1}, host_access::read) != 0) fail();
  throw;
}

}  // namespace gpufs::shared
