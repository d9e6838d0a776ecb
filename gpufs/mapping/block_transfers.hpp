// Bytes of blocks go from one side to the other.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/mapping/guarded_range.hpp>
#include <gpufs/mapping/object.hpp>
#include <gpufs/mapping/requests.hpp>
#include <gpufs/mapping_statistics.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::shared {

/// When to pin a piece. A copy of memory that is not pinned takes longer, since the driver moves
/// its bytes once more; to pin costs time, too. A piece is pinned once its copies have cost as much
/// more as that. So the two together cost at most twice of what knowing the future would. The
/// figures are of a machine with a GPU (docs/design/mapping.md), in ns.
struct pin_costs {
  /// What a copy costs more than one of pinned memory.
  [[nodiscard]] static constexpr std::uint64_t of_copy(std::uint64_t bytes) {
    return 3'000 + bytes / 13;
  }
  [[nodiscard]] static constexpr std::uint64_t of_pin(std::uint64_t bytes) {
    return 40'000 + bytes / 8;
  }
};

/// Copies between CPU and device, what they count, and the host memory that is pinned for them.
/// Sends are queued, and start together. All functions but unpin() need the mutex of the address
/// space, and the device current. They throw device_error if the device fails.
class block_transfers {
 public:
  /// At most so many bytes are pinned. What the system refuses is told in `notes`.
  block_transfers(guarded_range& range, std::uint64_t bytes_to_pin, std::vector<std::string>& notes)
      : range_(range), bytes_to_pin_(bytes_to_pin), notes_(notes) {}

  /// Adds to a counter of the object and of all objects.
  void count(object& o, counter what, std::uint64_t n = 1);
  void count_moved(object& o, reason why, counter direction, std::uint64_t blocks,
                   std::uint64_t bytes);
  [[nodiscard]] mapping_statistics& counts() { return counts_; }
  [[nodiscard]] mapping_statistics const& counts() const { return counts_; }

  void queue_send(object& o, block_run r, reason why);
  /// Queues bytes of an object, and does not count them.
  void queue_bytes(object& o, byte_run r);
  /// Queues bytes of pinned memory for the device's side from `at` on. They are I/O's: a fetch
  /// waits for them.
  void queue_scattered(std::uint64_t at, std::byte const* from, std::uint64_t bytes);
  /// Bytes of an object are not sent any more, or have been.
  void forget_sends(object const& o, byte_run r) noexcept;
  /// Starts what is queued. Nothing is queued: does nothing.
  void start_sends();
  /// All that was queued is at the device.
  void wait_for_sends();
  void wait_for_scattered();  ///< if queue_scattered() has been called since

  /// Brings blocks to the CPU's side. Those whose only memory is that side are there already.
  void fetch(object& o, block_run r, reason why);
  /// Starts to copy the device's bytes from `at` on to pinned memory.
  void start_fetch(std::byte* to, std::uint64_t at, std::uint64_t bytes);

  [[nodiscard]] stream& sends() { return sends_; }
  [[nodiscard]] stream& fetches() { return fetches_; }

  /// Pins a piece of an object, if that is allowed and it is not pinned. Returns whether it was
  /// pinned just now.
  bool pin(object& o, std::uint64_t piece);
  /// Returns what was pinned of some pieces. They are as if they had never been copied.
  [[nodiscard]] std::vector<block_run> forget_pins(object& o, block_run pieces);
  /// The same of all of them.
  [[nodiscard]] block_runs forget_all_pins(object& o) noexcept;
  /// Without the mutex, as a GPU may wait for kernels. `offset`: of the object.
  void unpin(std::uint64_t offset, std::vector<block_run> const& pinned) noexcept;
  void unpin(std::uint64_t offset, block_run pinned) noexcept;

 private:
  [[nodiscard]] std::vector<byte_run> parts_to_copy(object& o, byte_run r);
  void may_pin_again(object const& o, block_run pieces) noexcept;

  guarded_range& range_;
  stream sends_;
  stream fetches_;
  std::vector<device_memory::pinned_copy> to_send_;
  bool is_sending_ = false;
  bool has_scattered_ = false;  ///< and not waited for since: fetches must do so
  std::uint64_t bytes_to_pin_;  ///< that may still be pinned
  mapping_statistics counts_;
  std::vector<std::string>& notes_;
};

/// The pieces that have bytes [first, end) of an object. There is one at least.
[[nodiscard]] inline block_run pieces_of(byte_run r) {
  return {r.first / piece_bytes, (r.end - 1) / piece_bytes + 1};
}
/// The bytes of a piece.
[[nodiscard]] inline byte_run bytes_of_piece(object const& o, std::uint64_t piece) {
  return {piece * piece_bytes, std::min((piece + 1) * piece_bytes, o.bytes)};
}

}  // namespace gpufs::shared
