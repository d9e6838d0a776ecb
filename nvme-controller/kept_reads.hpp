// Reads past the OS page cache that a thread of the controller has under way.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <nvme-controller/address_map.hpp>
#include <nvme-controller/block_namespace.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace gpufs::nvme_controller {

/// Many reads at once, by io_uring, where a thread that reads by itself has one. The ring is made
/// for the first read. Where the system refuses it, nothing is kept. One thread at a time calls.
class kept_reads {
 public:
  /// A command that waits for its read.
  struct command {
    std::uint16_t queue;
    nvme::sqe entry;
  };
  /// Gets each command whose read has ended. `complete`: all bytes are there. Else the receiver
  /// reads again by itself, and so learns what is wrong.
  using receiver = std::function<void(command const&, bool complete)>;

  kept_reads();
  /// Waits for the reads under way. Their commands get no answer.
  ~kept_reads();
  kept_reads(kept_reads const&) = delete;
  kept_reads& operator=(kept_reads const&) = delete;

  /// Starts a read of `fd` at byte `offset` to `to`, which `memory` has. Returns false if it has
  /// not: the caller reads by itself.
  [[nodiscard]] bool start(int fd, std::uint64_t offset, std::span<segment const> to,
                           command const& of, std::shared_ptr<range_table const> memory);

  /// Sends what was started, and hands out what has ended. Never waits. Returns whether something
  /// has ended.
  bool collect(receiver const& to);
  /// Waits until all reads have ended, and hands them out.
  void finish(receiver const& to);

  /// Reads that were started and not handed out.
  [[nodiscard]] std::size_t count() const;

 private:
  struct ring;
  std::unique_ptr<ring> ring_;  // null: not made yet, or refused
  bool refused_ = false;
};

}  // namespace gpufs::nvme_controller
