// Objects get host memory ahead of a CPU thread that goes through them.
#include <gpufs/mapping/address_space.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace gpufs::shared {

// The CPU has waited for a block. If it was the one behind the last, the next ones will follow: as
// many as it has gone through, but no more than a piece.
void address_space::expect_next(object& o, std::uint64_t block) noexcept try {
  if (block == o.last_fault) return;
  bool const is_in_turn = block == std::exchange(o.last_fault, block) + 1;
  o.faults_in_turn = is_in_turn ? o.faults_in_turn + 1 : 0;
  auto const end = o.bytes_in({block, block + 1}).end;
  if (!is_in_turn || end == o.bytes) return;
  auto const length =
      std::max(std::min(o.faults_in_turn * o.block_bytes, piece_bytes), o.block_bytes);
  ahead_.push_back({o.offset, o.id, {end, std::min(end + length, o.bytes)}});
} catch (std::bad_alloc const&) {  // the system gives it memory, page by page
}

// Gives memory to what the CPU will probably touch next, while it goes on, and pins what will be
// pinned at its first copy. Nothing moves. Spills what host memory cannot keep.
void address_space::prepare_ahead() {
  quiet_lock lock(mutex_);
  try {
    for (auto const& next : std::exchange(ahead_, {})) {
      object* const o = object_at(next.offset);
      if (o == nullptr || o->id != next.id) continue;
      auto const blocks = o->blocks_of(next.bytes.first, next.bytes.end - next.bytes.first);
      // Nothing of these is copied. Their memory may be given back this moment, without the mutex.
      if (o->single.overlaps(blocks)) continue;
      block_runs left;
      left.add(blocks);
      for (auto const& run : o->prepared.within(blocks)) left.take(run);
      o->prepared.add(blocks);
      for (auto const& run : left.runs()) {
        range_.prepare(o->begin_of(run), o->pages_of(run));
        if (o->block_bytes < pin_costs::at_once) continue;
        auto const pieces = pieces_of(o->bytes_in(run));
        for (auto piece = pieces.first; piece < pieces.end; ++piece) transfers_.pin(*o, piece);
      }
    }
  } catch (std::bad_alloc const&) {  // the system gives these bytes memory, page by page
  }
  spill(lock, false);
}

}  // namespace gpufs::shared
