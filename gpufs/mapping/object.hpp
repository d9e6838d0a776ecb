// One object of an address space: its blocks, and the calls that use them.
#pragma once

#include <gpufs/mapping/block_runs.hpp>
#include <gpufs/mapping/file_side.hpp>
#include <gpufs/mapping/protocol.hpp>
#include <gpufs/mapping/tier.hpp>
#include <gpufs/mapping_options.hpp>
#include <gpufs/mapping_statistics.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gpufs::shared {

struct object;

/// A block that the CPU has written, in the order of the first writes.
struct written_block {
  object* of;
  std::uint64_t block;
};
using written_list = std::list<written_block>;

/// Blocks that a call uses until it has ended.
struct use {
  block_run blocks;
  bool writes;
  std::uint64_t call;        ///< its number
  bool is_declared = false;  ///< and so ordered with calls of other streams
};

/// Bytes [first, end) of an object.
struct byte_run {
  std::uint64_t first, end;
};

/// Host memory is pinned by pieces of so many bytes.
inline constexpr std::uint64_t piece_bytes = device_memory::shared_range::granularity;

/// Numbers of uses that are no call's: chunks move, or are spilled.
inline constexpr std::uint64_t moving = 0, spilling = ~0ull;

inline bool is_of_call(use const& u) { return u.call != moving && u.call != spilling; }

/// Protected by the mutex of its address space, but for what does not change: the first six.
struct object {
  std::uint64_t id;      ///< no other object of the address space ever has it
  std::uint64_t offset;  ///< as shared_range has it: managed memory lies behind the reservation
  std::uint64_t bytes;
  std::uint64_t block_bytes;
  coherence_protocol protocol;
  bool waits_on_touch;

  std::vector<block_state> states;  ///< not of batch objects
  /// Blocks in a state other than invalid. A release goes through these, not through all blocks.
  block_runs readable = {};
  /// Dirty blocks, with their place in the list of all rolling objects. Blocks of lazy objects and
  /// those that acquire() made ready have no place there: they are sent at a release.
  std::map<std::uint64_t, written_list::iterator> dirty = {};
  /// Number of the eviction that sent a block last, 0: none. Of rolling objects.
  std::vector<std::uint32_t> evicted_at = {};
  std::vector<use> uses = {};
  /// GPU: invalid blocks that the CPU may read while calls run that may write them. It sees bytes
  /// that the device had.
  block_runs glimpses = {};
  /// Pieces that are pinned, and blocks that have got memory ahead of the CPU.
  block_runs pinned = {}, prepared = {};
  /// What copies of other pieces have cost more than those of pinned ones, in ns. See pin_costs.
  std::map<std::uint64_t, std::uint64_t> copy_costs = {};
  /// The block that the CPU waited for last, and for how many it has waited one behind the other.
  /// Before the first one, block 0 is the next.
  std::uint64_t last_fault = ~0ull, faults_in_turn = 0;
  /// What lies in each tier. Blocks whose only memory is the CPU's side are also in `single`, and
  /// those that the device cannot use in `away` as well.
  std::uint64_t chunk_bytes = 0;
  std::vector<chunk> chunks = {};
  block_runs single = {}, away = {};
  /// Of an object that spills or is written back: what acquire() made ready and no call has used
  /// since. It stays.
  block_runs acquired = {};
  /// Of a batch object: the device has its bytes since a call that has ended, and may have changed
  /// them.
  bool is_at_device = false;
  bool is_changed = false;
  /// It is being removed: calls that declare nothing do not use it any more.
  bool is_going = false;
  /// The driver moves its bytes. It has one memory: blocks are single, states are not kept.
  bool is_managed = false;
  mapping_statistics counts = {};
  std::unique_ptr<file_side> file = {};  ///< null: an anonymous object that does not spill

