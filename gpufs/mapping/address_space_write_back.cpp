// What was changed goes to the files, by pages.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/merge_page.hpp>
#include <gpufs/mapping/stream_wait.hpp>
#include <gpufs/mapping/wait_until.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

namespace gpufs::shared {

using device_memory::host_access;

namespace {

block_runs single_within(object const& o, block_run r) {
  block_runs found;
  for (auto const& run : o.single.within(r)) found.add(run);
  return found;
}

// What is absent could not be read, and is not written over.
void count_all_as_changed(object& o, block_run blocks) {
  block_runs some;
  some.add(blocks);
  for (auto const& run : o.present(some)) o.file->changed.add(run);
}

}  // namespace

/// What a file's side knows of written pages.
struct address_space::written_pages {
  block_runs undurable, in_file;
};

// As if all pages of the pieces were written. Made before they are, since memory may run out then.
address_space::written_pages address_space::all_written(file_side const& f,
                                                        std::vector<write_piece> const& pieces) {
  written_pages all{f.undurable, f.in_file};
  for (auto const& p : pieces) {
    all.undurable.add(file_pages_of(p.bytes));
    if (f.begins_with == first_bytes::unwritten)
      all.in_file.add(f.units_of(p.bytes.first, p.bytes.end));
  }
  return all;
}

// Calls that would write to the object wait while it is written back, and while that waits for
// other calls. Not if it waits for a call that is not launched yet: the thread that has released it
// may release others before. The CPU waits while its blocks are written only (object::is_still()):
// a kernel may wait for what it does elsewhere.
bool address_space::keeps_writers_out(object const& o) const {
  if (o.file == nullptr || !o.file->is_busy) return false;
  return o.file->is_still || std::ranges::none_of(o.uses, [this](use const& u) {
           return u.writes && !ending_.contains(std::int64_t(u.call));
         });
}

// Nobody writes to these blocks meanwhile: calls wait while it is busy, CPU threads while it is
// still. What the CPU has written is sent to the device first. There hashes find the pages that
// differ.
int address_space::write_back(object& o, byte_run what, bool makes_durable) try {
  if (in_forked_child()) return -EIO;
  if (o.file == nullptr || o.file->is_scratch) return 0;
  auto& f = *o.file;
  auto const blocks = o.blocks_of(what.first, what.end - what.first);
  quiet_lock lock(mutex_);
  wait_until(lock, [&] { return !f.is_busy || !f.is_written_back(); });
  if (!f.is_written_back()) return 0;
  f.is_busy = true;  // first, as others may launch on and on
  struct end_of_work {
    address_space& space;
    file_side& f;
    ~end_of_work() {
      f.is_busy = f.is_still = false;
      space.tell_changes();
    }
  } const end{*this, f};
  wait_until(lock, [&] { return has_failed_ || !may_be_written(o, blocks); });
  f.is_still = true;
  f.still = blocks;
  std::vector<write_piece> pieces;
  try {
    auto const sent = has_failed_ ? block_run{0, 0} : blocks;
    if (o.is_managed) count_all_as_changed(o, sent);
    if (!close_written(o, sent)) {
      note_error(o, what.first, -ENOMEM);
      return -ENOMEM;
    }
    transfers_.wait_for_sends();
    pieces = pieces_to_write(o, sent);
  } catch (std::bad_alloc const&) {
    throw;
  } catch (std::exception const&) {
    fail();
  }
  auto at_most = all_written(f, pieces);
  std::atomic<std::size_t> next{0};
  auto const work = [&](file_lane& lane) {
    // Relaxed: the pieces were there before the threads.
    for (auto i = next.fetch_add(1, std::memory_order_relaxed); i < pieces.size();
         i = next.fetch_add(1, std::memory_order_relaxed))
      write_pages(o, pieces[i], lane);
  };
  lock.beside([&] {  // a handler's store would wait for this thread
    if (!pieces.empty()) files_.in_lanes(pieces.size(), std::ref(work));
  });
  int const error =
      has_failed_ ? write_from_host(o, blocks) : end_write_back(o, pieces, std::move(at_most));
  return error == 0 && makes_durable ? make_durable(lock, o) : error;
} catch (std::bad_alloc const&) {
  return -ENOMEM;
}

// What the OS had not written when it says an error may be lost, whatever it says next time. These
// pages differ from all that the file may have, until they are written again. Those that have left
// memory cannot be: the OS may by now read old bytes in their place. A sync that is interrupted has
// lost nothing.
int address_space::make_durable(quiet_lock& lock, object& o) {
  auto& f = *o.file;
  f.is_still = false;  // the pages are written
  tell_changes();
  int error = 0;
  lock.without([&] { error = f.file->sync(); });
  if (error == -EINTR) return error;
  auto const pages = std::exchange(f.undurable, {});
  auto const reread = std::exchange(f.reread, {});
  if (error == 0) return f.loss;
  int const before = std::exchange(f.loss, error);  // stays so if memory runs out below
  block_runs blocks;
  for (auto const& run : pages.runs()) {
    blocks.add(o.blocks_of(run.first * file_page, (run.end - run.first) * file_page));
    if (f.known.size() == 0) continue;
    std::vector<page_hash> const unlike(run.end - run.first, page_hash{~0ull, ~0ull});
    try {
      f.known.copy_from_host(unlike.data(), unlike.size(), run.first);
    } catch (device_error const&) {
      fail();
    }
  }
  for (auto const& run : o.present(blocks)) {
    f.changed.add(run);
    f.refused.add(run);
    blocks.take(run);
  }
  if (blocks.empty() && reread.empty()) f.loss = before;
  note_error(o, 0, error);
  return error;
}

// In a thread of its own.
void address_space::write_pages(object& o, write_piece& piece, file_lane& lane) {
  try {
    files_.write_changed(o, piece, lane);
  } catch (std::bad_alloc const&) {
    wait_for_end(lane.on);  // it may use the lane's memory
    piece.error = -ENOMEM;
  } catch (std::exception const&) {
    piece.error = -EIO;
    quiet_lock const lock(mutex_);
    fail();
  }
}

std::vector<write_piece> address_space::pieces_to_write(object& o, block_run blocks) {
  auto& f = *o.file;
  std::vector<write_piece> pieces;
  for (auto const& run : f.changed.within(blocks)) {
    auto const all = o.bytes_in(run);
    for (auto first = all.first; first < all.end;) {
      auto const end = std::min({first + staging_piece::size, all.end, o.end_of_chunk(first)});
      // -ENOMEM if no thread takes it.
      pieces.push_back({.bytes = {first, end},
                        .is_at_host = o.single.contains(first / o.block_bytes),
                        .error = -ENOMEM});
      first = end;
    }
  }
  return pieces;
}

// Returns the first error. What was not written counts as changed still, also if memory runs out.
int address_space::end_write_back(object& o, std::vector<write_piece> const& pieces,
                                  written_pages at_most) try {
  auto& f = *o.file;
  auto changed = f.changed, refused = f.refused, undurable = f.undurable, in_file = f.in_file;
  auto const blocks_of = [&](write_piece const& p) {
    return o.blocks_of(p.bytes.first, p.bytes.end - p.bytes.first);
  };
  for (auto const& p : pieces) changed.take(blocks_of(p));
  for (auto const& p : pieces) {
    for (auto const& run : p.written) {
      undurable.add(run);
      // Words that say "unwritten" would come in place of what was written, if units were given up.
      if (f.begins_with == first_bytes::unwritten)
        in_file.add(f.units_of(run.first * file_page, std::min(run.end * file_page, o.bytes)));
    }
    if (p.error == 0) continue;
    changed.add(blocks_of(p));
    refused.add(blocks_of(p));
  }
  for (auto const& p : pieces)
    if (!changed.overlaps(blocks_of(p))) refused.take(blocks_of(p));
  f.changed = std::move(changed);
  f.refused = std::move(refused);
  f.undurable = std::move(undurable);
  f.in_file = std::move(in_file);
  int error = 0;
  for (auto const& p : pieces) {
    for (auto const& run : p.written)
      transfers_.count(o, &mapping_statistics::writeback_pages, run.end - run.first);
    transfers_.count(o, &mapping_statistics::writeback_bytes, p.written_bytes);
    if (!p.is_at_host) transfers_.count(o, &mapping_statistics::bytes_d2h, p.written_bytes);
    transfers_.count(o, &mapping_statistics::pages_unchanged, p.unchanged_pages);
    transfers_.count(o, &mapping_statistics::merge_read_bytes, p.merged_bytes);
    if (p.written_bytes != 0) f.seen.reset();  // others may have written as well
    if (p.error == 0) continue;
    if (error == 0) error = p.error;
    note_error(o, p.bytes.first, p.error);
  }
  return error;
} catch (std::bad_alloc const&) {
  auto& f = *o.file;
  f.undurable = std::move(at_most.undurable);
  // Others may have given up units meanwhile that begin with zeros.
  if (f.begins_with == first_bytes::unwritten) f.in_file = std::move(at_most.in_file);
  f.seen.reset();
  return -ENOMEM;
}

// The device has failed. What the CPU's side has as well can be saved, as a whole.
int address_space::write_from_host(object& o, block_run blocks) {
  auto& f = *o.file;
  std::uint64_t lost = 0;
  for (auto const& run : f.changed.within(blocks)) {
    block_runs gone;
    gone.add(run);
    block_runs at_host;
    for (auto const& saved : o.readable.within(run)) at_host.add(saved);
    for (auto const& saved : o.present(single_within(o, run))) at_host.add(saved);
    for (auto const& saved : at_host.runs()) {
      auto const bytes = o.bytes_in(saved);
      int const error = write_bytes(f, range_.host_bytes(o.offset + bytes.first), bytes);
      if (error == 0)
        gone.take(saved);
      else
        note_error(o, bytes.first, error);
    }
    for (auto const& g : gone.runs()) lost += (o.bytes_of(g) + file_page - 1) / file_page;
  }
  if (lost != 0) note_error(o, 0, -EIO);
  return -EIO;
}

}  // namespace gpufs::shared
