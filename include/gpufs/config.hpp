// Run-time settings of a gpufs::filesystem, as a plain struct. The text forms of the settings are
// in gpufs/settings.hpp, which this header includes. Runtime compilation (NVRTC) sees the struct
// only.
#pragma once

#include <cstdint>
#if !defined(__CUDACC_RTC__)
#include <string>
#endif

namespace gpufs {

/// The host I/O engine that serves requests.
/// automatic  io_uring where the kernel allows it, else pread threads.
enum class io_backend { automatic, uring, pread };

/// How the bytes of a miss reach GPU memory.
/// pull        Read through the OS page cache into pinned memory. The kernel copies from there.
/// direct      As pull, with O_DIRECT where the file system allows it.
///
/// automatic   Direct, if samples show that the OS page cache lacks the data. Cached file windows
///             that are read at random are registered. The GPU reads them itself from then on.
///
///             Random access is noticed. Advice (gfadvise, filesystem::advise) overrides that:
///             `random` registers a file at its first read, `sequential` forbids it.
///
/// dma         Direct or not as automatic. The copy engine moves large requests to GPU memory.
/// registered  As automatic, with file windows of all files.
enum class io_path { automatic, pull, dma, direct, registered };

/// What the log of the process has, on stderr. Each level includes those before it.
/// off    Nothing.
/// error  What makes a call or a filesystem fail.
/// warn   What was asked for and is not done, such as a trace that cannot be written.
/// info   What filesystem::notes() says, as it happens. Filesystems that begin and end.
/// debug  Files that are opened.
enum class log_level { off, error, warn, info, debug };

/// Page replacement policy.
enum class replacement { lra, fifo, clock };

/// Value of config::prefetch_size: the readahead depth grows while a caller reads sequentially, and
/// a read that is not sequential ends it.
inline constexpr std::uint64_t prefetch_automatic = ~0ull;

/// Every setting with its default. filesystem's constructor calls validate().
///
/// Fill it in code, then layer text over it: gpufs.toml, then GPUFS_* variables, then the command
/// line. Later ones win; see gpufs/settings.hpp.
///
/// As text, settings have the names of the members, except io_backend, io_path, replacement,
/// rpc_timeout and dma_timeout. Sizes take suffixes as for parse_size(). Times are in milliseconds
/// or have the suffix ms or s.
struct config {
  /// Bytes, a power of two from 512 to 4194304. A read of a few bytes fetches whole pages, so small
  /// pages suit most patterns. Readahead makes them as fast as large ones for streams of many
  /// blocks. Larger pages suit one block alone, and hits of whole large pages.
  std::uint64_t page_size = 4 << 10;

  /// Bytes of page frames in GPU memory, at least 8 pages, at most 16 TiB and 2^31 pages.
  std::uint64_t cache_size = 1ull << 30;

  /// Bytes read ahead for each miss, a multiple of page_size up to 512 MiB; 0 = off. Or
  /// prefetch_automatic (as text: auto): the depth follows from the reads.
  std::uint64_t prefetch_size = prefetch_automatic;

  /// With a fixed prefetch_size: requests under way beyond the one being consumed, 0..16. With 8 or
  /// more, further ones are made when a quarter of them is used up.
  std::uint32_t prefetch_depth = 1;

  /// Bytes of pinned host memory for prefetch buffers, a multiple of 4096 from 64 KiB to 1 TiB.
  /// At least page_size; with a fixed prefetch_size at least 8 x (page_size + prefetch_size); with
  /// prefetch_size = 0 any.
  std::uint64_t prefetch_memory = 256ull << 20;

  /// Daemon threads, 1..256; 0 = one per core less two, at least 1, at most 14.
  std::uint32_t host_threads = 0;

  /// As text: auto | uring | pread.
  io_backend backend = io_backend::automatic;

  /// As text: auto | pull | dma | direct | registered.
  io_path path = io_path::automatic;

  /// Whether the daemon maps files that are read and not written, and copies short reads of warm
  /// pages out of the mapping. That saves a system call each. The process needs address space for
  /// it, and a handler for SIGBUS, which passes on what is not its own. As text: on | off.
  bool views = true;

