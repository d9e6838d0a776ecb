// Copies of blocks, and the memory that is pinned for them.
#include <gpufs/device/memory.hpp>
#include <gpufs/mapping/block_transfers.hpp>
#include <gpufs/mapping/stream_wait.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace gpufs::shared {

void block_transfers::count(object& o, counter what, std::uint64_t n) {
  counts_.*what += n;
  o.counts.*what += n;
}

void block_transfers::count_moved(object& o, reason why, counter direction, std::uint64_t blocks,
                                  std::uint64_t bytes) {
  if (why.blocks != nullptr) count(o, why.blocks, blocks);
  count(o, why.bytes, bytes);
  count(o, direction, bytes);
}

void block_transfers::queue_send(object& o, block_run r, reason why) {
  queue_bytes(o, o.bytes_in(r));
  count_moved(o, why, &mapping_statistics::bytes_h2d, r.end - r.first, o.bytes_of(r));
}

void block_transfers::queue_bytes(object& o, byte_run r) {
  for (auto const& part : parts_to_copy(o, r)) {
    std::uint64_t const at = o.offset + part.first;
    to_send_.push_back({range_.device_bytes(at), range_.host_bytes(at), part.end - part.first});
  }
}

void block_transfers::queue_scattered(std::uint64_t at, std::byte const* from,
                                      std::uint64_t bytes) {
  to_send_.push_back({range_.device_bytes(at), from, bytes});
  has_scattered_ = true;
}

void block_transfers::start_sends() {
  if (to_send_.empty()) return;
  device_memory::copy_to_device(sends_, to_send_);
  to_send_.clear();  // not before: if memory runs out, they stay, as their blocks count as sent
  is_sending_ = true;
}

void block_transfers::forget_sends(object const& o, byte_run r) noexcept {
  auto const* const first = range_.device_bytes(o.offset + r.first);
  std::erase_if(to_send_, [&](device_memory::pinned_copy const& copy) {
    auto const* const to = static_cast<std::byte const*>(copy.device);
    return first <= to && to < first + (r.end - r.first);
  });
  wait_for_end(sends_);
}

void block_transfers::wait_for_sends() {
  start_sends();
  if (!is_sending_) return;
  sends_.synchronize();
  is_sending_ = has_scattered_ = false;
}

void block_transfers::wait_for_scattered() {
  if (has_scattered_) wait_for_sends();
}

void block_transfers::fetch(object& o, block_run r, reason why) {
  wait_for_scattered();
  for (auto const& run : o.on_both_sides(r)) {
    for (auto const& part : parts_to_copy(o, o.bytes_in(run))) {
      std::uint64_t const at = o.offset + part.first;
      start_fetch(range_.host_bytes(at), at, part.end - part.first);
    }
    count_moved(o, why, &mapping_statistics::bytes_d2h, run.end - run.first, o.bytes_of(run));
  }
  fetches_.synchronize();
}

void block_transfers::start_fetch(std::byte* to, std::uint64_t at, std::uint64_t bytes) {
  device_memory::copy_to_pinned(fetches_, to, range_.device_bytes(at), bytes);
}

// One part per piece: a copy may not lie in two of them.
std::vector<byte_run> block_transfers::parts_to_copy(object& o, byte_run r) {
  std::vector<byte_run> parts;
  auto const pieces = pieces_of(r);
  for (auto piece = pieces.first; piece < pieces.end; ++piece) {
    auto const whole = bytes_of_piece(o, piece);
    byte_run const part{std::max(r.first, whole.first), std::min(r.end, whole.end)};
    if (bytes_to_pin_ != 0 && !o.pinned.contains(piece)) {
      auto& cost = o.copy_costs[piece];
      cost += pin_costs::of_copy(part.end - part.first);
      if (cost >= pin_costs::of_pin(whole.end - whole.first)) pin(o, piece);
    }
    parts.push_back(part);
  }
  return parts;
}

bool block_transfers::pin(object& o, std::uint64_t piece) {
  auto const whole = bytes_of_piece(o, piece);
  std::uint64_t const bytes =
      device_memory::rounded_up(whole.end - whole.first, device_memory::host_page);
  if (bytes > bytes_to_pin_ || o.pinned.contains(piece)) return false;
  if (!range_.pin(o.offset + whole.first, bytes)) {
    notes_.push_back(
        "pinned_memory: the system refused to pin more memory, so copies of other bytes are "
        "slower; raise the limit of locked memory (ulimit -l)");
    bytes_to_pin_ = 0;
    return false;
  }
  try {
    o.pinned.add({piece, piece + 1});
  } catch (std::bad_alloc const&) {
    range_.unpin(o.offset + whole.first);
    throw;
  }
  bytes_to_pin_ -= bytes;
  o.copy_costs.erase(piece);
  count(o, &mapping_statistics::pinned_bytes, bytes);
  return true;
}

std::vector<block_run> block_transfers::forget_pins(object& o, block_run pieces) {
  auto const first = pieces.first * piece_bytes;
  o.prepared.take(o.blocks_of(first, std::min(pieces.end * piece_bytes, o.bytes) - first));
  o.copy_costs.erase(o.copy_costs.lower_bound(pieces.first), o.copy_costs.lower_bound(pieces.end));
  auto const pinned = o.pinned.take(pieces);
  for (auto const& run : pinned) may_pin_again(o, run);
  return pinned;
}

block_runs block_transfers::forget_all_pins(object& o) noexcept {
  o.prepared = {};
  o.copy_costs.clear();
  auto pinned = std::exchange(o.pinned, {});
  pinned.for_each([&](block_run run) { may_pin_again(o, run); });
  return pinned;
}

void block_transfers::may_pin_again(object const& o, block_run pieces) noexcept {
  bytes_to_pin_ += std::min(pieces.end * piece_bytes,
                            device_memory::rounded_up(o.bytes, device_memory::host_page)) -
                   pieces.first * piece_bytes;
}

void block_transfers::unpin(std::uint64_t offset, std::vector<block_run> const& pinned) noexcept {
  for (auto const& run : pinned) unpin(offset, run);
}

void block_transfers::unpin(std::uint64_t offset, block_run pinned) noexcept {
  for (auto piece = pinned.first; piece < pinned.end; ++piece)
    range_.unpin(offset + piece * piece_bytes);
}

}  // namespace gpufs::shared
