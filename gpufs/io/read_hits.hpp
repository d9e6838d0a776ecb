// The fast half of gread: pages that are in the cache. Every warp finds, pins and copies by itself;
// nothing is shared.
#pragma once

#include <gpufs/io/group.hpp>
#include <gpufs/io/move_pages.hpp>

#include <cstdint>

namespace gpufs::detail {

/// What a warp's share of a batch came to.
struct hits_read {
  missing_pages missing;
  bool leads_hit =
      false;  ///< teams: this warp leads the team of a page that was there; counted by the caller
  read_stop stop;
};

/// Delivers those pages of a batch that are in the cache and fall to warp `warp` of `warps`, each
/// page whole. All lanes of the warp call.
GPUFS_STAGE inline hits_read read_hits(fs_ref const* handle, read_span const span,
                                       std::uint64_t first, unsigned batch, unsigned warp,
                                       unsigned warps) {
  fs_ref const& fs = *handle;
  hits_read r;
  std::uint64_t hits = 0;
  for (unsigned i = warp; i < batch; i += warps) {
    lookup const found = find_and_pin(fs.cache, span.uid, first + i);
    if (found.result == lookup_result::absent) {
      r.missing.todo |= 1u << i;
      r.missing.absent |= 1u << i;
      continue;
    }
    if (found.result == lookup_result::hit) {
      page_target const t = span.target(first + i, found.valid);
      warp_copy(t.base + t.begin, frame_bytes(fs.cache, found.frame) + t.begin, t.end - t.begin);
      __syncwarp();  // all lanes have read before the pin goes
      r.stop.note_page(span, first + i, {found.valid, 0});
      ++hits;
    } else {
      r.missing.todo |= 1u << i;  // it is waited for when nothing is owed to anybody
    }
    if (lane_id() == 0) unpin_read(fs.cache.headers[found.frame]);
  }
  __syncwarp();
  if (lane_id() == 0) count(fs, counter::hits, hits);
  return r;
}

/// The same for pages so large that a team of warps copies each: page i falls to warps [i * team,
/// (i + 1) * team), of which each finds and pins it by itself, so that hits need no barrier. batch
/// * team <= warps of the block.
GPUFS_STAGE inline hits_read read_hit_slice(fs_ref const* handle, read_span const span,
                                            std::uint64_t first, unsigned batch, unsigned team,
                                            unsigned warp) {
  fs_ref const& fs = *handle;
  unsigned const mine = warp / team;
  unsigned const member = warp % team;
  hits_read r;
  if (mine >= batch) return r;
  lookup const found = find_and_pin(fs.cache, span.uid, first + mine);
  if (found.result != lookup_result::hit) r.missing.todo = 1u << mine;
  if (found.result == lookup_result::absent) {
    r.missing.absent = 1u << mine;
    return r;
  }
  r.leads_hit = found.result == lookup_result::hit && member == 0;
  if (found.result == lookup_result::hit)
    copy_slice(fs, span, first + mine, found.frame, found.valid, member, team);
  __syncwarp();  // all lanes have read before the pin goes
  if (lane_id() == 0) unpin_read(fs.cache.headers[found.frame]);
  if (r.leads_hit) r.stop.note_page(span, first + mine, {found.valid, 0});
  return r;
}

}  // namespace gpufs::detail
