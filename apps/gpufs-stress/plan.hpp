// One round of gpufs-stress: all that is drawn from its seed.
#pragma once

#include <gpufs/config.hpp>

#include <cstdint>
#include <string>

namespace gpufs::stress {

/// What a round may take at most.
struct memory_limits {
  std::uint64_t gpu = 4ull << 30;   ///< caches and buffers of workers, without the CUDA context
  std::uint64_t host = 8ull << 30;  ///< the files, in the OS page cache, and pinned memory
};

/// How often kernels do what, out of the sum of all. Writes come before: round_plan::writes.
struct operation_weights {
  unsigned read = 25;       ///< a part of a cell
  unsigned read_many = 10;  ///< cells in a row
  unsigned element = 10;    ///< by each thread a word through an array
  unsigned map = 7;
  unsigned sync = 3;
  unsigned open_again = 5;
  unsigned append = 7;
  unsigned advise = 3;

  [[nodiscard]] constexpr unsigned sum() const {
    return read + read_many + element + map + sync + open_again + append + advise;
  }
};

/// Settings, shapes and events of a round.
struct round_plan {
  std::uint64_t seed = 0;
  config settings;
  /// Many warps, many bytes, few writes. The other rounds are of few bytes, in tight places.
  bool wide = false;
  unsigned filesystems = 1;  ///< on the same files, 1 or 2
  unsigned blocks = 1;       ///< of each kernel
  unsigned threads = 64;     ///< of each block
  bool tiles = false;        ///< 32-thread tiles are the workers, else blocks
  unsigned launches = 1;     ///< kernels of each filesystem, one after the other
  unsigned operations = 64;  ///< of each worker in each kernel
  unsigned writes = 30;      ///< percent of the operations that write a cell
  operation_weights weights;
  std::uint64_t cells = 0;
  std::uint64_t cell_bytes = 0;  ///< a multiple of 8
  unsigned cells_at_once = 2;    ///< of the longest reads, 1 to most_cells_at_once
  bool filled = false;           ///< the file begins with bytes of version 0, else with zeros
  /// rpc_timeout is some milliseconds, so that calls may give -ETIMEDOUT, -EAGAIN, -ENOMEM or fewer
  /// bytes.
  bool impatient = false;
  bool host_writes = false;      ///< fs.write by a host thread meanwhile
  bool foreign_writes = false;   ///< pwrite by another process meanwhile
  bool forks = false;            ///< the process forks meanwhile; the child execs or leaves
  std::uint64_t kill_after = 0;  ///< SIGKILL after so many operations of all workers; 0: never

  static constexpr unsigned most_cells_at_once = 8;

  [[nodiscard]] unsigned workers() const { return tiles ? blocks * (threads / 32) : blocks; }
  /// Workers of all filesystems, then a host thread of each filesystem, then the other process.
  [[nodiscard]] unsigned owners() const { return filesystems * (workers() + 1) + 1; }
  [[nodiscard]] unsigned host_owner(unsigned filesystem) const {
    return filesystems * workers() + filesystem;
  }
  [[nodiscard]] unsigned foreign_owner() const { return owners() - 1; }
  [[nodiscard]] std::uint64_t file_bytes() const { return cells * cell_bytes; }
};

/// The least of each limit. Rounds that are not wide fit into it.
inline constexpr std::uint64_t least_memory = 512ull << 20;

/// The round that belongs to `seed`: a wide one if it is odd. `emulated`: fewer warps, and a 64th
/// of the bytes.
[[nodiscard]] round_plan draw_plan(std::uint64_t seed, bool emulated, memory_limits const& limits);

/// The most bytes that the file of a round has within `limits`.
[[nodiscard]] std::uint64_t largest_file(memory_limits const& limits, bool emulated);

/// The plan on one line, for the report of a failure.
[[nodiscard]] std::string to_text(round_plan const& plan);

}  // namespace gpufs::stress
