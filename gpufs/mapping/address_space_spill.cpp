// What launches have left and host_memory does not hold goes to files without a name: chunks of
// anonymous and scratch objects whose only memory is the CPU's side. Their units are absent then,
// as those of a file, and come back in the same way.
#include <gpufs/mapping/address_space.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::shared {

using device_memory::host_access;

namespace {

// One instruction may touch bytes of so many chunks: two operands, each across a border. None of
// them goes while the thread gets the others.
constexpr std::uint64_t kept_at_least = 4;

// The units of a chunk that have bytes at the CPU's side. Others are zeros, or absent already.
block_runs units_to_spill(object const& o, std::size_t i,
                          device_memory::shared_range const& range) {
  auto const& f = *o.file;
  auto const bytes = o.bytes_of_chunk(i);
  block_runs units;
  for (auto const& [first, end] : range.host_data(o.offset + bytes.first, bytes.end - bytes.first))
    units.add(f.units_of(first - o.offset, std::min(end - o.offset, o.bytes)));
  for (auto const& run : f.absent.within(f.units_of(bytes.first, bytes.end))) units.take(run);
  return units;
}

// Without the mutex. Returns 0 or the error. The memory is given back next: the bytes are on the
// disk before, as an error of the system's own write-back would come too late.
int write_units(object const& o, std::vector<block_run> const& units,
                device_memory::shared_range const& range) {
  auto const& f = *o.file;
  for (auto const& run : units) {
    auto const first = run.first * f.unit_bytes;
    auto const count = std::min(run.end * f.unit_bytes, o.bytes) - first;
    std::span const part(range.host_bytes(o.offset + first), count);
    if (int const error = f.spill_file->write(part, first); error != 0) return error;
  }
  return units.empty() ? 0 : f.spill_file->sync();
}

// What was spilled can be read still.
void stop_spilling(tier_account& tiers, std::vector<std::string>& notes,
                   std::string const& why) noexcept try {
  tiers.make_spill_file = nullptr;
  notes.push_back(fmt::format("{}; bytes stay in the host's memory, also beyond host_memory", why));
} catch (std::exception const&) {  // no memory for the note
}

}  // namespace

// Nothing: no chunk can go now.
std::optional<std::pair<object*, std::size_t>> address_space::coldest_kept(bool may_unpin) {
  std::optional<std::pair<object*, std::size_t>> coldest;
  std::uint64_t least = ~0ull;
  for (auto& [offset, o] : objects_) {
    if (!tiers_.can_spill(o) || o.is_going) continue;
    for (std::size_t i = 0; i < o.chunks.size(); ++i) {
      auto const& c = o.chunks[i];
      auto const blocks = o.blocks_of_chunk(i);
      if (!c.is_kept || c.touched >= least || c.touched + kept_at_least > tiers_.touches) continue;
      if (!can_move(o, blocks) || o.acquired.overlaps(blocks)) continue;
      if (!may_unpin && o.pinned.overlaps(o.pieces_of_chunk(i))) continue;
      least = c.touched;
      coldest = {&o, i};
    }
  }
  return coldest;
}

// Spills the coldest chunks until host_memory holds the others. One thread at a time does so.
// `may_unpin`: a GPU may wait for kernels. The service thread does not wait for these, as a kernel
// may wait for a CPU thread, and that for a fault.
void address_space::spill(quiet_lock& lock, bool may_unpin) noexcept {
  if (tiers_.make_spill_file == nullptr || tiers_.is_spilling || has_failed_) return;
  tiers_.is_spilling = true;
  try {
    while (tiers_.is_over() && tiers_.make_spill_file != nullptr) {
      auto const next = coldest_kept(may_unpin);
      if (!next) break;
      spill_chunk(lock, *next->first, next->second);
    }
  } catch (std::bad_alloc const&) {  // it is tried again
  } catch (std::exception const& e) {
    stop_spilling(tiers_, notes_, e.what());
  }
  tiers_.is_spilling = false;
  tell_changes();
}

// The object stays meanwhile, and nobody uses these blocks: a handler of a signal would wait for
// its thread.
void address_space::spill_chunk(quiet_lock& lock, object& o, std::size_t i) {
  auto& f = *o.file;
  auto const blocks = o.blocks_of_chunk(i);
  auto const bytes = o.bytes_of_chunk(i);
  if (f.spill_file == nullptr) f.spill_file = tiers_.make_spill_file();
  // Closed first: what the CPU writes from here on waits.
  for (auto const& run : o.readable.within(blocks)) {
    if (range_.protect(o.begin_of(run), o.pages_of(run), host_access::none) == 0) continue;
    restore_single(o, blocks);
    return stop_spilling(tiers_, notes_,
                         "spill_dir: the system has no more mappings; raise vm.max_map_count");
  }
  // Not before: the CPU may write to units that have no bytes yet. If memory runs out here or
  // later, a touch opens the blocks again.
  auto const units = units_to_spill(o, i, range_).runs();
  o.uses.push_back({blocks, true, spilling});
  struct end_of_use {
    address_space& space;
    object& o;
    ~end_of_use() {
      std::erase_if(o.uses, [](use const& u) { return u.call == spilling; });
      space.tell_changes();
    }
  } const end{*this, o};
  int error = 0;
  lock.beside([&] { error = write_units(o, units, range_); });
  if (error != 0) {
    restore_single(o, blocks);
    return stop_spilling(
        tiers_, notes_,
        fmt::format("spill_dir: a file there cannot be written: {}", std::strerror(-error)));
  }
  // If there is no memory for that, the bytes stay where they are. If there is none for the pins,
  // only the memory stays.
  give_to_file(o, i, units);
  auto const pinned = transfers_.forget_pins(o, o.pieces_of_chunk(i));
  lock.beside([&] {
    transfers_.unpin(o.offset, pinned);
    range_.drop_host(o.offset + bytes.first, bytes.end - bytes.first);
  });
}

// `written`: units that the file has now. Others of the chunk that are not absent are zeros. If
// memory runs out, nothing has changed.
void address_space::give_to_file(object& o, std::size_t i, std::vector<block_run> const& written) {
  auto& f = *o.file;
  auto const blocks = o.blocks_of_chunk(i);
  auto const bytes = o.bytes_of_chunk(i);
  auto const all = f.units_of(bytes.first, bytes.end);
  block_runs zeros;
  zeros.add(all);
  for (auto const& run : f.absent.within(all)) zeros.take(run);
  for (auto const& run : written) zeros.take(run);
  auto spilled = f.spilled, absent = f.absent;
  for (auto const& run : zeros.runs()) spilled.take(run);
  for (auto const& run : written) spilled.add(run);
  absent.add(all);
  states_.set_state(o, blocks, block_state::invalid);
  states_.forget_dirty(o, blocks);
  f.spilled = std::move(spilled);
  f.absent = std::move(absent);
  for (auto const& run : written) {
    auto const end = std::min(run.end * f.unit_bytes, o.bytes);
    transfers_.count(o, &mapping_statistics::spill_bytes, end - run.first * f.unit_bytes);
  }
  tiers_.give_up(o, i);
}

}  // namespace gpufs::shared
