// What device code needs of block files whose bytes it reads by NVMe queue pairs.
#pragma once

#include <cstdint>

namespace gpufs::handle {

/// The last command of a channel, in GPU memory. The channel's owner stores it before it sends the
/// command. The thread that takes the completion sets the sequence to 0.
struct alignas(16) block_command {
  std::uint64_t pair = 0;      ///< address of its nvme::queue_pair_ref
  std::uint32_t sequence = 0;  ///< of the channel; 0: no completion is owed
  std::uint32_t bytes = 0;     ///< that it reads
};

/// An entry in the table of backings, in pinned memory. It exists entry_places times: loads of one
/// line of pinned memory go across the bus one after the other, about a million a second.
struct alignas(64) block_entry {
  /// Address of the nvme::block_backing in GPU memory; 0: the daemon serves the file.
  std::uint64_t backing;
  /// Nonzero: a command had no answer in time, or the host has reset the controller. From then on
  /// the daemon serves the file. Both sides set it.
  std::uint64_t failed;
};
inline constexpr unsigned entry_places = 64;

struct block_files_ref {
  block_entry* table = nullptr;       ///< rpc::most_backings rows of entry_places, in pinned memory
  block_command* commands = nullptr;  ///< of each channel
};

}  // namespace gpufs::handle
