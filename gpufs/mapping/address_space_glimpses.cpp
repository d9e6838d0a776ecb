// Objects with wait_on_touch off: the CPU reads blocks while a call runs that may write them.
//
// GPU: the block's bytes are copied to the CPU's side, which may be read for a short time. Its
// state stays: it is invalid, and its home is the device. So nothing else looks at these bytes, and
// they are given up again
//   - when it becomes known that a call has ended that may have written them, before anybody who
//     waits for that call goes on
//   - some time after they came, so that a CPU thread which reads again and again sees what is new
//
// Emulated: the device's bytes lie at their shared addresses while a call uses them.
//
// A write waits for the call on a GPU, as for other objects. The kernel's bytes and the CPU's would
// be two versions of one block, and one of them would be lost.
#include <gpufs/mapping/address_space.hpp>

#include <algorithm>
#include <exception>
#include <new>

namespace gpufs::shared {

using device_memory::host_access;

namespace {

// Nothing is copied, moved or spilled there: a call is what uses the block.
bool is_used_by_calls_only(object const& o, block_run one) {
  return std::ranges::all_of(
      o.uses, [&](use const& u) { return is_of_call(u) || !u.blocks.overlaps(one); });
}

// Where the processor does not tell, a fault on what may be read is a write. Emulated: all that a
// call uses may be read.
bool only_reads(object const& o, std::uint64_t block, touch_kind kind) {
  if (kind != touch_kind::unknown) return kind == touch_kind::read;
  return !device_memory::shared_range::hands_over && !o.glimpses.contains(block);
}

}  // namespace

// A call uses the block.
fault_answer address_space::glimpse(object& o, std::uint64_t block, touch_kind kind) {
  block_run const one{block, block + 1};
  if (o.waits_on_touch || o.protocol == coherence_protocol::batch || !only_reads(o, block, kind) ||
      !is_used_by_calls_only(o, one))
    return fault_answer::waiting;
  if (device_memory::shared_range::hands_over || o.glimpses.contains(block)) {
    // The thread touched it before the call had it, or another thread was first.
    transfers_.count(o, &mapping_statistics::faults_spurious);
    return fault_answer::served;
  }
  auto const begin = glimpse_clock::clock::now();
  if (!o.single.contains(block))
    transfers_.fetch(o, one,
                     {&mapping_statistics::glimpsed_blocks, &mapping_statistics::glimpsed_bytes});
  // If the system has no more mappings, the call's end makes it readable.
  if (states_.protect(o, one, host_access::read) != 0) return fault_answer::waiting;
  o.glimpses.add(one);
  transfers_.count(o, &mapping_statistics::faults_read);
  auto const now = glimpse_clock::clock::now();
  glimpses_.came(now, now - begin);
  return fault_answer::served;
}

// In the service thread. Returns whether the CPU sees some still. What cannot be closed stays, and
// is tried again.
bool address_space::end_old_glimpses() {
  auto const now = glimpse_clock::clock::now();
  if (!glimpses_.is_over(now)) return glimpses_.runs();
  glimpses_.end();
  quiet_lock const lock(mutex_);
  try {
    for (auto& [offset, o] : objects_) {
      for (auto const& run : o.glimpses.runs()) {
        if (states_.protect(o, run, host_access::none) == 0)
          o.glimpses.take(run);
        else
          glimpses_.came(now, {});
      }
    }
  } catch (std::bad_alloc const&) {
    glimpses_.came(now, {});
  }
  return glimpses_.runs();
}

// A call has ended that used these blocks. If the system has no more mappings, they stay open, and
// have the device's bytes.
void address_space::end_glimpses(object& o, block_run r) {
  constexpr reason why{nullptr, &mapping_statistics::merged_bytes};
  for (auto const& run : o.glimpses.take(r)) {
    if (states_.protect(o, run, host_access::none) == 0) continue;
    try {
      // Other calls may write them still, and go on while the CPU reads old bytes.
      if (o.is_used(run, false)) throw device_error("no more mappings");
      transfers_.fetch(o, run, why);
      states_.set_state(o, run, block_state::read_only);
    } catch (std::exception const&) {
      fail();
    }
  }
}

}  // namespace gpufs::shared
