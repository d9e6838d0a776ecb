// Chunks of an object: they come, are in a tier, and go.
#include <gpufs/mapping/address_space.hpp>
#include <gpufs/mapping/guard_chunk.hpp>

#include <algorithm>
#include <utility>

namespace gpufs::shared {

using device_memory::shared_range;

// The front of an object gets what is left of device memory.
void address_space::set_up_chunks(object& o) {
  // A lazy object has one block, of any size. Units of files are whole in a chunk.
  std::uint64_t const block = o.protocol == coherence_protocol::lazy ? 0 : o.block_bytes;
  std::uint64_t const unit = o.file == nullptr ? 0 : o.file->unit_bytes;
  std::uint64_t const whole =
      device_memory::rounded_up(o.bytes, std::max({shared_range::granularity, block, unit}));
  std::uint64_t const chosen =
      settings_.chunk_size == chunk_automatic ? 64ull << 20 : settings_.chunk_size;
  o.chunk_bytes =
      o.protocol == coherence_protocol::rolling ? std::max(chosen, o.block_bytes) : whole;
  o.chunks.resize((o.bytes + o.chunk_bytes - 1) / o.chunk_bytes);
  for (std::size_t i = 0; i < o.chunks.size(); ++i) {
    ++tiers_.single_chunks;
    tiers_.bytes[std::size_t(tier::away)] += o.room_of_chunk(i);
  }
  o.single.add(o.all());
  o.away.add(o.all());
  ++tiers_.changes;
  if (tiers_.is_placing) return;  // the room that it finds may be for chunks under way
  bool const is_zeros = o.file == nullptr || o.file->begins_with == first_bytes::zeros;
  for (std::size_t i = 0; i < o.chunks.size(); ++i) {
    std::uint64_t const room = o.room_of_chunk(i), held = tiers_.in(tier::device);
    if (held > tiers_.budgets.device || room > tiers_.budgets.device - held) return;
    // Behind the end of a file there are zeros.
    std::uint64_t const tail = i + 1 == o.chunks.size() ? shared_range::granularity : 0;
    try {
      range_.add_device(o.offset + o.bytes_of_chunk(i).first, room, is_zeros ? room : tail);
      guard_chunk(range_, settings_, o, i);
    } catch (device_error const& e) {
      // Memory that others are giving back, or getting, is not counted right.
      if (tiers_.forgetting == 0) shrink_budget(tier::device, e.what());
      return;  // it is away until a launch needs it
    }
    set_tier(o, i, tier::device);
  }
}

// If memory runs out, nothing has changed.
void address_space::set_tier(object& o, std::size_t i, tier to) {
  auto& c = o.chunks[i];
  std::uint64_t const room = o.room_of_chunk(i);
  auto const blocks = o.blocks_of_chunk(i);
  auto single = o.single, away = o.away;
  if (to == tier::device)
    single.take(blocks);
  else
    single.add(blocks);
  if (to == tier::away)
    away.add(blocks);
  else
    away.take(blocks);
  o.single = std::move(single);
  o.away = std::move(away);
  tiers_.bytes[std::size_t(c.where)] -= room;
  tiers_.bytes[std::size_t(to)] += room;
  tiers_.single_chunks += to == tier::device ? 0 : 1;
  tiers_.single_chunks -= c.where == tier::device ? 0 : 1;
  c.where = to;
  tiers_.give_up(o, i);
  tiers_.keep(o, i);
}

// The object goes, and its memory with it.
void address_space::forget_chunks(object& o) {
  for (std::size_t i = 0; i < o.chunks.size(); ++i) {
    tiers_.give_up(o, i);
    auto const where = o.chunks[i].where;
    (o.is_managed ? tiers_.managed_bytes : tiers_.bytes[std::size_t(where)]) -= o.room_of_chunk(i);
    tiers_.single_chunks -= where == tier::device || o.is_managed ? 0 : 1;
  }
  o.chunks.clear();
  if (!o.is_managed) ++tiers_.changes;
}

}  // namespace gpufs::shared
