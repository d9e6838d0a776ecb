// Settings of a gpufs::shared_memory, and options of its objects, as plain structs. Any host thread
// calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpufs {

/// When bytes of an object move between CPU and GPU (ADSM, section 4.3).
/// batch    All bytes move to the GPU at each launch and back at each synchronize(). No faults.
/// lazy     The whole object moves, on the first touch of the side that lacks it.
/// rolling  The same by blocks. Blocks that the CPU has written are sent while it writes others.
enum class coherence_protocol { batch, lazy, rolling };

/// What somebody does with bytes of an object.
enum class access { read, write, read_write };

/// Where bytes of an object should lie while launches use them. Advice decides before everything
/// else, as far as there is room.
/// automatic  The front of each object in GPU memory, in proportion.
/// device     In GPU memory.
/// host       In the host's memory, which the GPU uses over the bus.
/// atomics    In GPU memory, before all others: atomics over the bus are slow.
enum class memory_advice { automatic, device, host, atomics };

/// How pages that kernels have changed are found.
/// hash  Each page of 4 KiB has two hashes on the device, and those that differ are written. A
///       changed page is missed with a probability of 2^-64.
/// all   Each page of a block that the CPU or a call may have written is written, without a look.
enum class write_detection { hash, all };

/// How accesses of CPU threads are caught that have to wait for bytes.
/// automatic  As the environment variable GPUFS_FAULT_HANDLER says, signal or userfault. Else by
///            signal.
/// signal     By SIGSEGV. System calls that name such bytes fail with EFAULT, if the program is not
///            linked with gpufs_wrap_io().
/// userfault  By userfaultfd(2): system calls wait as well, and a fault takes longer. Needs Linux
///            6.4 and CAP_SYS_PTRACE, access to /dev/userfaultfd or vm.unprivileged_userfaultfd.
///            Where that is missing it is signal, and shared_memory::notes() says why.
enum class fault_handling { automatic, signal, userfault };

/// What memory objects lie in.
/// automatic  The CPU's bytes and the GPU's have memory of their own, as the protocols say.
/// managed    CUDA's managed memory, which the driver moves page by page, also if it is more than
///            the GPU has. docs/mapping.md says what has no effect then, and what is refused.
enum class memory_backing { automatic, managed };

/// Value of mapping_config::coherence_block and map_options::block: 2 MiB, but at most a sixteenth
/// of the object and at least 64 KiB.
inline constexpr std::uint64_t block_automatic = 0;

/// Value of mapping_config::rolling_size: the size follows from the faults.
inline constexpr std::uint32_t rolling_automatic = 0;

/// Value of mapping_config::pinned_memory: a quarter of the host's memory.
inline constexpr std::uint64_t pinned_automatic = ~0ull;

/// Value of mapping_config::host_memory: a quarter of the host's memory.
inline constexpr std::uint64_t host_memory_automatic = ~0ull;

/// Value of mapping_config::chunk_size: 64 MiB.
inline constexpr std::uint64_t chunk_automatic = 0;

/// Every setting of a shared_memory with its default. The constructor calls validate().
struct mapping_config {
  /// What memory objects lie in that do not choose it. With managed no addresses are reserved, and
  /// no object can choose the other.
  memory_backing backing = memory_backing::automatic;

  /// Bytes of addresses for all objects, from 64 GiB to 64 TiB, a multiple of 2 MiB. If the system
  /// refuses them, half of them are tried, down to 64 GiB; see shared_memory::notes().
  std::uint64_t address_space = 16ull << 40;

  /// Bytes of a block, the unit of coherence of rolling objects: a power of two from 4 KiB to
  /// 32 MiB, or block_automatic. Small blocks suit CPUs that touch single elements.
  std::uint64_t coherence_block = block_automatic;

  /// The protocol of objects that do not choose one.
  coherence_protocol protocol = coherence_protocol::rolling;

  /// Blocks that the CPU may have written and that are not under way to the GPU yet, 1..2^30, for
  /// all rolling objects together. Or rolling_automatic (ADSM, section 4.3).
  std::uint32_t rolling_size = rolling_automatic;

  /// With rolling_automatic: blocks per object at first, 1..1024.
  std::uint32_t rolling_per_object = 2;

  /// With rolling_automatic: one block more after so many writes to blocks that were just sent,
  /// 1..2^20. A launch that finds fewer written blocks than may be halves their number.
  std::uint32_t rolling_patience = 4;

