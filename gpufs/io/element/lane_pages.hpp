// Visits pages for lanes that come to an access together. Each lane names its page, and one lane
// per distinct page looks it up, pins it and brings it in. ActivePointers and BaM (BaM paper,
// section 4.1, warp coalescing) do the same.
#pragma once

#include <gpufs/io/element/file_view.hpp>
#include <gpufs/io/element/lane_fetch.hpp>
#include <gpufs/io/element/lane_gate.hpp>
#include <gpufs/io/element/lanes_wait.hpp>
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
  through_bytes through;

  __device__ lane_file(fs_ref const* fs, file::used_file const& used, std::int32_t seat,
                       through_bytes const& through = {})
      : handle(fs), cache(fs->cache), file(used), seat(seat), through(through) {}

  __device__ std::uint64_t page_bytes() const { return std::uint64_t(1) << cache.page_shift; }
  /// The page's name for a fetch. Pages of written files are cached in full.
  __device__ source::page_name name(std::uint64_t page) const {
    bool const zero_filled = file.write_index != 0;
    std::uint64_t const begin = page << cache.page_shift;
    std::uint64_t const left = file.size > begin ? file.size - begin : 0;
    return {file.version, page, file.fd, left < page_bytes() && !zero_filled ? left : page_bytes(),
            zero_filled};
  }
  /// The part of a page that is written through. `page` has some of its bytes, or none is.
  __device__ rpc::byte_range block(std::uint64_t page) const {
    if (through.begin == through.end) return {0, 0};
    std::uint64_t const start = page << cache.page_shift;
    return {static_cast<std::uint32_t>(through.begin > start ? through.begin - start : 0),
            static_cast<std::uint32_t>(least(through.end - start, page_bytes()))};
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

/// Whether version and size of a file may have changed. Any thread calls.
__device__ __forceinline__ bool may_have_new_version(lane_file const& f) {
  if (f.file.write_index == 0) return file::is_outdated(*f.handle, f.file);
  file::shared_file& shared = file::shared_of(*f.handle, f.file);
  // Before the version, as in load_size(). They are in one sector, so the loads come in this order.
  std::uint64_t const noted = file::untaken_of(shared).load(memory_order_relaxed);
  if (f.file.version !=
      atomic_ref<std::uint64_t, scope::device>(shared.version).load(memory_order_relaxed))
    return true;
  return file::may_be_taken(*f.handle, f.file, noted);
}

/// The same for a group, whose lanes look pages up together. True also if their arrays were made of
/// two versions: refresh() gives all of them one. All lanes of the group call.
__device__ __forceinline__ bool has_new_version(converged_group const& g, lane_file const& f) {
  bool const differs = f.file.version != g.shfl(f.file.version, 0);  // each lane takes part
  return g.any(differs || may_have_new_version(f));
}

/// Loads version and size of a file again. All lanes of the group call, and hold nothing that
/// callers in gwrite wait for: the call may wait for these. Returns 0 or an error.
__device__ __forceinline__ std::int32_t refresh(converged_group const& g, lane_file& f) {
  found_file now{f.file, 0};
  if (g.thread_rank() == 0) now = find_file(f.handle, f.file.fd, f.file);
  f.file.write_index = g.shfl(now.file.write_index, 0);
  f.file.version = g.shfl(now.file.version, 0);
  f.file.size = g.shfl(now.file.size, 0);
  f.file.changes = g.shfl(now.file.changes, 0);
  return g.shfl(now.error, 0);
}

/// Where a file ends, as seen from a byte.
enum class file_end { behind, before, unknown };

/// Whether a written file ends before byte `end` or behind it, by the size that gwrite and
/// gftruncate share. Unknown: it has a new version, and the page that the caller has seen is of the
/// old one. Pages of a written file do not show its end. Other files' pages do, and for these it
/// returns `behind`. Any thread calls.
__device__ __forceinline__ file_end ends(lane_file& f, std::uint64_t end) {
  if (f.file.write_index == 0 || end <= f.file.size) return file_end::behind;
  if (!file::load_size(file::shared_of(*f.handle, f.file), f.file.version, f.file.size))
    return file_end::unknown;
  return end > f.file.size ? file_end::before : file_end::behind;
}

/// Looks a page up. The status is hit, with a pin, or none. Any single thread calls.
__device__ __forceinline__ source::fill lane_look_up(lane_file const& f, std::uint64_t page) {
  cache::lookup const found = cache::lane_find_and_pin(f.cache, f.file.version, page);
  if (found.result == cache::lookup_result::hit) return source::fill::by_look_up(found);
  if (found.result == cache::lookup_result::filling)
    cache::unpin_read(f.cache.headers[found.frame]);
  return {};
}

/// Looks up, or brings in, the page of each lane that `leads`. All lanes of the group call. Returns
/// the lane's page as fetch_for_lanes() does. With `alone` the lanes stay in the frame line.
__device__ __forceinline__ source::fill lanes_pin(converged_group const& g, lane_file const& f,
                                                  std::uint64_t page, bool leads, bool alone,
                                                  unsigned attempt, lanes_wait& wait,
                                                  lanes_round& round) {
  fs_ref const& fs = *f.handle;
  source::fill e;
  if (leads) e = lane_look_up(f, page);
  bool const missing = leads && e.status != source::page_status::hit;
  unsigned const found = g.ballot(leads && !missing);
  if (attempt == 0 && g.thread_rank() == 0)
    handle::count(fs, f.file.fd, handle::file_counter::hits, count_lanes(found));
  if (found != 0 && !alone) lanes_leave(g, fs, true, wait);
  if (!g.any(missing)) return e;
  fetched_page const fetched =
      fetch_for_lanes(f.handle, g.mask(), missing, f.name(page), f.seat, attempt, wait.turn, alone);
  if (missing) e = fetched.entry;
  if (fetched.left) wait.turn = cache::no_turn;
  round.lacks = g.any(missing && e.status == source::page_status::none);
  return e;
}

/// Gives back all that the lanes hold: their place in the frame line, their write buffer, and the
/// pages kept for lanes that are `done`. All lanes of the group call. True: this lane had a page.
template <class Visitor>
__device__ __forceinline__ bool lanes_let_go(converged_group const& g, fs_ref const& fs,
                                             Visitor const& visitor, lanes_wait& w, bool& done) {
  lanes_leave(g, fs, false, w);
  lanes_return_buffer(g, fs, w);
  bool const had = Visitor::keeps_pins && done;
  if constexpr (Visitor::keeps_pins)
    if (had) visitor.give_back();
  done = false;
  return had;
}

/// Calls visitor(group, page_visit, lanes_wait) in rounds until it has returned true in each lane,
/// with the pages that are ready pinned. All lanes of the group call; they access the same file.
/// `page` is the calling lane's page. The visitor's result does not count in a lane whose page is
/// not ready. Returns 0, or the reason why the lane's page is missing: -ENOMEM, -EIO, -ETIMEDOUT,
/// -EBADF, or the error of its fetch.
///
/// Each round gives its pins back before the next one waits for frames. So no lane keeps a frame
/// from another. With `keeps_pins`, lanes that are done keep their pages if no page lacks a frame.
/// Otherwise all pages are given back, and the group waits until it is the first in the frame line.
/// Only then it holds pages while it waits for more. The others in the line hold none.
template <class Visitor>
__device__ __forceinline__ std::int32_t visit_in_file(converged_group const& g, lane_file& f,
                                                      std::uint64_t page, Visitor const& visitor) {
  fs_ref const& fs = *f.handle;
  bool pending = true;
  bool done = false;
  std::int32_t error = 0;
  std::int32_t stop = 0;
  lanes_wait wait;
  unsigned pause = 0;
  for (unsigned attempt = 0; stop == 0; ++attempt) {
    if (has_new_version(g, f)) {
      pending |= lanes_let_go(g, fs, visitor, wait, done);
      if (stop = refresh(g, f); stop != 0) break;
    }
    unsigned const peers = g.match_any(pending ? page : ~0ull);
    auto const first = lowest_lane(peers);
    bool const leads = pending && g.thread_rank() == first;
    lanes_round round{false, false, false};
    source::fill const e = lanes_pin(g, f, page, leads, Visitor::keeps_pins, attempt, wait, round);
    auto const status =
        static_cast<source::page_status>(g.shfl(static_cast<std::uint32_t>(e.status), first));
    page_visit visit{pending && status == source::page_status::hit,
                     leads && e.status == source::page_status::hit, peers, g.shfl(e.frame, first),
                     g.shfl(e.got, first)};
    std::int32_t const failed = g.shfl(e.error, first);
    g.sync();  // all lanes come after the acquire of the lane that pinned their page
    bool const used = visitor(g, visit, wait);
    g.sync();  // all lanes are done with the page before its pin goes
    if (visit.leads && !Visitor::keeps_pins) {
      Visitor::stores ? cache::unpin(f.cache.headers[e.frame])
                      : cache::unpin_read(f.cache.headers[e.frame]);
    }
    bool const gets_on = visit.here && used;
    done |= gets_on;
    if (gets_on) pending = false;
    if (pending && status == source::page_status::failed) {
      error = failed;
      pending = false;
    }
    if (!g.any(pending)) break;
    round.got_on = g.any(gets_on);
    round.stuck = g.any(visit.here && !used) && !wait.kept_out;  // a buffer opens no gate
    // The one that closed it may wait for a writer, and the writer for a buffer.
    if (wait.kept_out) lanes_return_buffer(g, fs, wait);
    if constexpr (Visitor::keeps_pins) {
      if (round.lacks && wait.turn == cache::no_turn) {
        if (done) visitor.give_back();
        pending |= done;
        done = round.got_on = false;
      }
    }
    stop = lanes_await_round(g, fs, round, Visitor::keeps_pins, attempt, wait);
    if (stop == 0) backoff(pause, handle::device_pause_ns);
  }
  lanes_leave(g, fs, stop == 0, wait);
  lanes_return_buffer(g, fs, wait);
  return pending ? stop : error;
}

/// Calls visit_in_file() for the lanes that come through the warp's gate together. Any thread
/// calls, outside the gate.
template <class Visitor>
__device__ __forceinline__ std::int32_t visit_pages(lane_file& f, std::uint64_t page,
                                                    Visitor const& visitor) {
  lane_gate<Visitor> const gate(f.handle, f.file.fd);
  return visit_in_file(gate.group(), f, page, visitor);
}

}  // namespace gpufs::io
