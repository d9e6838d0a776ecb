// Visits pages for lanes that come to an access together. Each lane names its page, and one lane
// per distinct page looks it up, pins it and brings it in. ActivePointers and BaM (BaM paper,
// section 4.1, warp coalescing) do the same.
#pragma once

#include <gpufs/io/element/lane_fetch.hpp>
#include <gpufs/io/open.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::io {

/// The data a thread needs to access a file alone.
struct lane_file {
  fs_ref const* handle = nullptr;
  handle::page_cache_ref cache;
  file::used_file file;
  std::int32_t seat = -1;  ///< the context's, or -1

  __device__ lane_file(fs_ref const* fs, file::used_file const& used, std::int32_t seat)
      : handle(fs), cache(fs->cache), file(used), seat(seat) {}

  __device__ std::uint64_t page_bytes() const { return std::uint64_t(1) << cache.page_shift; }
  /// The page's name for a fetch. Pages of written files are cached in full.
  __device__ source::page_name name(std::uint64_t page) const {
    bool const zero_filled = file.write_index != 0;
    std::uint64_t const begin = page << cache.page_shift;
    std::uint64_t const left = file.size > begin ? file.size - begin : 0;
    return {file.version, page, file.fd, left < page_bytes() && !zero_filled ? left : page_bytes(),
            zero_filled};
  }
};

/// A page that lanes visit while it is pinned.
struct page_visit {
  bool here;       ///< the calling lane has work for this page, and it is pinned
  bool leads;      ///< the calling lane has its pin
  unsigned peers;  ///< ranks of the lanes that need it
  std::uint32_t frame;
  std::uint64_t valid;  ///< bytes of the page that the file has
};

/// The lanes that access the same descriptor of the same filesystem as the calling lane.
__device__ __forceinline__ converged_group lanes_of_file(converged_group const& together,
                                                         lane_file const& f) {
  unsigned const same_fd = __match_any_sync(together.mask(), f.file.fd);
  return converged_group(__match_any_sync(same_fd, reinterpret_cast<std::uintptr_t>(f.handle)));
}

/// Loads version and size of a written file again if the version has changed. All lanes of the
/// group call. Returns 0 or -EBADF.
__device__ __forceinline__ std::int32_t refresh(converged_group const& g, lane_file& f) {
  if (f.file.write_index == 0) return 0;
  file::shared_file& shared = f.handle->writes.files[f.file.write_index - 1];
  bool const changed =
      atomic_ref<std::uint64_t, scope::device>(shared.version).load(memory_order_relaxed) !=
      f.file.version;
  if (!g.any(changed)) return 0;
  found_file now{f.file, 0};
  if (g.thread_rank() == 0) now = find_file(f.handle, f.file.fd, f.file);
  f.file.write_index = g.shfl(now.file.write_index, 0);
  f.file.version = g.shfl(now.file.version, 0);
  f.file.size = g.shfl(now.file.size, 0);
  return g.shfl(now.error, 0);
}

/// Whether a written file ends before byte `end`, by the size that gwrite and gftruncate share.
/// Pages of a written file do not show its end. Other files' pages do, and for these it returns
/// false. Any thread calls.
__device__ __forceinline__ bool ends_before(lane_file& f, std::uint64_t end) {
  if (f.file.write_index == 0 || end <= f.file.size) return false;
  f.file.size =
      atomic_ref<std::uint64_t, scope::device>(f.handle->writes.files[f.file.write_index - 1].size)
          .load(memory_order_relaxed);
  return end > f.file.size;
}

/// Looks a page up. The status is hit, with a pin, or none. Any single thread calls.
__device__ __forceinline__ source::page_entry lane_look_up(lane_file const& f, std::uint64_t page) {
  source::page_entry e;
  cache::lookup const found = cache::lane_find_and_pin(f.cache, f.file.version, page);
  if (found.result == cache::lookup_result::filling)
    cache::unpin_read(f.cache.headers[found.frame]);
  if (found.result == cache::lookup_result::hit) {
    e.status = source::page_status::hit;
    e.frame = found.frame;
    e.got = found.valid;
  }
  return e;
}

