// Large pages: a team of warps of one block moves each page, every warp a slice of it.
#pragma once

#include <gpufs/io/io_context.hpp>
#include <gpufs/io/read_span.hpp>
#include <gpufs/io/read_warp.hpp>

#include <cstdint>

namespace gpufs::detail {

/// Bytes of a page below which more warps do not move it faster.
inline constexpr std::uint64_t smallest_slice = 4096;

/// How many warps share a page when `pages` are wanted: 1 means that each warp takes pages of its own.
__device__ __forceinline__ unsigned team_size(read_span const& span, std::uint64_t pages, unsigned warps) {
  std::uint64_t const useful = span.page_bytes() / smallest_slice;
  std::uint64_t const available = pages < warps ? warps / pages : 1;
  std::uint64_t const size = useful < available ? useful : available;
  return size < 1 ? 1 : static_cast<unsigned>(size);
}

struct slice {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Member `m` of `n`'s share of [begin, end), cut at multiples of 16.
__device__ __forceinline__ slice slice_of(std::uint64_t begin, std::uint64_t end, unsigned m, unsigned n) {
  std::uint64_t const from = begin / 16 * 16;
  std::uint64_t const step = ((end - from + n - 1) / n + 15) / 16 * 16;
  std::uint64_t const lo = from + m * step;
  std::uint64_t const hi = lo + step;
  return {lo < begin ? begin : lo > end ? end : lo, hi > end ? end : hi};
}

__device__ __forceinline__ void copy_slice(fs_ref const& fs, read_span const& span, std::uint64_t page, std::uint32_t frame,
                                           std::uint64_t got, unsigned member, unsigned team) {
  page_target const t = span.target(page, got);
  slice const s = slice_of(t.begin, t.end, member, team);
  if (s.begin < s.end) warp_copy(t.base + s.begin, frame_bytes(fs.cache, frame) + s.begin, s.end - s.begin);
}

/// What a warp found when it tried for its slice of a page.
struct slice_read {
  bool missed;           ///< the page was not there
  std::uint32_t absent;  ///< its bit, if nobody is bringing it in; from leaders of teams only
  bool hit;              ///< it was there; from leaders of teams only
  read_stop stop;
};

/// Copies this warp's slice of its team's page if the page is there: each warp finds and pins it by itself, so that hits need no
/// barrier. All lanes of the warp call.
GPUFS_STAGE inline slice_read read_hit_slice(fs_ref const* handle, read_span const span, std::uint64_t first, unsigned batch,
                                             unsigned team, unsigned warp) {
  fs_ref const& fs = *handle;
  unsigned const mine = warp / team;
  unsigned const member = warp % team;
  if (mine >= batch) return {false, 0, false, {}};
  lookup const found = find_and_pin(fs.cache, span.uid, first + mine);
  if (found.result == lookup_result::absent) return {true, member == 0 ? 1u << mine : 0, false, {}};
  bool const hit = found.result == lookup_result::hit;
  if (hit) copy_slice(fs, span, first + mine, found.frame, found.valid, member, team);
  __syncwarp();  // all lanes have read before the pin goes
  if (lane_id() == 0) unpin_read(fs.cache.headers[found.frame]);
  slice_read r{!hit, 0, hit && member == 0, {}};
  if (r.hit) r.stop.note_page(span, first + mine, {found.valid, 0});
  return r;
}

/// What a team's leader got: the page's state, and if it fetched the page, what arrived.
struct led_page {
  page_work work;
  arrival got;
  bool answered;
};

/// Finds or requests a page and waits for it if this warp is the one that brings it in. All lanes of the leader call.
GPUFS_STAGE inline led_page lead_page(fs_ref const* handle, std::int32_t slot, prefetch::readahead_state* chunk_state,
                                      page_name const name) {
  fs_ref const& fs = *handle;
  led_page p{enter_page(fs, slot, name), {0, 0}, false};
  if (p.work.status == page_status::fetching) request_or_find(fs, prefetch::readahead(fs, chunk_state), name, p.work);
  if (p.work.status == page_status::fetching) {
    answer got = await_answer(fs, p.work.via);
    p.got = settle(fs, name, p.work, got);
    p.answered = got.answered;
  }
  if (p.work.status == page_status::failed) p.got.error = p.work.error;
  return p;
}

/// end_fetch() and await_other(), out of line.
GPUFS_STAGE inline void end_led_page(fs_ref const* handle, page_work const work, arrival const a, bool answered) {
  end_fetch(*handle, work, a, answered);
}
GPUFS_STAGE inline awaited await_led_page(fs_ref const* handle, page_name const name, std::uint32_t frame) {
  return await_other(*handle, name, frame);
}

/// Reads pages first .. first + batch - 1, page i by warps [i * team, (i + 1) * team), batch * team <= warps of the block. All threads of
/// the block call. Each round: the leaders find or request their pages and wait for their own; all pull or copy slices; the
/// leaders publish; then, owing nobody a page, the teams whose page somebody else brings in wait for it. Pages for which there was
/// no frame have another round: the block then holds none.
GPUFS_STAGE inline read_stop read_by_teams(fs_ref const* handle, std::int32_t slot, prefetch::readahead_state* chunk_state,
                                           read_span const span, std::uint64_t first, unsigned batch, unsigned team,
                                           unsigned warp) {
  fs_ref const& fs = *handle;
  read_stop stop;
  unsigned const mine = warp / team;
  unsigned const member = warp % team;
  std::uint64_t const page = first + mine;
  bool const leader = member == 0 && mine < batch;
  bool todo = mine < batch;
  std::uint64_t starving_since = 0;
  unsigned pause = 0;
  for (;;) {
    page_work work;
    arrival a{0, 0};
    bool answered = false;
    if (todo && leader) {
      led_page const led = lead_page(handle, slot, chunk_state, span.name(page));
      work = led.work;
      a = led.got;
      answered = led.answered;
      if (work.status == page_status::no_frame) {
        a.error = starved(fs, starving_since);
        if (a.error != 0) work.status = page_status::failed;
        backoff(pause, device_pause_ns);
      }
      if (work.status == page_status::hit) a.got = work.valid;
      if (lane_id() == 0) {
        if (work.status == page_status::hit) count(fs, counter::hits);
        scratch().entry[mine] = {static_cast<std::uint32_t>(work.status),
                                 work.frame,
                                 work.via.number,
                                 work.via.sequence,
                                 a.got,
                                 a.error,
                                 work.chunk_offset,
                                 0,
                                 0};
      }
    }
    __syncthreads();
    team_entry seen{};
    if (todo) {
      seen = scratch().entry[mine];
      work = {static_cast<page_status>(seen.status),
              seen.frame,
              {seen.channel_number, seen.channel_sequence},
              seen.error,
              seen.chunk_offset};
      if (work.status == page_status::hit) copy_slice(fs, span, page, work.frame, seen.got, member, team);
      if (work.status == page_status::fetching && seen.got != 0) {
        slice const s = slice_of(0, span.page_bytes(), member, team);
        if (s.begin < s.end) {
          pull_gate const gate(fs, (work.chunk_offset & in_twin) == 0);
          warp_pull(frame_bytes(fs.cache, work.frame), source_of(fs, work), s.begin, s.end, seen.got,
                    span.target(page, seen.got));
        }
      }
    }
    bool const waiting = todo && work.status == page_status::waiting;
    // In the common case nobody waits for others and nobody is left over: then the caller's barrier is the next one.
    bool const special = __syncthreads_or(waiting || (todo && work.status == page_status::no_frame)) != 0;
    if (todo && leader) {
      if (work.status == page_status::hit && lane_id() == 0) unpin_read(fs.cache.headers[work.frame]);
      if (work.status == page_status::fetching) end_led_page(handle, work, {seen.got, seen.error}, answered);
    }
    if (special) {
      if (waiting && leader) {
        awaited const w = await_led_page(handle, span.name(page), work.frame);
        if (lane_id() == 0) {
          scratch().entry[mine].got = w.what == awaited::ready ? w.got : 0;
          scratch().entry[mine].error = w.what == awaited::failed ? w.error : 0;
          // Another page after all: have a further round.
          if (w.what == awaited::another) scratch().entry[mine].status = static_cast<std::uint32_t>(page_status::no_frame);
        }
      }
      __syncthreads();
      if (waiting) {
        seen = scratch().entry[mine];
        work.status = static_cast<page_status>(seen.status);
        if (seen.error == 0) copy_slice(fs, span, page, work.frame, seen.got, member, team);
      }
      __syncthreads();
      if (waiting && leader && lane_id() == 0) unpin_read(fs.cache.headers[work.frame]);
    }
    if (todo && work.status != page_status::no_frame) {
      todo = false;
      if (leader) stop.note_page(span, page, {seen.got, seen.error});
    }
    if (!special || __syncthreads_or(todo) == 0) return stop;
  }
}

}  // namespace gpufs::detail
