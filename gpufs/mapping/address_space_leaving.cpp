// What the CPU's side keeps of a chunk that leaves the device or the host, and what it gives up.
#include <gpufs/device/memory.hpp>
#include <gpufs/mapping/address_space.hpp>

#include <algorithm>
#include <vector>

namespace gpufs::shared {

using device_memory::host_access;

namespace {

// The whole units of some blocks that the file has as well.
block_runs clean_units(object const& o, block_runs some) {
  auto const& f = *o.file;
  auto const all = some.runs();
  for (auto const& run : all)
    for (auto const& changed : f.changed.within(run)) some.take(changed);
  block_runs units;
  for (auto const& run : some.runs()) {
    auto const bytes = o.bytes_in(run);
    units.add({(bytes.first + f.unit_bytes - 1) / f.unit_bytes,
               bytes.end == o.bytes ? f.units_of(0, o.bytes).end : bytes.end / f.unit_bytes});
  }
  return units;
}

// A new file has its length. So what nobody has written is zeros there, too. If memory runs out
// between the two, the file has units that are not absent, which does no harm.
void give_up(file_side& f, block_run units) {
  if (f.begins_with == first_bytes::zeros) f.in_file.add(units);
  f.absent.add(units);
}

}  // namespace

// Units of which the device has a part of a block. Nobody has changed that.
void address_space::drop_partly_absent(object& o, block_run blocks) {
  if (o.file == nullptr) return;
  auto& f = *o.file;
  auto const all = o.bytes_in(blocks);
  for (auto const& units : f.absent.within(f.units_of(all.first, all.end))) {
    auto const first = units.first * f.unit_bytes;
    auto const bytes =
        o.bytes_in(o.blocks_of(first, std::min(units.end * f.unit_bytes, o.bytes) - first));
    f.absent.add(f.units_of(bytes.first, bytes.end));
  }
}

// The CPU's side gets what only the device has. What the file has as well is given up.
void address_space::keep_at_host(object& o, block_run blocks) {
  constexpr reason why{nullptr, &mapping_statistics::move_d2h_bytes};
  drop_partly_absent(o, blocks);
  block_runs missing;
  missing.add(blocks);
  for (auto const& run : o.readable.within(blocks)) missing.take(run);
  if (o.is_caught())
    for (auto const& units : clean_units(o, missing).runs()) give_up(*o.file, units);
  for (auto const& run : missing.runs()) {
    block_runs some;
    some.add(run);
    for (auto const& present : o.present(some)) transfers_.fetch(o, present, why);
  }
  // They stay invalid: the first touch opens them. Others are dirty or may be read, as before.
}

// The chunk is away, and the CPU's side needs no memory for what the file has as well. It is closed
// first and given back then. The move is a use of the chunk: nobody opens or fills it meanwhile.
void address_space::give_up_at_host(quiet_lock& lock, object& o, std::size_t i) {
  auto& f = *o.file;
  auto const bytes_of = [&](block_run units) {
    return byte_run{units.first * f.unit_bytes, std::min(units.end * f.unit_bytes, o.bytes)};
  };
  auto const all = o.bytes_of_chunk(i);
  if (range_.host_data(o.offset + all.first, all.end - all.first).empty()) return;
  block_runs some;
  some.add(o.blocks_of_chunk(i));
  for (auto const& run : o.acquired.within(o.blocks_of_chunk(i))) some.take(run);
  for (auto const& units : clean_units(o, some).runs()) {
    auto const bytes = bytes_of(units);
    auto const blocks = o.blocks_of(bytes.first, bytes.end - bytes.first);
    bool const is_closed = std::ranges::all_of(o.readable.within(blocks), [&](block_run run) {
      return range_.protect(o.begin_of(run), o.pages_of(run), host_access::none) == 0;
    });
    if (!is_closed) {  // the system has no more mappings
      restore_single(o, blocks);
      continue;
    }
    states_.set_state(o, blocks, block_state::invalid);  // first: they are closed
    give_up(f, units);
  }
  auto const given = f.absent.within(f.units_of(all.first, all.end));
  if (given.empty()) return;
  auto const pinned = transfers_.forget_pins(o, o.pieces_of_chunk(i));
  lock.beside([&] {
    transfers_.unpin(o.offset, pinned);
    for (auto const& units : given) {
      auto const bytes = bytes_of(units);
      range_.drop_host(o.offset + bytes.first, bytes.end - bytes.first);
    }
  });
}

}  // namespace gpufs::shared