/// Why lanes that have got nothing since `since` must stop trying: 0, -EIO if the daemon has
/// stopped, -ENOMEM at the deadline. All lanes of the group call.
__device__ __forceinline__ std::int32_t lanes_late(converged_group const& g, fs_ref const& fs,
                                                   std::uint64_t since) {
  std::int32_t late = 0;
  if (g.thread_rank() == 0) late = handle::wait_error(fs, since, -ENOMEM);
  return g.shfl(late, 0);
}

/// Calls visitor(group, page_visit) in rounds until it has returned true in each lane. All lanes
/// that come together call it, with the pages that are ready pinned. `page` is the calling lane's
/// page. The visitor's result does not count in a lane whose page is not ready. Returns 0, or the
/// reason why the lane's page is missing: -ENOMEM, -EIO, -ETIMEDOUT, -EBADF, or the error of its
/// fetch.
///
/// Each round gives its pins back before the next one waits for frames. So no lane keeps a frame
/// from another. A visitor with `keeps_pins` is the exception: pages of lanes that are done stay
/// pinned. If a warp has diverged, its lanes come in separate groups. These need nothing of each
/// other.
template <class Visitor>
__device__ __forceinline__ std::int32_t visit_pages(lane_file& f, std::uint64_t page,
                                                    Visitor const& visitor) {
  // Only lanes in this instance of the template come together, so all do the same with their pages.
  converged_group const g = lanes_of_file(converged(), f);
  bool pending = true;
  std::int32_t error = 0;
  std::uint64_t since = 0;
  unsigned pause = 0;
  for (unsigned attempt = 0;; ++attempt) {
    if (std::int32_t const bad = refresh(g, f); bad != 0) {
      if (pending) error = bad;
      return error;
    }
    unsigned const peers = g.match_any(pending ? page : ~0ull);
    auto const first = lowest_lane(peers);
    bool const leads = pending && g.thread_rank() == first;
    source::page_entry e;
    if (leads) e = lane_look_up(f, page);
    bool const missing = leads && e.status != source::page_status::hit;
    if (attempt == 0) {
      auto const hits = count_lanes(g.ballot(leads && !missing));
      if (g.thread_rank() == 0) handle::add(*f.handle, handle::counter::hits, hits);
    }
    if (g.any(missing)) {
      source::page_entry const fetched =
          fetch_for_lanes(f.handle, g.mask(), missing, f.name(page), f.seat, attempt);
      if (missing) e = fetched;
    }
    auto const status =
        static_cast<source::page_status>(g.shfl(static_cast<std::uint32_t>(e.status), first));
    page_visit visit{pending && status == source::page_status::hit,
                     leads && e.status == source::page_status::hit, peers, g.shfl(e.frame, first),
                     g.shfl(e.got, first)};
    std::int32_t const failed = g.shfl(e.error, first);
    g.sync();  // all lanes come after the acquire of the lane that pinned their page
    bool const done = visitor(g, visit);
    g.sync();  // all lanes are done with the page before its pin goes
    if (visit.leads && !Visitor::keeps_pins) {
      Visitor::stores ? cache::unpin(f.cache.headers[e.frame])
                      : cache::unpin_read(f.cache.headers[e.frame]);
    }
    bool const gets_on = visit.here && done;
    if (gets_on) pending = false;
    if (pending && status == source::page_status::failed) {
      error = failed;
      pending = false;
    }
    if (!g.any(pending)) return error;
    if (since == 0 || g.any(gets_on)) since = device_clock_ns();
    if (attempt % 16 == 15) {
      std::int32_t const late = lanes_late(g, *f.handle, since);
      if (late != 0) {
        if (pending) error = late;
        return error;
      }
    }
    backoff(pause, handle::device_pause_ns);
  }
}

}  // namespace gpufs::io