  /// For messages.
  [[nodiscard]] std::string name() const {
    return file != nullptr && file->file != nullptr ? file->file->name() : "an anonymous object";
  }
  [[nodiscard]] bool is_read_only() const { return file != nullptr && file->use == access::read; }
  /// The CPU's side is the file itself.
  [[nodiscard]] bool shows_file() const { return is_read_only() && !is_managed; }
  /// Of a batch object: whether the device has its bytes, also if it has them for a call that may
  /// still be cancelled.
  [[nodiscard]] bool is_sent() const {
    return is_at_device || (single.empty() && std::ranges::any_of(uses, is_of_call));
  }
  /// Whether the device lacks bytes of a run.
  [[nodiscard]] bool lacks(block_run r) const {
    if (file == nullptr || r.first >= r.end) return false;
    auto const b = bytes_in(r);
    return file->absent.overlaps(file->units_of(b.first, b.end));
  }
  /// The blocks of a set of which the device has all bytes.
  [[nodiscard]] std::vector<block_run> present(block_runs some) const {
    if (file == nullptr) return some.runs();
    for (auto const& units : file->absent.runs()) {
      auto const first = units.first * file->unit_bytes;
      some.take(blocks_of(first, std::min(units.end * file->unit_bytes, bytes) - first));
    }
    return some.runs();
  }
  [[nodiscard]] std::uint64_t block_count() const {
    return (bytes + block_bytes - 1) / block_bytes;
  }
  [[nodiscard]] block_run all() const { return {0, block_count()}; }
  /// The blocks that have bytes [first, first + count).
  [[nodiscard]] block_run blocks_of(std::uint64_t first, std::uint64_t count) const {
    if (count == 0) return {0, 0};
    return {first / block_bytes, (first + count - 1) / block_bytes + 1};
  }
  [[nodiscard]] std::uint64_t begin_of(block_run r) const { return offset + r.first * block_bytes; }
  /// Bytes of a run. The last block ends with the object.
  [[nodiscard]] std::uint64_t bytes_of(block_run r) const {
    return std::min(r.end * block_bytes, bytes) - r.first * block_bytes;
  }
  /// The same in whole pages of the host, as protections need it.
  [[nodiscard]] std::uint64_t pages_of(block_run r) const {
    return device_memory::rounded_up(bytes_of(r), device_memory::host_page);
  }
  /// The bytes of a run, from the begin of the object.
  [[nodiscard]] byte_run bytes_in(block_run r) const {
    return {r.first * block_bytes, r.first * block_bytes + bytes_of(r)};
  }
  /// Whether the first write of the CPU to a block must be seen, as it is written back.
  [[nodiscard]] bool is_caught() const {
    return file != nullptr && file->is_written_back() && !is_managed;
  }
  /// The blocks of chunk `i`, its bytes from the begin of the object, and what it takes of memory.
  [[nodiscard]] block_run blocks_of_chunk(std::size_t i) const {
    std::uint64_t const per_chunk = std::max<std::uint64_t>(chunk_bytes / block_bytes, 1);
    return {i * per_chunk, std::min((i + 1) * per_chunk, block_count())};
  }
  [[nodiscard]] byte_run bytes_of_chunk(std::size_t i) const {
    return {i * chunk_bytes, std::min((i + 1) * chunk_bytes, bytes)};
  }
  /// What may be pinned of it.
  [[nodiscard]] block_run pieces_of_chunk(std::size_t i) const {
    auto const b = bytes_of_chunk(i);
    return {b.first / piece_bytes, (b.end - 1) / piece_bytes + 1};
  }
  [[nodiscard]] std::uint64_t room_of_chunk(std::size_t i) const {
    auto const b = bytes_of_chunk(i);
    return device_memory::rounded_up(b.end - b.first, device_memory::shared_range::granularity);
  }
  [[nodiscard]] std::size_t chunk_of(std::uint64_t block) const {
    return std::size_t(block * block_bytes / chunk_bytes);
  }
  /// The blocks of a run that have memory on both sides.
  [[nodiscard]] std::vector<block_run> on_both_sides(block_run r) const {
    if (!single.overlaps(r)) return {r};
    block_runs left;
    left.add(r);
    for (auto const& run : single.within(r)) left.take(run);
    return left.runs();
  }
  /// The end of the chunk that has a byte, from the begin of the object.
  [[nodiscard]] std::uint64_t end_of_chunk(std::uint64_t byte) const {
    return (byte / chunk_bytes + 1) * chunk_bytes;
  }
  /// Whether chunks of it move or are spilled.
  [[nodiscard]] bool is_moving() const { return !std::ranges::all_of(uses, is_of_call); }
  /// Whether bytes of a run go to the file just now: the CPU does not write to them then.
  [[nodiscard]] bool is_still(block_run r) const {
    return file != nullptr && file->is_still && file->still.overlaps(r);
  }
  /// The dirty blocks of a run, neighbours together.
  [[nodiscard]] std::vector<block_run> dirty_runs(block_run r) const {
    block_runs found;
    for (auto at = dirty.lower_bound(r.first); at != dirty.end() && at->first < r.end; ++at)
      found.add({at->first, at->first + 1});
    return found.runs();
  }
  /// The parts of a run that no call uses.
  [[nodiscard]] std::vector<block_run> unused(block_run r) const {
    block_runs left;
    left.add(r);
    for (auto const& u : uses) left.take(u.blocks);
    return left.within(r);
  }
  /// Whether a call that has not ended may write to blocks of a run, or uses them, if `by_any`.
  [[nodiscard]] bool is_used(block_run r, bool by_any) const {
    return std::ranges::any_of(
        uses, [&](use const& u) { return (by_any || u.writes) && u.blocks.overlaps(r); });
  }
};

}  // namespace gpufs::shared
