// Block files: NVMe drives, or files and memory behind a software NVMe controller, attached to a
// filesystem under a name. Kernels and the host open them as "nvme:NAME". Any host thread calls.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::nvme {

/// How several members make one block file.
/// striped     Stripes go to the members in turn. All members count as large as the smallest.
/// replicated  Each member has all bytes. Reads take turns. Writes go to all members.
///
/// A read that fails goes to another replica. The one that failed is out of turn for a second.
/// A replicated write fails if one member fails. The members may differ there until the same bytes
/// are written again.
enum class layout { striped, replicated };

/// The speed of a drive. A member with a model is not faster than that drive: results made with it
/// are those of a modelled drive.
struct drive_model {
  // Commands a second, above 0. Those beyond 4 KiB take as long as their bytes in 4 KiB.
  double read_512;   ///< reads of 512 bytes
  double read_4k;    ///< reads of 4 KiB
  double write_512;  ///< writes of 512 bytes
  double write_4k;   ///< writes of 4 KiB
  /// Microseconds from a command to its answer, at least 0.
  double latency_us;
};

// Drives of table 2 of the BaM paper.
inline constexpr drive_model optane{5.1e6, 1.5e6, 1.0e6, 1.5e6, 11};
inline constexpr drive_model pm1735{1.1e6, 1.6e6, 0.35e6, 0.35e6, 25};
inline constexpr drive_model samsung_980pro{0.75e6, 0.75e6, 0.17e6, 0.17e6, 324};

/// Members behind software controllers of this process.
struct software_options {
  /// Regular files or block devices, one a member. Their sizes stay as they are, and are whole
  /// blocks unless read_only. A member is locked (flock) against other writers of this kind.
  std::vector<std::filesystem::path> members{};
  /// Without paths: bytes of zeroed memory of each member, 0 if there are paths.
  std::uint64_t memory = 0;
  /// Without paths: the number of members, 1..64.
  unsigned memory_members = 1;

  layout how = layout::striped;  ///< of the members
  /// Bytes, a power of two, at least config::page_size and a block.
  std::uint64_t stripe = 128 << 10;
  /// Threads of each member's controller, 1..64. 0: config::nvme_threads.
  unsigned threads = 0;
  /// Bytes of a block, 512 or 4096, at most config::page_size.
  unsigned lba = 512;
  /// Reads and writes members past the OS page cache (O_DIRECT), by whole pages of 4 KiB.
  bool direct = false;
  /// Each member behaves like this drive. Its threads poll, so it needs a core for each.
  std::optional<drive_model> model{};
  /// Opens members for reading only. Opens for writing then return -EROFS. Bytes of the last block
  /// behind the end of a member are zeros.
  bool read_only = false;
  /// As vfio_options::relay_doorbells. Kernels do not need it: for tests, and to measure its cost.
  bool relay_doorbells = false;
};

/// Drives that vfio-pci holds, all of them for this process alone.
struct vfio_options {
  /// PCI addresses such as 0000:03:00.0, one a member.
  std::vector<std::string> devices{};
  /// The namespace of each drive.
  std::uint32_t nsid = 1;

  layout how = layout::striped;  ///< of the members
  /// As software_options::stripe.
  std::uint64_t stripe = 128 << 10;
  /// Kernels store doorbells to pinned memory, and a thread of the host copies them to the drives.
  /// A GPU needs it to read by commands of its own. The thread spins while doorbells come.
  bool relay_doorbells = false;
};

/// What was done with an attached block file since it was attached. Sums over its members.
struct attachment_statistics {
  /// Commands sent. Those that were sent again count again.
  std::uint64_t commands = 0;
  /// Of these, flushes.
  std::uint64_t flushes = 0;
  /// Bytes that commands have moved. Replicas count each.
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;  ///< as bytes_read
  /// Commands that were sent again, as their status allowed it.
  std::uint64_t retries = 0;
  /// Commands that ended with an error, by status code (type << 8 | code).
  std::map<std::uint16_t, std::uint64_t> errors{};
  /// Of these, mistakes of the driver itself.
  std::uint64_t own_faults = 0;
  /// Reads that went on at another replica, after one had failed.
  std::uint64_t other_replicas = 0;
  /// Commands without an answer in time.
  std::uint64_t timeouts = 0;
  /// Doorbells that were rung, of both queues of a pair.
  std::uint64_t doorbells = 0;
  /// Looks at completion queues, and those that found nothing.
  std::uint64_t queue_looks = 0;
  std::uint64_t empty_looks = 0;  ///< of these, without a completion
  /// Completions of no command.
  std::uint64_t strays = 0;
  /// Resets of controllers.
  std::uint64_t resets = 0;
  /// Members behave like a drive_model.
  bool modelled = false;
  /// From a command to its answer, nanoseconds.
  std::uint64_t longest_wait_ns = 0;

  /// Queue pairs that kernels drive, of all members. 0: why_no_device_queues says why.
  std::uint64_t device_queue_pairs = 0;
  /// Commands of kernels whose completions they have taken. The counters above are the host's.
  std::uint64_t device_commands = 0;
  /// Of these, those that ended with an error. Kernels ask other replicas then.
  std::uint64_t device_errors = 0;
  /// Doorbells of kernels that a thread has passed on (relay_doorbells).
  std::uint64_t doorbells_relayed = 0;
  std::string why_no_device_queues{};  ///< empty: kernels read the file by themselves
};

}  // namespace gpufs::nvme
