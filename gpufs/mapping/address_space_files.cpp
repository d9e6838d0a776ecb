// Objects with a file behind them: made, looked at again, given up.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/at_end.hpp>
#include <gpufs/mapping/device_scope.hpp>
#include <gpufs/mapping/guard.hpp>
#include <gpufs/mapping/wait_until.hpp>
#include <gpufs/shared_memory_error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include <pthread.h>

namespace gpufs::shared {

using device_memory::host_access;

namespace {

// In the process's last moments. `unwritten` asks what is left, and may find no memory.
template <class Unwritten>
void say_unwritten(object const& o, int error, Unwritten const& unwritten) noexcept try {
  if (error == 0 || unwritten().empty()) return;
  auto const text =
      fmt::format("gpufs: {}: what was changed is not written back, as the process ends: {}\n",
                  o.name(), std::strerror(-error));
  say(text.c_str());
} catch (std::bad_alloc const&) {
  say("gpufs: what was changed of a shared object is not written back, as the process ends\n");
}

}  // namespace

object& address_space::map_file(file_to_map const& what, map_options const& options) {
  refuse_in_forked_child();
  auto const protocol = protocol_for(options);
  auto const block = options.block.value_or(settings_.coherence_block);
  std::uint64_t const block_bytes = protocol == coherence_protocol::lazy ? staging_piece::size * 2
                                    : block == block_automatic ? automatic_block(what.bytes)
                                                               : block;
  std::uint64_t key = 0;
  draw({&key, 1});
  std::unique_ptr<file_side> file(
      new file_side{.file = what.file,
                    .offset = what.offset,
                    .use = what.use,
                    .is_scratch = what.is_scratch,
                    .unit_bytes = unit_for(block_bytes, staging_piece::size),
                    .begins_with = what.begins_with,
                    .unwritten_key = key});
  object& o = add(what.bytes, options, std::move(file));
  // The file keeps what it has: nobody has written to the object.
  bool is_made = false;
  at_end const undo{[&] {
    if (!is_made) static_cast<void>(remove(o, false));
  }};
  if (what.prepare) what.prepare();
  auto const seen = settled_version(*what.file);
  if (o.is_managed) fill_managed(o);
  quiet_lock const lock(mutex_);
  is_made = true;  // nothing below throws
  o.is_going = false;
  o.file->seen = seen;
  bool const reads_end = what.begins_with == first_bytes::unwritten;
  if (what.begins_with != first_bytes::file)
    transfers_.count(o, &mapping_statistics::fills_skipped,
                     what.bytes - (reads_end ? what.bytes % sizeof(std::uint64_t) : 0));
  if (!what.is_eager || what.begins_with != first_bytes::file || o.is_managed) return o;
  try {
    o.file->filler = std::thread([this, &o] {
      ::pthread_setname_np(::pthread_self(), "gpufs-fill");
      try {
        fill_eagerly(o);
      } catch (std::bad_alloc const&) {  // a call brings the bytes
      }
    });
  } catch (std::exception const&) {  // no thread, or no memory for one: a call brings the bytes
  }
  return o;
}

// Other threads may unmap objects meanwhile, as programs do that end in the middle of their work.
// Each object is looked up anew. One that goes is written back by the thread that unmaps it. That
// may be this thread, in a signal handler.
void address_space::end_with_process() noexcept try {
  if (in_forked_child()) return;
  auto const self = ::gettid();
  {
    quiet_lock const lock(mutex_);
    ends_process_.store(self, std::memory_order_relaxed);
    tell_changes();  // write_back() waits for less now
  }
  for (std::uint64_t next = 0;;) {
    quiet_lock lock(mutex_);
    auto at = objects_.lower_bound(next);
    while (at != objects_.end() && at->second.file == nullptr) ++at;
    if (at == objects_.end()) return;
    object& o = at->second;
    next = o.offset + 1;
    if (o.is_going) {
      wait_until(lock, [&, offset = o.offset, id = o.id] {
        auto* const now = object_at(offset);
        if (now == nullptr || now->id != id || now->file == nullptr) return true;
        return now->file->saver == 0 || now->file->saver == self;
      });
      continue;
    }
    ++o.file->stays;
    at_end const end{[&] {
      --o.file->stays;
      tell_changes();
    }};
    join_filler(lock, o);
    wait_until(lock, [&] { return o.file->fills == 0; });
    lock.without([&] {
      say_unwritten(o, write_back(o, {0, o.bytes}, false), [&] { return unwritten(o); });
    });
  }
} catch (std::exception const&) {
  say("gpufs: shared objects are not all written back: no host memory left as the process ends\n");
}

int address_space::refresh(object& o) {
  if (in_forked_child()) return -EIO;
  if (o.is_managed && o.file != nullptr && o.file->is_written_back()) return -EOPNOTSUPP;
  return drop(o, false);
}

int address_space::discard(object& o) {
  if (in_forked_child()) return -EIO;
  return drop(o, true);
}

// The device has pinned pages of the file. After truncate(2) they are not the file's any more, so
// it lets go of them. As in remap(), nobody moves chunks meanwhile, or begins a call that uses
// them.
void address_space::leave_file_windows(quiet_lock& lock, object& o) {
  auto& f = *o.file;
  f.stops.store(true, std::memory_order_relaxed);
  f.is_busy = true;
  at_end const end{[&] {
    f.is_busy = false;
    f.stops.store(false, std::memory_order_relaxed);
    tell_changes();
  }};
  for (std::size_t i = 0; i < o.chunks.size(); ++i)
    if (o.chunks[i].where == tier::host) leave_host(lock, o, i);
}

// The device lacks bytes of the file from now on, and the CPU's side, too. `also_changed`: of the
// whole object, else of units that nobody has changed, if others have changed the file.
int address_space::drop(object& o, bool also_changed) try {
  if (o.file == nullptr || (o.file->is_scratch && !also_changed)) return 0;
  auto& f = *o.file;
  quiet_lock lock(mutex_);
  if (f.file == nullptr) return 0;
  wait_until(lock, [&] { return !f.is_busy && f.filling.empty() && !o.is_moving(); });
  if (!o.uses.empty()) return -EBUSY;
  if (has_failed_) return -EIO;
  try {
    device_scope const here(device_);
    transfers_.wait_for_sends();  // they would land on bytes of the file that come next
  } catch (std::bad_alloc const&) {
    throw;
  } catch (std::exception const&) {
    fail();
    return -EIO;
  }
  file_version now;
  if (int const error = f.file->version(now); error != 0) return error;
  if (now.size < f.offset + o.bytes) {
    note_error(o, 0, -ESTALE);
    return -ESTALE;
  }
  if (!also_changed && f.seen == now) return 0;
  if (o.shows_file()) leave_file_windows(lock, o);
  auto const seen = settled_version(*f.file);
  if (int const error = drop_bytes(o, also_changed); error != 0) return error;
  // Where blocks were changed, the object has what the file had before.
  f.seen = f.changed.empty() ? seen : std::nullopt;
  return o.is_managed ? fill(lock, o, f.units_of(0, o.bytes)) : 0;
} catch (std::bad_alloc const&) {
  return -ENOMEM;
}

// Returns 0, -ENOMEM or -EIO. If memory or mappings run out, nothing has changed but for blocks
// that are closed: a touch opens them.
int address_space::drop_bytes(object& o, bool also_changed) {
  auto& f = *o.file;
  block_runs dropped;
  dropped.add(f.units_of(0, o.bytes));
  if (!also_changed) {
    for (auto const& run : f.changed.runs()) {
      auto const bytes = o.bytes_in(run);
      dropped.take(f.units_of(bytes.first, bytes.end));
    }
  }
  auto absent = f.absent, readable = o.readable;
  std::vector<block_run> closed;
  for (auto const& run : dropped.runs()) {
    absent.add(run);
    if (o.is_read_only() || o.is_managed) continue;
    // The whole blocks of these units.
    auto const blocks =
        o.blocks_of(run.first * f.unit_bytes,
                    std::min(run.end * f.unit_bytes, o.bytes) - run.first * f.unit_bytes);
    readable.take(blocks);
    closed.push_back(blocks);
  }
  bool const is_closed = std::ranges::all_of(
      closed, [&](block_run blocks) { return states_.protect(o, blocks, host_access::none) == 0; });
  if (!is_closed) {
    if (int const error = close_all(o, also_changed); error != 0) return error;
    readable = {};
    closed.assign(1, o.all());
  }
  // Nothing below needs memory.
  if (also_changed) {
    states_.forget_dirty(o, o.all());
    f.changed = f.refused = f.spilled = {};
    f.loss = 0;
  }
  if (f.begins_with == first_bytes::zeros && !f.is_scratch) f.begins_with = first_bytes::file;
  f.absent = std::move(absent);
  o.readable = std::move(readable);
  for (auto const& blocks : closed) states_.fill(o, blocks, block_state::invalid);
  return 0;
}

std::vector<std::string> address_space::errors(object const& o) const {
  if (in_forked_child()) return {};
  quiet_lock const lock(mutex_);
  return o.file == nullptr ? std::vector<std::string>{} : o.file->errors;
}

std::vector<byte_run> address_space::unwritten(object const& o) const {
  if (in_forked_child()) return {};
  quiet_lock const lock(mutex_);
  std::vector<byte_run> all;
  if (o.file == nullptr || !o.file->is_written_back()) return all;
  if (o.is_managed) return {{0, o.bytes}};  // nobody sees what is written
  auto const add = [&](block_run r) { all.push_back(o.bytes_in(r)); };
  block_runs others;
  for (auto const& run : o.file->changed.runs()) others.add(run);
  for (auto const& run : o.file->refused.runs()) {
    add(run);
    others.take(run);
  }
  for (auto const& run : others.runs()) add(run);
  return all;
}

}  // namespace gpufs::shared
