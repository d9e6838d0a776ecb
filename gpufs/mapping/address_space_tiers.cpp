// Chunks go from one tier to another. Nobody uses them meanwhile.
#include <gpufs/device/memory.hpp>
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/guard_chunk.hpp>
#include <gpufs/mapping/library_threads.hpp>
#include <gpufs/mapping/no_mappings.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <functional>
#include <new>
#include <utility>
#include <vector>

namespace gpufs::shared {

using device_memory::host_access;
using device_memory::shared_range;

namespace {

// What is registered needs all of its pages. Those that are missing come one by one, which takes
// ten times as long as to register them. Four threads get them in half the time, more do not.
void populate(guarded_range& range, std::uint64_t at, std::uint64_t bytes, std::uint32_t threads) {
  if constexpr (shared_range::hands_over) return;  // nothing is registered
  constexpr std::uint64_t at_once = 4 << 20;
  constexpr std::uint32_t useful = 4;
  if (bytes <= at_once) return;
  if (range.protect(at, bytes, host_access::read_write) != 0) return;  // add_host() will say so
  std::atomic<std::uint64_t> next{0};
  auto const work = [&] {
    // Relaxed: it only deals out the bytes.
    for (std::uint64_t first; (first = next.fetch_add(at_once, std::memory_order_relaxed)) < bytes;)
      range.populate(at + first, std::min(at_once, bytes - first));
  };
  in_threads(std::min(threads, useful), std::ref(work), std::ref(work));
}

}  // namespace

// Returns 0, 1: another plan is needed; or an error.
// `is_last`: it moves no further in this plan.
int address_space::move_chunk(quiet_lock& lock, object& o, std::size_t i, tier to, bool is_last) {
  auto const from = o.chunks[i].where;
  int result = 0;
  if (from == tier::device) leave_device(lock, o, i);
  if (from == tier::host) leave_host(lock, o, i);
  if (to == tier::away && is_last && o.is_caught()) give_up_at_host(lock, o, i);
  if (to == tier::device) result = enter_device(lock, o, i);
  if (to == tier::host) result = enter_host(lock, o, i);
  if (result == 0) transfers_.count(o, &mapping_statistics::moves);
  return result;
}

void address_space::leave_device(quiet_lock& lock, object& o, std::size_t i) {
  constexpr reason why{nullptr, &mapping_statistics::move_d2h_bytes};
  auto const blocks = o.blocks_of_chunk(i);
  // A refused launch may have left some for this memory.
  if (!o.is_read_only()) transfers_.wait_for_sends();
  if (o.protocol == coherence_protocol::batch) {
    if (o.is_at_device && o.is_changed) transfers_.fetch(o, blocks, why);
    o.is_at_device = o.is_changed = false;
  } else if (o.is_read_only()) {
    auto const bytes = o.bytes_of_chunk(i);
    o.file->absent.add(o.file->units_of(bytes.first, bytes.end));
  } else {
    keep_at_host(o, blocks);
  }
  // gather() has queued copies of these bytes and given the mutex back. No more come: the move is a
  // use that writes, and gather() waits for it.
  transfers_.fetches().synchronize();
  // First what may find no memory. The move keeps others from the chunk until its end.
  set_tier(o, i, tier::away);
  states_.forget_dirty(o, blocks);  // not before: the device would lack what the CPU has written
  lock.beside([&] { range_.remove_device(o.offset + o.bytes_of_chunk(i).first); });
}

int address_space::enter_device(quiet_lock& lock, object& o, std::size_t i) {
  std::uint64_t const at = o.offset + o.bytes_of_chunk(i).first, room = o.room_of_chunk(i);
  std::string refused;
  bool lacks_host_memory = false;
  auto const forgotten = tiers_.forgotten;
  lock.beside([&] {
    try {
      range_.add_device(at, room, room);
      guard_chunk(range_, settings_, o, i);
    } catch (device_error const& e) {
      refused = e.what();
    } catch (std::bad_alloc const&) {
      lacks_host_memory = true;
    }
  });
  if (lacks_host_memory) return lacks_memory();
  if (!refused.empty()) {
    if (tiers_.gets_back(forgotten))
      tiers_.is_short = true;
    else
      shrink_budget(tier::device, refused);
    return 1;
  }
  try {
    bool const is_sent = o.protocol == coherence_protocol::batch || o.is_read_only() ||
                         send_protected(o, o.blocks_of_chunk(i));
    if (is_sent) return set_tier(o, i, tier::device), 0;
    why_refused_ = no_mappings::text;
  } catch (std::bad_alloc const&) {
    static_cast<void>(lacks_memory());
  }
  transfers_.forget_sends(o, o.bytes_of_chunk(i));
  lock.beside([&] { range_.remove_device(at); });
  restore_single(o, o.blocks_of_chunk(i));
  return -ENOMEM;
}

// Protected first, sent then. Returns false if the system has no more mappings.
bool address_space::send_protected(object& o, block_run blocks) {
  auto const open = o.readable.within(blocks);
  for (auto const& run : open)
    if (range_.protect(o.begin_of(run), o.pages_of(run), host_access::read) != 0) return false;
  drop_partly_absent(o, blocks);
  send_chunk(o, blocks);
  for (auto const& run : open) states_.set_state(o, run, block_state::read_only);
  return true;
}

// Memory of the device that was just added has zeros, so only what is no hole is sent.
void address_space::send_chunk(object& o, block_run blocks) {
  block_runs some, present;
  some.add(blocks);
  for (auto const& run : o.present(some)) {
    auto const bytes = o.bytes_in(run);
    present.add({bytes.first, bytes.end});
  }
  auto const all = o.bytes_in(blocks);
  for (auto const& [first, end] : range_.host_data(o.offset + all.first, all.end - all.first)) {
    for (auto const& run : present.within({first - o.offset, end - o.offset})) {
      transfers_.queue_bytes(o, {run.first, run.end});
      transfers_.count_moved(o, {nullptr, &mapping_statistics::move_h2d_bytes},
                             &mapping_statistics::bytes_h2d, 0, run.end - run.first);
    }
  }
  transfers_.wait_for_sends();
}

void address_space::leave_host(quiet_lock& lock, object& o, std::size_t i) {
  auto const bytes = o.bytes_of_chunk(i);
  // First what may find no memory.
  if (o.is_read_only()) o.file->absent.add(o.file->units_of(bytes.first, bytes.end));
  set_tier(o, i, tier::away);
  lock.beside([&] { range_.remove_host(o.offset + bytes.first); });
}

// The device uses the CPU's memory, which has all bytes. If there is no memory for that, nothing
// has changed, but for blocks that count as written.
void address_space::use_at_host(object& o, std::size_t i) {
  auto const blocks = o.blocks_of_chunk(i);
  auto const bytes = o.bytes_of_chunk(i);
  if (o.is_read_only()) {
    auto absent = o.file->absent;
    absent.take(o.file->units_of(bytes.first, bytes.end));
    set_tier(o, i, tier::host);
    o.file->absent = std::move(absent);
    return;
  }
  if (o.protocol == coherence_protocol::batch) return set_tier(o, i, tier::host);
  // What the CPU wrote to them unseen is where it belongs.
  auto closed = o.readable, opened = o.readable;
  closed.take(blocks);
  opened.add(blocks);
  set_tier(o, i, tier::host);
  // Without a mapping for that they stay open, until a call uses them.
  bool const is_closed =
      range_.protect(o.begin_of(blocks), o.pages_of(blocks), host_access::none) == 0;
  o.readable = std::move(is_closed ? closed : opened);
  states_.fill(o, blocks, is_closed ? block_state::invalid : block_state::dirty);
}

// The device uses the CPU's memory from then on, so that has all bytes before.
int address_space::enter_host(quiet_lock& lock, object& o, std::size_t i) {
  auto const blocks = o.blocks_of_chunk(i);
  auto const bytes = o.bytes_of_chunk(i);
  bool const is_window = o.is_read_only();
  if (is_window) {
    if (int const error = o.file->look_for_end(bytes.end); error != 0) {
      note_error(o, bytes.first, error);
      return error;
    }
  } else if (o.lacks(blocks)) {
    int const error = fill(lock, o, o.file->units_of(bytes.first, bytes.end));
    if (error != 0 || o.lacks(blocks)) return error != 0 ? error : 1;
  }
  // The CPU may write to them unseen from here on, and the file has to know. If nobody writes, the
  // bytes are compared once.
  if (!is_window && o.is_caught()) o.file->changed.add(blocks);
  bool is_done = false;
  auto const forgotten = tiers_.forgotten;
  std::uint64_t const at = o.offset + bytes.first;
  auto const length = device_memory::rounded_up(bytes.end - bytes.first, device_memory::host_page);
  lock.beside([&] {
    if (!is_window) populate(range_, at, length, settings_.fill_threads);
    is_done = range_.add_host(at, length, !is_window);
  });
  if (!is_done) {
    if (!is_window) {  // first, as the note below may find no memory
      tiers_.keep(o, i);
      restore_single(o, blocks);
    }
    if (tiers_.gets_back(forgotten))
      tiers_.is_short = true;
    else
      shrink_budget(tier::host, "the system refused to register more of it for the device");
    return 1;
  }
  try {
    return use_at_host(o, i), 0;
  } catch (std::bad_alloc const&) {
    lock.beside([&] { range_.remove_host(at); });
    tiers_.keep(o, i);
    restore_single(o, blocks);
    return lacks_memory();
  }
}

}  // namespace gpufs::shared