  /// Most bytes of the CPU's side of objects that are pinned, so that the GPU copies them by
  /// itself: at several times the rate of other bytes. Pieces of 2 MiB are pinned, and whole
  /// smaller objects, once that takes less time than it saves. 0 = none, or pinned_automatic.
  std::uint64_t pinned_memory = pinned_automatic;

  /// Most bytes of GPU memory for objects; 0 = what is free, less a tenth. Objects that do not fit
  /// lie in the host's memory in part, and the GPU uses that over the bus.
  std::uint64_t device_memory = 0;

  /// Most bytes of the host's memory that the GPU uses over the bus; 0 = none, or
  /// host_memory_automatic. With spill_dir, what objects have in no other place counts as well.
  std::uint64_t host_memory = host_memory_automatic;

  /// Folder for bytes of anonymous and scratch objects that launches have left and host_memory does
  /// not hold. They lie in files without a name there. Empty: they stay in the host's memory. Batch
  /// and lazy objects stay there, too. Source: DRAGON's intermediate data.
  std::string spill_dir = {};

  /// File of profiles: which parts of 2 MiB of objects the launches with a name touch
  /// (shared_call::profile()). What they touch of managed objects is written there. Of others those
  /// parts are placed in GPU memory first. Empty: none.
  std::string mapping_profile = {};

  /// Objects move between GPU memory and the host by so many bytes: a power of two from 2 MiB to
  /// 1 GiB, or chunk_automatic. At least a block. Batch and lazy objects move as a whole.
  std::uint64_t chunk_size = chunk_automatic;

  /// Threads that read a file's bytes into GPU memory, or write them back, 1..256, for each object
  /// that is filled or written back.
  std::uint32_t fill_threads = 8;

  /// How accesses of CPU threads are caught.
  fault_handling fault_handler = fault_handling::automatic;

  /// How pages that kernels have changed are found when an object is written back.
  write_detection detect_writes = write_detection::hash;

  /// Kernels cannot store to objects of access::read: a launch that does so fails, as by an illegal
  /// access. Without it, such a store changes the GPU's copy, unseen by the CPU. For debugging. Not
  /// for managed memory. What a driver refuses is told by shared_memory::notes().
  bool guard_read_only = false;
};

/// What an object is used for, and what it does not take from mapping_config.
struct map_options {
  /// What kernels and the CPU do with a file's bytes. Anonymous objects: not looked at.
  /// read        Nobody stores to them. The file need not be writable. The CPU's side is the file
  ///             itself, in the OS page cache.
  /// write       The file is not read, but for the last size % 8 bytes. Bytes that nobody writes
  ///             stay as they were. A range of 8 bytes, counted from the begin of the file, is
  ///             written as a whole.
  /// read_write  Both.
  gpufs::access access = gpufs::access::read;

  /// Makes the file if it is missing, and gives it `length` bytes if it is shorter. Its blocks are
  /// allocated on the disk, so that a full disk shows here. Needs access write or read_write.
  bool create = false;

  /// Drops what the file had before. Needs access write or read_write.
  bool truncate = false;

  /// Bytes of the file; 0: up to its end. More than the file has needs `create`.
  std::uint64_t length = 0;

  /// Of the first byte in the file, a multiple of 4096.
  std::uint64_t offset = 0;

  /// The bytes begin as zeros and are never written back. The file gets its length, and keeps what
  /// it had. Needs access write or read_write.
  bool scratch = false;

  /// Reads the file into GPU memory from now on, beside the program. Not given: if `access` is
  /// read.
  std::optional<bool> eager = std::nullopt;

  /// Not given: mapping_config::protocol.
  std::optional<coherence_protocol> protocol = std::nullopt;

  /// What memory the object lies in. Not given: mapping_config::backing. If that is managed,
  /// `automatic` is refused, as no addresses are reserved for it.
  std::optional<memory_backing> backing = std::nullopt;

  /// As mapping_config::coherence_block. Not given: the value there. Lazy objects have one block.
  std::optional<std::uint64_t> block = std::nullopt;

  /// What happens when a CPU thread touches a block that a running call may write. Batch objects:
  /// not looked at.
  /// true   It waits for the call.
  /// false  It reads the device's bytes as they are at some moment of the call, and waits only to
  ///        write. docs/mapping.md says what that promises.
  bool wait_on_touch = true;

  /// Bytes that others write to the file at the same time are merged byte by byte. This is not
  /// there yet, and true is refused. Within a page of 4 KiB the last one who writes it back wins.
  bool coherent = false;
};

/// Checks each setting. Throws config_error naming the first wrong one, its value and the remedy.
void validate(mapping_config const& c);

}  // namespace gpufs
