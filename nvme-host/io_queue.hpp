// An I/O queue pair that threads of the host drive.
#pragma once

#include <gpufs/nvme/format.hpp>
#include <gpufs/nvme/prp.hpp>

#include <nvme-host/control_plane.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace gpufs::nvme_host {

using io_clock = std::chrono::steady_clock;

/// What the driver of queue pairs did.
struct queue_counts {
  std::uint64_t doorbells = 0;    ///< rung, of both queues
  std::uint64_t looks = 0;        ///< at completion queues
  std::uint64_t empty_looks = 0;  ///< that found nothing
  std::uint64_t strays = 0;       ///< completions of no command

  queue_counts& operator+=(queue_counts const& other);
};

/// A queue pair with slots. A slot carries one command at a time, and has a piece of memory that
/// the controller reaches. All functions are thread-safe; a slot belongs to one thread at a time.
///
/// Why a late completion does no harm. The CID of a command is its slot, and above it a count of
/// the slot's commands. A slot whose command was given up is not used again until its completion
/// has come. So neither its piece nor its CID is another command's by then.
class io_queue {
 public:
  struct shape {
    std::uint32_t slots;        ///< at most the queue's entries less one
    std::uint32_t piece_bytes;  ///< of a slot; a multiple of 4096, at most nvme::most_piece_bytes
    std::uint32_t nsid;
  };
  /// `plane` has made the queue pair, and outlives this object. Throws what dma_memory throws.
  io_queue(control_plane& plane, queue_pair_memory const& pair, shape const& of);

  /// Takes a free slot. Nothing: all are in use.
  [[nodiscard]] std::optional<std::uint32_t> try_slot();
  /// The piece of a slot.
  [[nodiscard]] std::byte* piece(std::uint32_t slot) const {
    return pieces_.data() + std::uint64_t{slot} * shape_.piece_bytes;
  }

  /// Sends a command of a slot: a transfer of its piece's first bytes, or a flush.
  void send_transfer(std::uint32_t slot, nvme::opcode code, nvme::block_range range,
                     std::uint32_t bytes);
  void send_flush(std::uint32_t slot);

  /// The completion of the slot's command, once it has come.
  [[nodiscard]] std::optional<nvme::cqe> poll(std::uint32_t slot);

  /// Gives a slot back whose command was answered.
  void free_slot(std::uint32_t slot);
  /// Gives a slot back whose command, sent at `sent`, was not answered. It is free when its
  /// completion has come. Has that come by now, it is returned, and the slot stays the caller's.
  [[nodiscard]] std::optional<nvme::cqe> give_up(std::uint32_t slot, io_clock::time_point sent);
  /// When the oldest command was sent that was given up and has no answer yet. Nothing: all have.
  [[nodiscard]] std::optional<io_clock::time_point> oldest_given_up();

  [[nodiscard]] queue_counts counts() const;

  /// The controller does not stop, so its memory is not freed.
  void leak() noexcept;

 private:
  enum class phase : std::uint8_t { free, busy, answered, given_up };
  struct slot_state {
    phase is = phase::free;
    std::uint32_t sequence = 0;   // of its commands
    io_clock::time_point sent{};  // of one that was given up
    nvme::cqe answer{};
  };

  [[nodiscard]] std::uint16_t cid(std::uint32_t slot) const;
  void send(std::uint32_t slot, nvme::sqe entry);
  void drain();
  void take(nvme::cqe const& entry);

  queue_pair_memory const pair_;
  shape const shape_;
  unsigned const slot_bits_;
  dma_memory pieces_;
  dma_memory lists_;  // of PRP entries: a page for each slot

  mutable std::mutex mutex_;  // guards the members below, and both queues
  std::vector<slot_state> slots_;
  std::vector<std::uint32_t> free_;
  std::uint32_t tail_ = 0;
  std::uint32_t head_ = 0;  // of all completions
  queue_counts counts_;
  std::atomic<std::uint32_t> given_up_{0};  // slots; stored with the lock
};

}  // namespace gpufs::nvme_host
