// Objects get host memory ahead of a CPU thread that goes through them.
#include <gpufs/mapping/address_space.hpp>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

namespace gpufs::shared {

// The CPU has waited for a block. If it was the one behind the last, the next ones will follow: as
// many as it has gone through, but no more than a piece.
void address_space::expect_next(object& o, std::uint64_t block) noexcept try {
  if (block == o.last_fault) return;
  bool const is_in_turn = block == std::exchange(o.last_fault, block) + 1;
  o.faults_in_turn = is_in_turn ? o.faults_in_turn + 1 : 0;
  if (!is_in_turn) return;
  auto const count = std::clamp<std::uint64_t>(piece_bytes / o.block_bytes, 1, o.faults_in_turn);
  block_run const next{block + 1, std::min(block + 1 + count, o.block_count())};
  if (next.first >= next.end) return;
  block_runs left;
  left.add(next);
  for (auto const& run : o.prepared.within(next)) left.take(run);
  o.prepared.add(next);
  for (auto const& run : left.runs()) ahead_.want({o.offset, o.id, o.bytes_in(run)});
} catch (std::bad_alloc const&) {  // the system gives it memory, page by page
}

// Nothing moves. The memory is kept from before the mutex is given up, so whoever frees it waits
// until the system has made the pages: nothing is left behind.
bool address_space::give_memory_ahead() {
  // Meanwhile no thread of the process can change a protection.
  constexpr std::uint64_t at_once = 64 << 10;
  std::unique_lock<std::mutex> keeps;
  std::uint64_t at = 0, bytes = 0;
  {
    quiet_lock const lock(mutex_);
    auto const next = ahead_.take(at_once);
    if (!next) return false;
    object const* const o = object_at(next->offset);
    bytes = next->bytes.end - next->bytes.first;
    at = next->offset + next->bytes.first;
    // What lies at the host has memory. What is spilled gets it when it comes back.
    if (o == nullptr || o->id != next->id ||
        o->single.overlaps(o->blocks_of(next->bytes.first, bytes)))
      return true;
    keeps = range_.keep_memory();
  }
  if (keeps.owns_lock()) range_.prepare(at, bytes);
  return true;
}

}  // namespace gpufs::shared
