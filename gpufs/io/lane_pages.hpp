// Pages for lanes: each lane of those that come to an access together names the page it needs; one
// lane per distinct page looks it up, pins it and, if need be, brings it in. How ActivePointers and
// paper 003 (section 4.1, warp coalescing) do it.
#pragma once

#include <gpufs/io/lane_fetch.hpp>
#include <gpufs/io/open.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::detail {

/// What a thread needs to access a file by itself.
struct lane_file {
  fs_ref const* handle = nullptr;
  page_cache_ref cache;
  used_file file;
  std::int32_t slot = -1;  ///< the context's, or -1

  __device__ lane_file(fs_ref const* fs, used_file const& used, std::int32_t context_slot)
      : handle(fs), cache(fs->cache), file(used), slot(context_slot) {}

  __device__ std::uint64_t page_bytes() const { return std::uint64_t(1) << cache.page_shift; }
  /// The page's name for a fetch. Pages of files that are written are cached in full.
  __device__ page_name name(std::uint64_t page) const {
    bool const whole = file.place != 0;
    std::uint64_t const begin = page << cache.page_shift;
    std::uint64_t const left = file.size > begin ? file.size - begin : 0;
    return {file.uid, page, file.fd, left < page_bytes() && !whole ? left : page_bytes(), whole};
  }
};

/// A page that lanes visit while it is pinned.
struct page_visit {
  bool here;       ///< the calling lane wants this page and it is there
  bool leads;      ///< the calling lane holds its pin
  unsigned peers;  ///< ranks of the lanes that want it
  std::uint32_t frame;
  std::uint64_t valid;  ///< bytes of the page that the file has
};

/// Those of the lanes that access the same descriptor of the same filesystem as the calling one.
__device__ __forceinline__ converged_group lanes_of_file(converged_group const& together,
                                                         lane_file const& f) {
  unsigned const same_fd = __match_any_sync(together.mask(), f.file.fd);
  return converged_group(__match_any_sync(same_fd, reinterpret_cast<std::uintptr_t>(f.handle)));
}

/// Brings uid and size of a file that is written up to date, if it has changed. The lanes of the
/// group call. Returns 0 or -EBADF.
__device__ __forceinline__ std::int32_t refresh(converged_group const& g, lane_file& f) {
  if (f.file.place == 0) return 0;
  shared_file& shared = f.handle->writes.files[f.file.place - 1];
  bool const changed =
      atomic_ref<std::uint64_t, scope::device>(shared.uid).load(memory_order_relaxed) != f.file.uid;
  if (!g.any(changed)) return 0;
  found_file now{f.file, 0};
  if (g.thread_rank() == 0) now = find_file(f.handle, f.file.fd, f.file);
  f.file.place = g.shfl(now.file.place, 0);
  f.file.uid = g.shfl(now.file.uid, 0);
  f.file.size = g.shfl(now.file.size, 0);
  return g.shfl(now.error, 0);
}

/// Whether a file that is written ends before byte `end`, by what gwrite and gftruncate have made
/// of it: its pages do not tell. Others' pages do.
__device__ __forceinline__ bool ends_before(lane_file& f, std::uint64_t end) {
  if (f.file.place == 0 || end <= f.file.size) return false;
  f.file.size =
      atomic_ref<std::uint64_t, scope::device>(f.handle->writes.files[f.file.place - 1].size)
          .load(memory_order_relaxed);
  return end > f.file.size;
}

/// Has visitor(group, page_visit) called by all lanes that come here together, with the page of
/// each pinned if it is there, until it has said true in each of them: the lane is done. `page`:
/// the one that the calling lane needs. What the visitor returns in a lane whose page is not there
/// is not looked at. Returns 0, or why the lane's page could not be had: -ENOMEM, -EIO, -ETIMEDOUT,
/// -EBADF, or the error of its fetch.
///
/// Each round lets go of its pins before the next one waits for frames, so that no lane keeps
/// another from getting one. Lanes that come separately, since their warp has diverged, are groups
/// of their own and need nothing of each other.
template <class Visitor>
__device__ __forceinline__ std::int32_t visit_pages(lane_file& f, std::uint64_t page,
                                                    Visitor const& visitor) {
  // Lanes that come to this instance of the template: what they do to their pages is the same.
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
    auto const first = static_cast<unsigned>(__ffs(static_cast<int>(peers)) - 1);
    bool const leads = pending && g.thread_rank() == first;
    page_entry e;
    if (leads) {
      lookup const found = lane_find_and_pin(f.cache, f.file.uid, page);
      if (found.result == lookup_result::filling) unpin_read(f.cache.headers[found.frame]);
      if (found.result == lookup_result::hit) {
        e.status = page_status::hit;
        e.frame = found.frame;
        e.got = found.valid;
      }
    }
    bool const missing = leads && e.status != page_status::hit;
    if (attempt == 0) {
      auto const hits = static_cast<unsigned>(__popc(g.ballot(leads && !missing)));
      if (g.thread_rank() == 0) count(*f.handle, counter::hits, hits);
    }
    if (g.any(missing)) {
      page_entry const fetched =
          fetch_for_lanes(f.handle, g.mask(), missing, f.name(page), f.slot, attempt);
      if (missing) e = fetched;
    }
    auto const status =
        static_cast<page_status>(g.shfl(static_cast<std::uint32_t>(e.status), first));
    page_visit visit{pending && status == page_status::hit, leads && e.status == page_status::hit,
                     peers, g.shfl(e.frame, first), g.shfl(e.got, first)};
    std::int32_t const failed = g.shfl(e.error, first);
    g.sync();  // all lanes come after the acquire of the one that pinned their page
    bool const done = visitor(g, visit);
    g.sync();  // all lanes are through with the page before its pin goes
    if (visit.leads && !Visitor::keeps_pins) {
      Visitor::stores ? unpin(f.cache.headers[e.frame]) : unpin_read(f.cache.headers[e.frame]);
    }
    bool const gets_on = visit.here && done;
    if (gets_on) pending = false;
    if (pending && status == page_status::failed) {
      error = failed;
      pending = false;
    }
    if (!g.any(pending)) return error;
    std::uint64_t const now = device_clock_ns();
    if (since == 0 || g.any(gets_on)) since = now;
    if (attempt % 16 == 15) {
      std::int32_t late = 0;
      if (g.thread_rank() == 0)
        late = daemon_stopped(*f.handle) ? -EIO : now - since > f.handle->timeout_ns ? -ENOMEM : 0;
      late = g.shfl(late, 0);
      if (late != 0) {
        if (pending) error = late;
        return error;
      }
    }
    backoff(pause, device_pause_ns);
  }
}

}  // namespace gpufs::detail
