// Objects get host memory ahead of a CPU thread that goes through them.
#include <gpufs/mapping/address_space.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace gpufs::shared {

// The CPU has waited for a block. If it was the one behind the last, the next will follow.
void address_space::expect_next(object& o, std::uint64_t block) noexcept try {
  bool const is_in_turn = block == std::exchange(o.last_fault, block) + 1;
  auto const end = o.bytes_in({block, block + 1}).end;
  if (is_in_turn && end < o.bytes)
    ahead_.push_back({o.offset, o.id, {end, std::min(end + o.block_bytes, o.bytes)}});
} catch (std::bad_alloc const&) {  // the system gives it memory, page by page
}

// Gives memory to what the CPU will probably touch next, while it goes on. Nothing moves. Spills
// what host memory cannot keep.
void address_space::prepare_ahead() {
  quiet_lock lock(mutex_);
  try {
    for (auto const& next : std::exchange(ahead_, {})) {
      object* const o = object_at(next.offset);
      if (o == nullptr || o->id != next.id) continue;
      // Small blocks: the piece behind the one that they lie in.
      auto const first = device_memory::rounded_up(next.bytes.first, piece_bytes);
      auto const end = std::max(next.bytes.end, std::min(first + piece_bytes, o->bytes));
      if (first >= end) continue;
      // Nothing of these is copied. Their memory may be given back this moment, without the mutex.
      if (o->single.overlaps(o->blocks_of(first, end - first))) continue;
      auto const pieces = pieces_of({first, end});
      for (auto piece = pieces.first; piece < pieces.end; ++piece) {
        if (o->prepared.contains(piece) || o->pinned.contains(piece)) continue;
        o->prepared.add({piece, piece + 1});
        auto const whole = bytes_of_piece(*o, piece);
        range_.prepare(o->offset + whole.first, whole.end - whole.first);
      }
    }
  } catch (std::bad_alloc const&) {  // the system gives these bytes memory, page by page
  }
  spill(lock, false);
}

}  // namespace gpufs::shared
