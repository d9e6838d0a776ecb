// Drives as one range of bytes: striped or replicated, with writes of parts of blocks.
#pragma once

#include <nvme-host/block_locks.hpp>
#include <nvme-host/command_run.hpp>
#include <nvme-host/drive.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct iovec;

namespace gpufs::nvme_host {

struct volume_options {
  bool replicated = false;
  std::uint64_t stripe = 128 << 10;  ///< bytes; a power of two, at least a block
  /// Longest wait for an answer to a command, for room for one, and for blocks that others write.
  /// A call with many commands may take longer. Each replica gets its share of it. A controller
  /// that owes an answer for so long is reset.
  std::chrono::milliseconds timeout{5000};
  /// Of flush(): a disk may have gigabytes to write.
  std::chrono::milliseconds flush_timeout{60'000};
  /// How long reads leave out a replica that has failed one.
  std::chrono::milliseconds out_of_turn{1000};
};

/// Bytes that one turn of a write keeps from other writers.
inline constexpr std::uint64_t most_locked = 16 << 20;

/// All functions but the constructor are thread-safe, and return -errno. They throw std::bad_alloc.
///
/// striped     Stripe number s is on drive s modulo their number. All drives count as large as the
///             smallest, in whole stripes. One drive alone counts whole.
/// replicated  All drives have the same bytes. Reads take turns. One that fails goes on at another
///             drive, and the drive is out of turn for a while. Writes go to all, and fail if one
///             fails: until the same bytes are written again, the drives may differ there.
///
/// Two writes of one block are carried out one after the other. So bytes of different writers that
/// share a block are all kept. A long write is carried out in turns of 16 MiB, and others may come
/// between them. Reads take no lock: a read beside a write sees either, block by block.
class volume {
 public:
  /// Throws std::invalid_argument if the drives' blocks differ, or one is too small.
  volume(std::vector<std::unique_ptr<drive>> drives, volume_options const& options);

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint32_t lba_bytes() const { return lba_; }
  [[nodiscard]] std::vector<std::unique_ptr<drive>> const& drives() const { return drives_; }
  [[nodiscard]] volume_options const& options() const { return options_; }

  /// As pread(2): bytes read, 0 at the end, or -EIO, -ETIMEDOUT, or as nvme::error_of().
  [[nodiscard]] std::int64_t read(std::span<std::byte> to, std::uint64_t offset);
  /// As pwritev(2) of a block device: bytes written, -ENOSPC at the end, or as read().
  [[nodiscard]] std::int64_t write(std::span<::iovec const> parts, std::uint64_t offset);
  /// Has all drives make what was written durable. Returns 0 or the first error.
  [[nodiscard]] int flush();

  /// Reads that went on at another replica, after one had failed.
  [[nodiscard]] std::uint64_t other_replicas() const { return others_; }

 private:
  [[nodiscard]] std::int64_t read_until(std::span<std::byte> to, std::uint64_t offset,
                                        io_clock::time_point end);
  [[nodiscard]] int read_once(std::span<std::byte> to, std::uint64_t offset, std::uint64_t without,
                              std::chrono::milliseconds longest, command_run::failure& failed);
  [[nodiscard]] std::int64_t write_locked(std::vector<::iovec> whole, std::uint64_t count,
                                          std::uint64_t offset);
  [[nodiscard]] std::uint32_t next_replica(std::uint64_t without);
  [[nodiscard]] std::vector<block_command> plan_of(nvme::direction to, std::uint64_t begin,
                                                   std::uint64_t end, std::uint64_t without = 0);

  std::vector<std::unique_ptr<drive>> const drives_;
  volume_options const options_;
  std::uint32_t lba_ = 0;
  std::uint32_t piece_ = 0;  // most bytes of a command
  std::uint64_t bytes_ = 0;
  // Of reads of replicas: whose turn it is, and when each is in turn again.
  std::atomic<std::uint64_t> turn_{0};
  std::array<std::atomic<io_clock::rep>, most_drives> out_until_{};
  std::atomic<std::uint64_t> others_{0};
  block_locks locks_;
};

}  // namespace gpufs::nvme_host
