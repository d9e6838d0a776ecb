// Block files: NVMe drives, or files and memory behind a software NVMe controller, attached to a
// filesystem under a name. Kernels and the host open them as "nvme:NAME".
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace gpufs::nvme {

/// How several members make one block file.
/// striped     Stripes go to the members in turn. All members count as large as the smallest.
/// replicated  Each member has all bytes. Reads take turns. Writes go to all members.
///
/// A replicated write fails if one member fails. The members may differ there until the same bytes
/// are written again.
enum class layout { striped, replicated };

/// Members behind software controllers of this process.
struct software_options {
  /// Regular files or block devices, one a member. Their sizes stay as they are, and are whole
  /// blocks unless read_only. A member is locked (flock) against other writers of this kind.
  std::vector<std::filesystem::path> members{};
  /// Without paths: bytes of zeroed memory of each member, 0 if there are paths.
  std::uint64_t memory = 0;
  /// Without paths: the number of members, 1..64.
  unsigned memory_members = 1;

  layout how = layout::striped;
  /// Bytes, a power of two, at least config::page_size and a block.
  std::uint64_t stripe = 128 << 10;
  /// Threads of each member's controller, 1..64. 0: config::nvme_threads.
  unsigned threads = 0;
  /// Bytes of a block, 512 or 4096, at most config::page_size.
  unsigned lba = 512;
  /// Opens members for reading only. Opens for writing then return -EROFS. Bytes of the last block
  /// behind the end of a member are zeros.
  bool read_only = false;
};

/// Drives that vfio-pci holds, all of them for this process alone.
struct vfio_options {
  /// PCI addresses such as 0000:03:00.0, one a member.
  std::vector<std::string> devices{};
  /// The namespace of each drive.
  std::uint32_t nsid = 1;

  layout how = layout::striped;
  /// As software_options::stripe.
  std::uint64_t stripe = 128 << 10;
};

/// What was done with an attached block file since it was attached. Sums over its members.
struct attachment_statistics {
  /// Commands sent. Those that were sent again count again.
  std::uint64_t commands = 0;
  /// Of these, flushes.
  std::uint64_t flushes = 0;
  /// Bytes that commands have moved. Replicas count each.
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  /// Commands that were sent again, as their status allowed it.
  std::uint64_t retries = 0;
  /// Commands that ended with an error, by status code (type << 8 | code).
  std::map<std::uint16_t, std::uint64_t> errors{};
  /// Of these, mistakes of the driver itself.
  std::uint64_t own_faults = 0;
  /// Commands without an answer in time.
  std::uint64_t timeouts = 0;
  /// Completions of no command.
  std::uint64_t strays = 0;
  /// Resets of controllers.
  std::uint64_t resets = 0;
  /// From a command to its answer, nanoseconds.
  std::uint64_t longest_wait_ns = 0;

  /// Queue pairs that kernels drive, of all members. 0: why_no_device_queues says why.
  std::uint64_t device_queue_pairs = 0;
  /// Commands of kernels whose completions they have taken. The counters above are the host's.
  std::uint64_t device_commands = 0;
  std::string why_no_device_queues{};
};

}  // namespace gpufs::nvme
