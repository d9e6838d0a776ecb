// One round of gpufs-stress: all that is drawn from its seed.
#pragma once

#include <gpufs/config.hpp>

#include <cstdint>
#include <string>

namespace gpufs::stress {

/// Settings, shapes and events of a round.
struct round_plan {
  std::uint64_t seed = 0;
  config settings;
  unsigned filesystems = 1;  ///< on the same files, 1 or 2
  unsigned blocks = 1;       ///< of each kernel
  unsigned threads = 64;     ///< of each block
  bool tiles = false;        ///< 32-thread tiles are the workers, else blocks
  unsigned launches = 1;     ///< kernels of each filesystem, one after the other
  unsigned operations = 64;  ///< of each worker in each kernel
  unsigned writes = 30;      ///< percent of the operations that write a cell
  std::uint64_t cells = 0;
  std::uint64_t cell_bytes = 0;  ///< a multiple of 8
  /// rpc_timeout is some milliseconds, so that calls may give -ETIMEDOUT, -ENOMEM or fewer bytes.
  bool impatient = false;
  bool host_writes = false;      ///< fs.write by a host thread meanwhile
  bool foreign_writes = false;   ///< pwrite by another process meanwhile
  bool forks = false;            ///< the process forks meanwhile; the child execs or leaves
  std::uint64_t kill_after = 0;  ///< SIGKILL after so many operations of all workers; 0: never

  [[nodiscard]] unsigned workers() const { return tiles ? blocks * (threads / 32) : blocks; }
  /// Workers of all filesystems, then a host thread of each filesystem, then the other process.
  [[nodiscard]] unsigned owners() const { return filesystems * (workers() + 1) + 1; }
  [[nodiscard]] unsigned host_owner(unsigned filesystem) const {
    return filesystems * workers() + filesystem;
  }
  [[nodiscard]] unsigned foreign_owner() const { return owners() - 1; }
  [[nodiscard]] std::uint64_t file_bytes() const { return cells * cell_bytes; }
};

/// The round that belongs to `seed`. `emulated`: fewer and smaller kernels.
[[nodiscard]] round_plan draw_plan(std::uint64_t seed, bool emulated);

/// The plan on one line, for the report of a failure.
[[nodiscard]] std::string to_text(round_plan const& plan);

}  // namespace gpufs::stress
