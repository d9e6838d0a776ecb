// An object uses the same bytes of its file for something else.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/at_end.hpp>
#include <gpufs/mapping/device_scope.hpp>
#include <gpufs/mapping/guard_chunk.hpp>
#include <gpufs/mapping/wait_until.hpp>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <utility>

namespace gpufs::shared {

using device_memory::host_access;

// The bytes are read anew: what the device has need not be what the file has. What was written is
// made durable first. A later sync() could not write it again if the disk has lost it.
// Another thread may remap the object while this one opens the file: `now` keeps the former one.
int address_space::remap(object& o, access use, file_opener const& open) {
  if (o.file == nullptr || o.file->is_scratch) return -EINVAL;
  if (in_forked_child()) return -EIO;
  auto& f = *o.file;
  auto const now = [&] {
    quiet_lock const lock(mutex_);
    return file_in_use{f.file, f.offset, f.use};
  }();
  if (use == now.use) return write_back(o, {0, o.bytes}, false);
  if (o.is_managed) return -EOPNOTSUPP;
  auto const what = open(now, o.bytes, use);
  if (int const error = write_back(o, {0, o.bytes}, true); error != 0) return error;
  quiet_lock lock(mutex_);
  wait_until(lock, [&] { return !f.is_busy; });
  // From here on until the end, nobody brings bytes, moves chunks or begins a call that uses the
  // object. Calls that are not launched yet may be those of a thread that waits for that.
  take_ended_calls();
  if (std::ranges::any_of(o.uses, is_of_call)) return -EBUSY;
  bool is_busy = false;
  at_end const end{[&] {
    if (is_busy) f.is_busy = f.is_still = false;
    f.stops.store(false, std::memory_order_relaxed);
    tell_changes();
  }};
  quiet_lock::closed const quiet{lock};  // a handler's touch would wait for this thread
  stop_filling(lock, o);
  wait_until(lock, [&] { return !f.is_busy && f.fills == 0 && !o.is_moving(); });
  // Another thread may have written bytes, or written them back, meanwhile.
  if (!o.uses.empty() || !f.changed.empty() || !f.undurable.empty()) return -EBUSY;
  if (has_failed_) return -EIO;
  if (f.loss != 0) return f.loss;
  f.is_busy = f.is_still = is_busy = true;  // nobody brings bytes, or uses it for writing
  f.still = o.all();
  f.stops.store(true, std::memory_order_relaxed);  // leave_file_windows() may have ended meanwhile
  return use_anew(lock, o, what);
}

// Returns false, and leaves the CPU's side as it was, if the system has no more mappings or
// descriptors. Throws device_error if that fails as well.
bool address_space::use_host_side(object& o, file_to_map const& what) {
  bool const was_read_only = o.is_read_only(), is_read_only = what.use == access::read;
  auto const set = [&](bool is_file, backing_file const& file) {
    range_.set_host_side(o.offset, o.bytes, is_file ? file.descriptor() : -1, o.file->offset);
  };
  if (was_read_only || is_read_only) try {
      set(is_read_only, *what.file);
    } catch (std::exception const&) {
      if (was_read_only) set(true, *o.file->file);  // one of two mappings may be another by now
      return false;
    }
  if (is_read_only || states_.protect(o, o.all(), host_access::none) == 0) return true;
  // Else the CPU could read bytes that are not there yet.
  if (was_read_only) set(true, *o.file->file);
  return false;
}

// First what may find no memory. The object is as it was then, but for chunks that have left the
// host.
int address_space::use_anew(quiet_lock& lock, object& o, file_to_map const& what) try {
  device_scope const here(device_);
  auto& f = *o.file;
  bool const is_read_only = what.use == access::read;
  {
    auto const pinned = transfers_.forget_all_pins(o);
    at_end const unpin{[&] {
      lock.beside(
          [&] { pinned.for_each([&](block_run pieces) { transfers_.unpin(o.offset, pieces); }); });
    }};
    for (std::size_t i = 0; i < o.chunks.size(); ++i)
      if (o.chunks[i].where == tier::host) leave_host(lock, o, i);
  }
  block_runs absent, readable;
  absent.add(f.units_of(0, o.bytes));
  if (is_read_only) readable.add(o.all());
  bool const has_hashes = !is_read_only && settings_.detect_writes != write_detection::all;
  buffer<page_hash> known;
  try {
    if (has_hashes && f.known.size() == 0) known = files_.new_hashes(o.bytes);
  } catch (device_error const&) {  // as map() says it
    return -ENOMEM;
  }
  if (!use_host_side(o, what)) return -ENOMEM;
  f.file = what.file;
  f.use = what.use;
  for (std::size_t i = 0; i < o.chunks.size(); ++i)
    if (o.chunks[i].where == tier::device && !guard_chunk(range_, settings_, o, i)) fail();
  f.begins_with = what.begins_with;
  f.absent = std::move(absent);
  f.in_file = f.undurable = f.reread = {};
  f.seen = settled_version(*f.file);
  if (has_hashes && known.size() == 0)
    f.known.fill_zero();
  else
    std::swap(f.known, known);
  o.readable = std::move(readable);
  states_.fill(o, o.all(), is_read_only ? block_state::read_only : block_state::invalid);
  lock.beside([&] { known = {}; });
  return 0;
} catch (std::bad_alloc const&) {
  return -ENOMEM;
} catch (std::exception const&) {
  fail();
  return -EIO;
}

}  // namespace gpufs::shared
