// The fast half of gread: pages in the cache. Every warp finds, pins and copies alone and shares
// nothing.
#pragma once

#include <gpufs/file/file_record.hpp>
#include <gpufs/io/group.hpp>
#include <gpufs/io/read/move_pages.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

/// The result of a warp's share of a batch.
struct hits_read {
  missing_pages missing;  ///< the other pages are hits, which the caller counts
  /// the file may have got another version since the group looked at its record
  bool outdated = false;
  read_stop stop;
};

/// Loads the word that shows whether the span's file is outdated. Call it before the look-ups: the
/// load is under way with theirs, and costs no trip of its own.
__device__ __forceinline__ std::uint32_t load_changes(fs_ref const& fs) {
  return file::file_changes(fs).load(memory_order_relaxed);
}
__device__ __forceinline__ bool is_outdated(read_span const& span, std::uint32_t changes) {
  return !span.zero_filled && changes != span.changes;
}

/// Delivers the batch's cached pages that fall to warp `warp` of `warps`. One warp delivers a page.
/// All lanes of the warp call.
GPUFS_LIBRARY_STAGE hits_read read_hits(fs_ref const* __restrict__ handle, read_span const span,
                                        std::uint64_t first, unsigned batch, unsigned warp,
                                        unsigned warps) {
  // A copy: each access would load its members again, behind the stores of a whole page.
  handle::page_cache_ref const cache = handle->cache;
  hits_read r;
  std::uint32_t const changes = load_changes(*handle);
  for (unsigned i = warp; i < batch; i += warps) {
    cache::lookup const found = cache::find_and_pin(cache, span.version, first + i);
    if (found.result == cache::lookup_result::absent) {
      r.missing.todo |= 1u << i;
      r.missing.absent |= 1u << i;
      continue;
    }
    if (found.result == cache::lookup_result::hit) {
      page_target const t = span.target(first + i, found.valid);
      if (t.begin < t.end)
        warp_copy(t.base + t.begin, cache::frame_bytes(cache, found.frame) + t.begin,
                  t.end - t.begin);
      __syncwarp();  // all lanes have read before the pin goes
      r.stop.note_page(span, first + i, {found.valid, 0});
    } else {
      r.missing.todo |= 1u << i;  // waited for later, when the group owes no page
    }
    if (lane_id() == 0) cache::unpin_read(cache.headers[found.frame]);
  }
  __syncwarp();
  r.outdated = is_outdated(span, changes);
  return r;
}

/// The same for pages that a team of warps copies: page i belongs to warps [i * team, (i + 1) *
/// team). Each warp of the team finds and pins it alone, so hits need no barrier. batch * team is
/// at most the number of the block's warps. All lanes of the warp call.
GPUFS_LIBRARY_STAGE hits_read read_hit_slice(fs_ref const* __restrict__ handle,
                                             read_span const span, std::uint64_t first,
                                             unsigned batch, unsigned team, unsigned warp) {
  fs_ref const& fs = *handle;
  unsigned const mine = warp / team;
  unsigned const member = warp % team;
  hits_read r;
  if (mine >= batch) return r;
  std::uint32_t const changes = load_changes(fs);
  cache::lookup const found = cache::find_and_pin(fs.cache, span.version, first + mine);
  if (found.result != cache::lookup_result::hit) r.missing.todo = 1u << mine;
  r.outdated = is_outdated(span, changes);
  if (found.result == cache::lookup_result::absent) {
    r.missing.absent = 1u << mine;
    return r;
  }
  if (found.result == cache::lookup_result::hit)
    copy_slice(fs, span, first + mine, found.frame, found.valid, member, team);
  __syncwarp();  // all lanes have read before the pin goes
  if (lane_id() == 0) cache::unpin_read(fs.cache.headers[found.frame]);
  if (found.result == cache::lookup_result::hit && member == 0)
    r.stop.note_page(span, first + mine, {found.valid, 0});
  return r;
}

}  // namespace gpufs::io
