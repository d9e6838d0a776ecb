#include <gpufs/cache/geometry.hpp>
#include <gpufs/owner/layout.hpp>
#include <gpufs/rpc/wire_format.hpp>

#include <algorithm>
#include <bit>

namespace gpufs::owner {

namespace {

// What is registered is memory that the operating system cannot use for anything else. A user who
// has not asked for that gives a quarter of it at most.
std::uint64_t budget_of_windows(config const& c, std::uint64_t host_memory) {
  registered_files const which = files_to_register(c);
  if (which == registered_files::none) return 0;
  std::uint64_t const most = which == registered_files::all
                                 ? c.registered_memory
                                 : std::min(c.registered_memory, host_memory / 4);
  return most < c.file_window_size ? 0 : most;
}

// The number of groups that share out `things`, a power of two. Each user has one of them. Groups
// are large enough that rounding takes little from any of them.
std::uint32_t groups_of(std::uint64_t things) {
  constexpr std::uint64_t smallest = 64, most = 256;
  return static_cast<std::uint32_t>(
      std::bit_floor(std::clamp<std::uint64_t>(things / smallest, 1, most)));
}

// How many elements of a page are loaded straight before the page is brought in. A load of an
// element costs about 64 bytes of the bus: a sector of 32 bytes, and the heads of its packets. So
// when the page is brought in at last, the loads before it have cost a quarter of what it costs. A
// page that is never wanted so often costs no more than its loads. Long pages stop at 32: lanes
// that walk through a page of their own wait for each of these loads.
std::uint32_t straight_loads_of(std::uint64_t page_size) {
  constexpr std::uint64_t fewest = 2, most = 32, bytes_per_load = 256;
  return static_cast<std::uint32_t>(std::clamp(page_size / bytes_per_load, fewest, most));
}

}  // namespace

layout layout::of(config const& c, unsigned daemon_threads, std::uint64_t host_memory) {
  // More page channels than warps can be resident on any GPU (a request belongs to one warp) would
  // never be used.
  constexpr std::uint64_t most_page_channels = 16384;
  constexpr auto staging_alignment = rpc::staging_unit;
  layout l{};
  l.frames = c.cache_size / c.page_size;
  l.buckets = std::max<std::uint64_t>(1, l.frames / cache::frames_per_bucket);
  // Segments: few enough frames that a small cache can be shared out fairly among a GPU's blocks,
  // enough that queues are rarely locked.
  constexpr std::uint64_t most_segments_of_small_caches = 512;
  auto const shares = std::min(4 * std::uint64_t(c.seats), most_segments_of_small_caches);
  l.segment_frames = std::clamp<std::uint64_t>(l.frames / shares, 1, 64);
  l.segments = (l.frames + l.segment_frames - 1) / l.segment_frames;
  l.control_channels = 256;
  l.page_piece = std::max(c.page_size, staging_alignment);
  l.page_channels = std::clamp<std::uint64_t>(c.staging_size / l.page_piece, 1, most_page_channels);
  if (c.prefetch_size != 0) {
    constexpr std::uint64_t automatic_chunk = 64 << 10;
    bool const automatic = c.prefetch_size == prefetch_automatic;
    l.chunk_bytes =
        automatic ? std::max(c.page_size, automatic_chunk) : c.page_size + c.prefetch_size;
    l.chunk_piece = (l.chunk_bytes + staging_alignment - 1) / staging_alignment * staging_alignment;
    l.chunk_channels =
        std::clamp<std::uint64_t>(c.prefetch_memory / l.chunk_piece, 1, most_page_channels);
  }
  l.channels = l.control_channels + l.page_channels + l.chunk_channels;
  l.rings = daemon_threads;
  l.ring_slots = std::bit_ceil((l.channels + l.rings - 1) / l.rings);
  l.staging_bytes = l.control_channels * control_piece + l.page_channels * l.page_piece +
                    l.chunk_channels * l.chunk_piece;
  // A dirty page keeps its frame pinned: with at most half of them, reads and replacement always
  // find others.
  if (c.write_memory != 0)
    l.write_buffers = std::clamp<std::uint64_t>(c.write_memory / c.page_size, 1, l.frames / 2);
  l.write_hands = groups_of(l.write_buffers);
  l.kept_groups = groups_of(l.frames);
  // Sparse, so that a window finds one of the few entries it may be in free; and with room for
  // files shorter than a window.
  l.window_budget = budget_of_windows(c, host_memory);
  if (l.window_budget != 0) {
    l.window_entries = std::bit_ceil(
        std::clamp<std::uint64_t>(8 * l.window_budget / c.file_window_size, 4096, 1 << 18));
    // Fewer than frames, so that pages that come and go in a file far larger than the cache stay
    // out.
    l.element_counts = std::max<std::uint64_t>(1, l.frames / 2);
    l.straight_loads = straight_loads_of(c.page_size);
  }
  return l;
}

}  // namespace gpufs::owner
