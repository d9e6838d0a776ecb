// Run-time settings of a gpufs::filesystem: one struct, one validator, one documented entry per
// setting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs {

/// Which host I/O engine serves requests. `automatic` takes io_uring where the kernel allows it,
/// else pread threads.
enum class io_backend { automatic, uring, pread };

/// How the bytes of a miss reach GPU memory: `pull`: read through the OS page cache into pinned
/// memory, which the kernel reads; `direct`: the same, but past the OS page cache (O_DIRECT) where
/// the file system allows it; `automatic`: direct what the OS page cache does not have, as samples
/// show, and of files that are advised to be read at random (gfadvise, filesystem::advise) windows
/// that it has are mapped for the GPU, which from then on reads them there by itself; `dma`: direct
/// or not as `automatic`, then large requests are copied to GPU memory by its copy engine;
/// `mapped`: as `automatic`, with windows of all files.
enum class io_path { automatic, pull, dma, direct, mapped };

/// Page replacement policy.
enum class replacement { lra, fifo, clock };

/// config::prefetch_size: no fixed size, but a window that grows while a caller reads sequentially
/// and collapses when it does not.
inline constexpr std::uint64_t prefetch_automatic = ~0ull;

/// Every setting with its default. Fill it in code, then layer a file, the environment and the
/// command line over it (later ones win): code < gpufs.toml < GPUFS_* < command line. `validate()`
/// is called by the filesystem's constructor. As text, in files and so on, settings are called what
/// their members are, but io_backend, io_path, replacement, rpc_timeout and dma_timeout
/// (milliseconds, or with suffix ms or s); sizes take suffixes as parse_size() does; `auto` is
/// io_backend::automatic.
struct config {
  std::uint64_t page_size = 64 << 10;     ///< bytes, a power of two from 512 to 4194304
  std::uint64_t cache_size = 1ull << 30;  ///< bytes of page frames in GPU memory; at least 8 pages
  std::uint64_t prefetch_size = prefetch_automatic;  ///< bytes read ahead per miss, a multiple of
                                                     ///< page_size; 0 = off; or automatic
  std::uint32_t prefetch_depth = 1;  ///< with a fixed prefetch_size: requests on their way beyond
                                     ///< the one being consumed, 0..16
  std::uint64_t prefetch_memory =
      256ull << 20;  ///< bytes of pinned host memory for prefetch buffers; a multiple of 4096, at
                     ///< least 8 x (page_size + prefetch_size)
  std::uint32_t host_threads =
      0;  ///< daemon threads, 1..256; 0 = one per core less two, at least 1, at most 14
  io_backend backend = io_backend::automatic;  ///< auto | uring | pread
  io_path path = io_path::automatic;           ///< auto | pull | dma | direct | mapped
  replacement policy = replacement::lra;       ///< lra | fifo | clock
  std::uint32_t rpc_timeout_ms =
      10000;                         ///< longest wait of a device caller for the host, 1..3600000
  std::uint32_t dma_timeout_ms = 3;  ///< with io_path dma: how long a copy may make no progress
                                     ///< before the kernel pulls instead, 1..60000
  std::uint64_t staging_size = 256ull << 20;  ///< bytes of pinned host memory that misses land in;
                                              ///< a multiple of 4096, at least 8 pages
  std::uint64_t write_memory =
      128ull << 20;  ///< bytes of pinned host memory for dirty pages, taken whether or not any file
                     ///< is written; a multiple of 4096; at most half as many pages as the cache
                     ///< has are dirty at once; 0 = none: files cannot be written
  std::uint64_t window_size = 16ull
                              << 20;  ///< io_path mapped and auto: bytes of a file mapped together,
                                      ///< a power of two, 64K to 1G, at least page_size
  std::uint64_t mapped_memory = 8ull << 30;  ///< io_path mapped and auto: most bytes of files
                                             ///< mapped at once, at least window_size; 0 = none
  std::uint32_t pulls_in_flight =
      1024;  ///< warps that pull up to 4 KiB each over the bus at once, 1..65536
  std::uint32_t max_open_files = 8192;  ///< descriptors open at once, 1..65536
  std::uint32_t context_slots = 1024;   ///< threadblocks that can own a prefetch buffer and a
                                        ///< replacement queue at once, 1..65536
};

/// Which files may be mapped for the GPU. The one place that says so; docs/design.md, "Mapped
/// files", has the measurements behind it.
enum class mapped_files { none, advised_random, all };
[[nodiscard]] constexpr mapped_files files_to_map(config const& c) {
  if (c.mapped_memory == 0) return mapped_files::none;
  return c.path == io_path::mapped      ? mapped_files::all
         : c.path == io_path::automatic ? mapped_files::advised_random
                                        : mapped_files::none;
}

/// Thrown for a setting that is wrong. what() names the setting as it was given (`GPUFS_PAGE_SIZE`,
/// `--page-size`, `page_size` in FILE), the value, and what is allowed.
struct config_error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// One documented setting: its key in gpufs.toml, from which the environment variable (GPUFS_ +
/// upper case) and the command-line flag (-- + dashes for underscores) follow.
struct setting {
  std::string_view key;
  std::string_view help;  ///< one line with unit and allowed values
  std::function<void(config&, std::string_view value, std::string_view origin)>
      assign;  ///< throws config_error naming `origin`
  std::function<std::string(config const&)> print;
  [[nodiscard]] std::string environment_name() const;  ///< GPUFS_PAGE_SIZE
  [[nodiscard]] std::string flag() const;              ///< --page-size
};

/// All settings, in the order in which they are documented.
[[nodiscard]] std::vector<setting> const& settings();

/// Parses a size: digits with an optional suffix K, M, G or T (powers of 1024, case-insensitive, an
/// optional "iB" or "B" after it). Throws config_error naming `origin` for anything else, or when
/// it does not fit 64 bits.
[[nodiscard]] std::uint64_t parse_size(std::string_view text, std::string_view origin);

/// Prints a size so that parse_size reads it back exactly: 65536 -> "64K", 3000 -> "3000".
[[nodiscard]] std::string format_size(std::uint64_t bytes);

/// Overrides `c` by the keys of a TOML file, integers or strings. Syntax errors, unknown keys,
/// wrong types and bad values throw config_error with file, line and key.
void load_file(config& c, std::filesystem::path const& file);

/// Overrides `c` by GPUFS_<KEY> environment variables; others that begin with GPUFS_ are left to
/// those who know them. Throws config_error naming the variable.
void load_environment(config& c);

/// The usual start: defaults, then `gpufs.toml` in the working directory if there is one (or the
/// file that GPUFS_CONFIG names, which must exist), then the environment.
[[nodiscard]] config load_config(config defaults = {});

/// Checks each setting and how they fit together. Throws config_error naming the first one that is
/// wrong, its value and the remedy.
void validate(config const& c);

}  // namespace gpufs