  /// As text: lra | fifo | clock. The default follows the GPUfs readahead paper, section 5.1.
  replacement policy = replacement::lra;

  /// Milliseconds that a device caller waits for the host at most, 1..3600000. gftruncate, gunlink
  /// and gopen with O_TRUNC wait longer if the host has begun; see io.hpp.
  std::uint32_t rpc_timeout_ms = 10000;

  /// With io_path dma: milliseconds without progress of a copy before the kernel pulls instead,
  /// 1..60000.
  std::uint32_t dma_timeout_ms = 3;

  /// Bytes of pinned host memory that misses land in, a multiple of 4096. At least 64 KiB and 8
  /// pages, at most 1 TiB.
  std::uint64_t staging_size = 256ull << 20;

  /// Bytes of pinned host memory for dirty pages, a multiple of 4096 from page_size to 1 TiB; 0 =
  /// files cannot be written. At most half as many pages as the cache has are dirty at once.
  ///
  /// It is pinned even if no file is written. A kernel may be the first to open a file for writing,
  /// and pinning then could wait for that kernel.
  std::uint64_t write_memory = 128ull << 20;

  /// Bytes that kernels have written to a file before the host asks the operating system to begin
  /// to put them on the disk, up to 1 TiB. A gfsync then finds little to do. The host asks only
  /// while another daemon thread is free to write, so never with host_threads = 1.
  ///
  /// 0 = never: the system begins after seconds or at a gfsync. This serves files that are removed
  /// soon or written over and over.
  std::uint64_t write_behind = 8ull << 20;

  /// With io_path registered and auto: bytes of a file window. A power of two from 64 KiB to 1 GiB,
  /// at least page_size.
  std::uint64_t file_window_size = 16ull << 20;

  /// With io_path registered and auto: bytes of files registered at once, at most. From
  /// file_window_size to 1 TiB; 0 = none. With auto a quarter of the host's memory is a second
  /// limit, as the host cannot reclaim this memory.
  std::uint64_t registered_memory = 8ull << 30;

  /// Warps that pull up to 4 KiB each over the bus at once, 1..65536; the others wait. Beyond what
  /// the bus needs nothing is gained: 64 KiB pages came at 42.7 GB/s with 96, 47.4 with 1024.
  std::uint32_t pulls_in_flight = 1024;

  /// Descriptors open at once, 1..65536.
  std::uint32_t max_open_files = 8192;

  /// Contexts that can own a prefetch buffer and a replacement queue at once, 1..65536.
  std::uint32_t seats = 4096;

  /// Queue pairs of each NVMe member, 0..128. 0: two for each thread of a software controller, 64
  /// of an attachment in all; up to 16 of a drive. Fewer if the controller grants fewer.
  std::uint32_t nvme_queue_pairs = 0;

  /// Entries of an NVMe submission queue, a power of two from 16 to 4096. Fewer if the controller
  /// allows fewer.
  std::uint32_t nvme_queue_depth = 1024;

  /// Threads of each software NVMe controller, 1..64; 0 = as many as daemon threads by default,
  /// shared by the members of an attachment, at least 1.
  std::uint32_t nvme_threads = 0;

  /// Whether each descriptor counts what kernels do through it, for filesystem::file_stats() and
  /// gfstats(). Takes 2 KiB of GPU memory for each of max_open_files. As text: on | off.
  bool file_counters = false;

  /// The log of the process: that of the filesystem that was made last.
  /// As text: off | error | warn | info | debug.
  log_level log = log_level::warn;

#if !defined(__CUDACC_RTC__)
  /// The file that each request to the host is written to; empty: none. "%p" in it stands for the
  /// number of the process. docs/tracing.md describes the lines.
  std::string trace{};
#endif
};

/// Files that may be registered for the GPU; see files_to_register().
/// noticed  Files advised random, as they are read. Other files, where they are read at random,
///          unless advised sequential.
enum class registered_files { none, noticed, all };

}  // namespace gpufs

#if !defined(__CUDACC_RTC__)
#include <gpufs/settings.hpp>
#endif
