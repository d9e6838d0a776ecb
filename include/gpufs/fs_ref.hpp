// The handle of a filesystem that kernels take by value: pointers and sizes, nothing owned.
#pragma once

#include <gpufs/cache/lra_queue.hpp>
#include <gpufs/config.hpp>
#include <gpufs/rpc/window_format.hpp>
#include <gpufs/rpc/wire_format.hpp>

#include <prefetcher/readahead_state.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpufs {

using rpc::file_status;

/// Flag of gopen and filesystem::open: the file is written and never read back through this
/// descriptor, so that nothing is fetched before a write. Implies O_WRONLY. What others read of the
/// file meanwhile is unspecified; after gfsync or gclose, gopen sees what was written.
inline constexpr int O_GWRONCE = static_cast<int>(rpc::open_write_once);

/// Pages a frame can be found by, the frames, and the state of their replacement. See gpufs/cache/.
struct page_cache_ref {
  std::uint64_t* buckets = nullptr;        ///< bucket_count x 32 entries
  std::uint32_t* bucket_locks = nullptr;   ///< bucket_count
  struct frame_header* headers = nullptr;  ///< frame_count
  std::byte* frames = nullptr;             ///< frame_count << page_shift bytes
  std::uint64_t* sweep_hand = nullptr;     ///< next candidate of the global sweep
  std::uint64_t bucket_count = 0;
  std::uint32_t frame_count = 0;
  std::uint32_t page_shift = 0;
  replacement policy = replacement::fifo;
  lra_ref lra;
};

/// Channels: a completion word and a piece of staging each, owned by one device caller at a time.
/// See gpufs/rpc/client.hpp.
struct channel_pool_ref {
  struct channel_state* states = nullptr;  ///< one per channel, in GPU memory
  std::uint32_t first = 0;                 ///< channel number of the first
  std::uint32_t count = 0;
  std::uint64_t staging = 0;  ///< byte offset of the first channel's piece in the staging region
  std::uint64_t bytes = 0;    ///< size of each piece
  std::uint32_t spacing =
      1;  ///< channels from where one warp starts to look to where the next one does
};

/// The prefetch buffers. See prefetcher/readahead.hpp.
struct prefetch_ref {
  prefetch::readahead_state* states = nullptr;  ///< one per context slot; null = no prefetching
  channel_pool_ref channels;                    ///< one chunk each
  std::uint64_t chunk_bytes =
      0;  ///< longest request: PAGE_SIZE + PREFETCH_SIZE, or the automatic window's unit
  std::uint32_t depth = 0;
  bool automatic = false;
};

/// Dirty pages and what device code knows of files that are written. See
/// gpufs/cache/write_buffer.hpp and gpufs/io/shared_file.hpp.
struct write_ref {
  struct buffer_state* buffers = nullptr;  ///< one per write buffer; null = files cannot be written
  std::uint32_t* frame_buffers = nullptr;  ///< per frame: lock << 31 | 1 + write buffer
  std::uint64_t* hand = nullptr;           ///< where the search for a clean write buffer goes on
  struct shared_file* files = nullptr;     ///< by place
  std::uint32_t* write_counters =
      nullptr;  ///< by hash of file version and region: see write_counter()
};

/// Windows of files that kernels read by themselves. See gpufs/io/windows.hpp.
struct window_table_ref {
  rpc::window_entry* entries =
      nullptr;              ///< in GPU memory, written by the host; null = files are not mapped
  std::uint32_t mask = 0;   ///< how many there are, less one: a power of two
  std::uint32_t shift = 0;  ///< log2 of a window's bytes
};

/// Words from one ring's tail to the next: a cache line.
inline constexpr std::uint64_t tail_stride = 16;

/// What a kernel needs of a filesystem. Trivially copyable; valid while the gpufs::filesystem
/// lives.
struct fs_ref {
  fs_ref const* self = nullptr;  ///< this handle in GPU memory
  rpc::shared_region shared;     ///< pinned host memory, one address on both sides
  std::byte* twin =
      nullptr;  ///< GPU memory as large as staging, to which the daemon copies; null: it does not
  std::uint64_t* tails = nullptr;  ///< next ticket of each ring, tail_stride apart, in GPU memory
  page_cache_ref cache;
  channel_pool_ref control_channels;  ///< 4 KiB pieces for paths and answers
  channel_pool_ref page_channels;     ///< one page each
  prefetch_ref prefetch;
  struct record_share* records =
      nullptr;                     ///< record_shares, in GPU memory: see gpufs/io/file_record.hpp
  std::uint32_t* slots = nullptr;  ///< context slots: 0 = free, 1 = claimed
  std::uint32_t* claimed_slots = nullptr;   ///< how many are claimed
  std::uint32_t* advice_changes = nullptr;  ///< how often kernels have advised; beside
                                            ///< claimed_slots, which is looked at together with it
  std::uint32_t slot_count = 0;
  std::uint64_t* counters = nullptr;  ///< statistics, counter_stripes x counters_per_stripe
  std::uint64_t timeout_ns = 0;
  std::uint32_t* pulls_under_way = nullptr;  ///< warps that are pulling from staging
  std::uint32_t most_pulls = 0;
  std::uint32_t* async_channels = nullptr;  ///< page channels held by gread_async
  write_ref writes;
  std::uint32_t* mappings = nullptr;     ///< per frame: how many gmmaps of it have not been undone
  std::uint32_t* keepers = nullptr;      ///< per frame: for how many threads arrays keep it
  std::uint32_t* kept_frames = nullptr;  ///< of these, how many are not 0
  window_table_ref windows;
};
static_assert(std::is_trivially_copyable_v<fs_ref>);

}  // namespace gpufs
