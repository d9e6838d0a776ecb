// Bytes of files come to the device: ahead of calls, or when a call or a CPU thread needs them.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/stream_wait.hpp>
#include <gpufs/mapping/wait_until.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <thread>
#include <utility>

namespace gpufs::shared {

namespace {

constexpr std::size_t most_errors = 100;  // that an object keeps

fill_source source_of(file_side const& f, std::uint64_t unit) {
  if (f.spilled.contains(unit)) return fill_source::spill_file;
  if (f.begins_with == first_bytes::file || f.in_file.contains(unit)) return fill_source::file;
  return f.begins_with == first_bytes::zeros ? fill_source::zeros : fill_source::unwritten;
}

}  // namespace

void address_space::note_error(object& o, std::uint64_t offset, int error) noexcept try {
  auto& f = *o.file;
  why_refused_ = fmt::format("{}: offset {}: {}", o.name(), f.offset + offset,
                             error == -ESTALE ? "the file became shorter" : std::strerror(-error));
  if (f.errors.size() < most_errors) f.errors.push_back(why_refused_);
} catch (std::bad_alloc const&) {  // the error itself is told all the same
}

std::vector<fill_piece> address_space::pieces_to_fill(object& o, block_run units) {
  auto& f = *o.file;
  block_runs claimed;
  for (auto const& run : f.absent.within(units)) claimed.add(run);
  for (auto const& run : f.filling) claimed.take(run);
  std::uint64_t const at_once = std::max<std::uint64_t>(staging_piece::size / f.unit_bytes, 1);
  std::vector<fill_piece> pieces;
  for (auto const& run : claimed.runs()) {
    for (auto first = run.first; first < run.end;) {
      auto const begin = first * f.unit_bytes;
      auto const most = std::min({first + at_once, run.end, o.end_of_chunk(begin) / f.unit_bytes});
      auto const source = source_of(f, first);
      auto end = first + 1;
      while (end < most && source_of(f, end) == source) ++end;
      pieces.push_back({.units = {first, end},
                        .bytes = {begin, std::min(end * f.unit_bytes, o.bytes)},
                        .is_at_host = o.single.contains(begin / o.block_bytes),
                        .source = source});
      first = end;
    }
  }
  return pieces;
}

// Fills what no other thread fills. The object stays meanwhile. Returns 0, also if nobody may bring
// its bytes now, or the first error.
int address_space::fill(quiet_lock& lock, object& o, block_run units) {
  auto& f = *o.file;
  fill_job job{.pieces = pieces_to_fill(o, units)};
  // Else threads that try again and again would keep remap() from seeing an end of fills.
  if (job.pieces.empty() || f.stops.load(std::memory_order_relaxed)) return 0;
  if (reads_no_more(f)) return -ECANCELED;
  f.filling.reserve(f.filling.size() + job.pieces.size());
  // Nothing throws from here on until the end of all pieces, as others wait for that.
  for (auto const& p : job.pieces) f.filling.push_back(p.units);
  ++f.fills;
  auto const work = [&](file_lane& lane) { fill_pieces(o, job, lane); };
  // The service thread is one of the library's already. A fault needs one piece as a rule.
  bool const is_here = job.pieces.size() == 1 && std::this_thread::get_id() == service_.get_id();
  lock.without([&] {
    if (is_here)
      files_.in_this_thread(std::ref(work));
    else
      files_.in_lanes(job.pieces.size(), std::ref(work));
  });
  --f.fills;
  end_left_over(o, job);
  if (job.error != 0) why_refused_ = std::move(job.why);  // of this thread
  // A piece that failed here may have come by another thread. One that came may be dropped again.
  bool const is_whole =
      std::ranges::none_of(job.pieces, [&](auto const& p) { return f.absent.overlaps(p.units); });
  if (is_whole) return 0;
  if (reads_no_more(f)) return -ECANCELED;
  return f.stops.load(std::memory_order_relaxed) ? 0 : job.error;
}

// The process ends, and files are not read any more. What was spilled still is: destructors of
// static objects may use it.
bool address_space::reads_no_more(file_side const& f) const {
  return ends_process_.load(std::memory_order_relaxed) != 0 && !f.is_scratch;
}

// Nobody wants more bytes of the object.
bool address_space::is_stopped(file_side const& f) const {
  return f.stops.load(std::memory_order_relaxed) || reads_no_more(f);
}

// Pieces that no thread has begun: none had a lane, or the object goes. Pieces that have ended may
// be under way again, in another job.
void address_space::end_left_over(object& o, fill_job& job) {
  auto& f = *o.file;
  fill_piece const* first = nullptr;
  for (auto& p : job.pieces) {
    if (std::exchange(p.has_ended, true)) continue;
    std::erase(f.filling, p.units);
    if (first == nullptr) first = &p;
  }
  tell_changes();
  if (first == nullptr || job.error != 0 || is_stopped(f)) return;
  job.error = has_failed_ ? -EIO : -ENOMEM;
  note_error(o, first->bytes.first, job.error);
  job.why = std::move(why_refused_);
}

// In a thread of its own.
void address_space::fill_pieces(object& o, fill_job& job, file_lane& lane) {
  struct under_way {
    fill_piece* piece = nullptr;
    bool is_direct = false;
  };
  std::array<under_way, 2> fills;
  auto const end = [&](unsigned turn) {
    auto const fill = std::exchange(fills[turn], {});
    if (fill.piece == nullptr) return;
    int const error = wait_for_copies(lane.pieces[turn]);
    end_piece(o, job, *fill.piece, error, fill.is_direct);
  };
  for (unsigned turn = 0;; turn = 1 - turn) {
    end(turn);
    // Relaxed: the pieces were there before the threads.
    auto const number = job.next.fetch_add(1, std::memory_order_relaxed);
    if (number >= job.pieces.size() || is_stopped(*o.file)) break;
    auto& piece = job.pieces[number];
    bool is_direct = false;
    int const error = start_piece(o, piece, lane, lane.pieces[turn], is_direct);
    if (error == 0)
      fills[turn] = {&piece, is_direct};
    else
      end_piece(o, job, piece, error, false);
  }
  end(0);
  end(1);
}

int address_space::start_piece(object& o, fill_piece const& piece, file_lane& lane,
                               staging_piece& to, bool& is_direct) {
  try {
    return files_.start_read(o, piece, lane, to, is_direct);
  } catch (std::bad_alloc const&) {
    wait_for_end(lane.on);  // it may use the lane's memory
    return -ENOMEM;
  } catch (std::exception const&) {
    quiet_lock const lock(mutex_);
    fail();
    return -EIO;
  }
}

void address_space::end_piece(object& o, fill_job& job, fill_piece& piece, int error,
                              bool is_direct) {
  quiet_lock const lock(mutex_);
  auto& f = *o.file;
  if (error == 0) try {
      f.note_read(file_pages_of(piece.bytes));
      f.absent.take(piece.units);
    } catch (std::bad_alloc const&) {
      error = -ENOMEM;
    }
  if (error != 0) {
    note_error(o, piece.bytes.first, error);
    if (job.error == 0) job.why = std::move(why_refused_);
    if (job.error == 0) job.error = error;
  } else {
    auto const bytes = piece.bytes.end - piece.bytes.first;
    if (piece.is_at_host) tiers_.keep(o, std::size_t(piece.bytes.first / o.chunk_bytes));
    if (piece.source == fill_source::spill_file)
      transfers_.count(o, &mapping_statistics::spill_read_bytes, bytes);
    if (piece.source == fill_source::file)
      transfers_.count(o, &mapping_statistics::fill_bytes, bytes);
    if (piece.source == fill_source::unwritten)
      transfers_.count(o, &mapping_statistics::fill_bytes, piece.last_bytes(o.bytes));
    if (is_direct) transfers_.count(o, &mapping_statistics::direct_fill_bytes, bytes);
  }
  std::erase(f.filling, piece.units);
  piece.has_ended = true;
  tell_changes();
}

// Waits for what another thread does with the object, or fills what is absent. Returns 0: look
// again, the object may be gone; or an error.
int address_space::bring(quiet_lock& lock, object& o, block_run blocks) {
  auto& f = *o.file;
  auto const bytes = o.bytes_in(blocks);
  auto const units = f.units_of(bytes.first, bytes.end);
  bool const stops = f.stops.load(std::memory_order_relaxed);
  if (!stops && !pieces_to_fill(o, units).empty()) return fill(lock, o, units);
  auto const offset = o.offset, id = o.id;
  bool const is_filling = f.is_filling(units);
  wait_until(lock, [&] {
    auto* const again = object_at(offset);
    if (again == nullptr || again->id != id) return true;
    if (stops) return !again->file->stops.load(std::memory_order_relaxed);
    return is_filling ? !again->file->is_filling(units) : !keeps_writers_out(*again);
  });
  return 0;
}

// In the thread that map() starts for an eager object. It ends before the object goes.
void address_space::fill_eagerly(object& o) {
  quiet_lock lock(mutex_);
  // Errors come again where somebody needs the bytes. What is not in device memory is read when a
  // call needs it.
  for (auto const& run : o.on_both_sides(o.all())) {
    // fill() gives the mutex back. What moves meanwhile may leave the device.
    if (is_stopped(*o.file) || o.is_moving()) return;
    auto const there = o.on_both_sides(run);
    if (there.empty()) continue;
    auto const bytes = o.bytes_in(there.front());
    static_cast<void>(fill(lock, o, o.file->units_of(bytes.first, bytes.end)));
  }
}

}  // namespace gpufs::shared
