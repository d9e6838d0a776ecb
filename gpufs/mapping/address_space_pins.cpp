// Host memory of objects is pinned, so that copies are fast: by pieces, when they are copied, or
// ahead of a CPU thread that goes through an object.
#include <gpufs/mapping/address_space.hpp>

#include <algorithm>
#include <utility>

namespace gpufs::shared {

namespace {

block_run pieces_of(byte_run r) { return {r.first / piece_bytes, (r.end - 1) / piece_bytes + 1}; }

byte_run bytes_of_piece(object const& o, std::uint64_t piece) {
  return {piece * piece_bytes, std::min((piece + 1) * piece_bytes, o.bytes)};
}

}  // namespace

// One part per piece: a copy may not lie in two of them. Pinning a piece costs as much as a slow
// copy of most of it. So it pays where most of it is copied, or where it is copied again.
std::vector<byte_run> address_space::parts_to_copy(object& o, byte_run r) {
  std::vector<byte_run> parts;
  auto const pieces = pieces_of(r);
  for (auto piece = pieces.first; piece < pieces.end; ++piece) {
    auto const whole = bytes_of_piece(o, piece);
    byte_run const part{std::max(r.first, whole.first), std::min(r.end, whole.end)};
    bool const is_most = (part.end - part.first) * 2 >= whole.end - whole.first;
    if (is_most || o.copied.contains(piece))
      pin(o, piece);
    else
      o.copied.add({piece, piece + 1});
    parts.push_back(part);
  }
  return parts;
}

// Returns whether it has pinned the piece just now.
bool address_space::pin(object& o, std::uint64_t piece) {
  auto const whole = bytes_of_piece(o, piece);
  std::uint64_t const bytes =
      device_memory::rounded_up(whole.end - whole.first, device_memory::host_page);
  if (bytes > bytes_to_pin_ || o.pinned.contains(piece)) return false;
  if (!range_.pin(o.offset + whole.first, bytes)) {
    notes_.push_back(
        "pinned_memory: the system refused to pin more memory, so copies of other bytes are "
        "slower; "
        "raise the limit of locked memory (ulimit -l)");
    bytes_to_pin_ = 0;
    return false;
  }
  o.pinned.add({piece, piece + 1});
  bytes_to_pin_ -= bytes;
  count(o, &mapping_statistics::pinned_bytes, bytes);
  return true;
}

// Returns what was pinned of some pieces. Nothing of it is copied any more.
std::vector<block_run> address_space::forget_pins(object& o, block_run pieces) {
  auto const pinned = o.pinned.take(pieces);
  o.copied.take(pieces);
  for (auto const& run : pinned)
    bytes_to_pin_ += std::min(run.end * piece_bytes,
                              device_memory::rounded_up(o.bytes, device_memory::host_page)) -
                     run.first * piece_bytes;
  return pinned;
}

// Without the mutex: a GPU may wait for kernels.
void address_space::unpin(std::uint64_t offset, std::vector<block_run> const& pinned) {
  for (auto const& run : pinned) {
    for (auto piece = run.first; piece < run.end; ++piece)
      range_.unpin(offset + piece * piece_bytes);
  }
}

// The CPU has waited for a block. If it was the one behind the last, the next will follow.
void address_space::expect_next(object& o, std::uint64_t block) {
  bool const is_in_turn = block == std::exchange(o.last_fault, block) + 1;
  auto const end = o.bytes_in({block, block + 1}).end;
  if (is_in_turn && end < o.bytes)
    ahead_.push_back({o.offset, o.id, {end, std::min(end + o.block_bytes, o.bytes)}});
}

// Pins what the CPU will probably touch next, while it goes on. Nothing moves. Spills what host
// memory cannot keep.
void address_space::prepare_ahead() {
  quiet_lock lock(mutex_);
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
      auto const whole = bytes_of_piece(*o, piece);
      if (pin(*o, piece)) range_.populate(o->offset + whole.first, whole.end - whole.first);
    }
  }
  spill(lock, false);
}

}  // namespace gpufs::shared
