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
__device__ inline unsigned team_size(read_span const& span, std::uint64_t pages, unsigned warps) {
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
__device__ inline slice slice_of(std::uint64_t begin, std::uint64_t end, unsigned m, unsigned n) {
  std::uint64_t const from = begin / 16 * 16;
  std::uint64_t const step = ((end - from + n - 1) / n + 15) / 16 * 16;
  std::uint64_t const lo = from + m * step;
  std::uint64_t const hi = lo + step;
  return {lo < begin ? begin : lo > end ? end : lo, hi > end ? end : hi};
}

__device__ inline void copy_slice(fs_ref const& fs, read_span const& span, std::uint64_t page, std::uint32_t frame, std::uint64_t got,
                                  unsigned member, unsigned team) {
  page_target const t = span.target(page, got);
  slice const s = slice_of(t.begin, t.end, member, team);
  if (s.begin < s.end) warp_copy(t.base + s.begin, frame_bytes(fs.cache, frame) + s.begin, s.end - s.begin);
}

/// Reads pages first .. first + batch - 1, page i by warps [i * team, (i + 1) * team), batch * team <= warps of the block. All threads of
/// the block call. Each round: the leaders find or request their pages and wait for their own; all pull or copy slices; the
/// leaders publish; then, owing nobody a page, the teams whose page somebody else brings in wait for it. Leaders that found no frame
/// have another round: alone, and the block then holds none.
template <class Group>
__device__ void read_by_teams(io_context<Group>& io, read_span const& span, std::uint64_t first, unsigned batch, unsigned team,
                              read_stop& stop) {
  using ops = typename io_context<Group>::ops;
  fs_ref const& fs = io.fs();
  unsigned const warp = ops::warp(io.group());
  unsigned const mine = warp / team;
  unsigned const member = warp % team;
  std::uint64_t const page = first + mine;
  bool const leader = member == 0 && mine < batch;
  bool todo = mine < batch;
  for (unsigned round = 0;; ++round) {
    // In the first round everybody tries; in later ones the page whose number is one less than the round's, waiting if need be.
    bool const active = todo && (round == 0 || mine == round - 1);
    page_work work;
    arrival a{0, 0};
    bool answered = false;
    if (active && leader) {
      page_name const name = span.name(page);
      work = enter_page(fs, name, round != 0 || batch == 1);
      if (work.status == page_status::fetching) request_page(fs, name, work);
      if (work.status == page_status::fetching) a = await_page(fs, name, work, answered);
      if (work.status == page_status::failed) a.error = work.error;
      if (lane_id() == 0) {
        if (work.status == page_status::hit) {
          a.got = fs.cache.headers[work.frame].valid;
          count(fs, counter::hits);
        }
        scratch().entry[mine] = {static_cast<std::uint32_t>(work.status), work.frame, work.via.number, work.via.sequence, a.got, a.error, 0};
      }
    }
    __syncthreads();
    team_entry seen{};
    if (active) {
      seen = scratch().entry[mine];
      work = {static_cast<page_status>(seen.status), seen.frame, {seen.channel_number, seen.channel_sequence}, seen.error};
      if (work.status == page_status::hit) copy_slice(fs, span, page, work.frame, seen.got, member, team);
      if (work.status == page_status::fetching && seen.got != 0) {
        slice const s = slice_of(0, span.page_bytes(), member, team);
        if (s.begin < s.end) {
          warp_pull(frame_bytes(fs.cache, work.frame), staging_bytes(fs, fs.page_channels, work.via), s.begin, s.end, seen.got,
                    span.target(page, seen.got));
        }
      }
    }
    bool const waits = __syncthreads_or(active && work.status == page_status::waiting) != 0;
    if (active && leader) {
      if (work.status == page_status::hit && lane_id() == 0) unpin(fs.cache.headers[work.frame]);
      if (work.status == page_status::fetching) {
        a = {warp_broadcast(a.got), warp_broadcast(a.error)};
        end_fetch(fs, work, a, answered);
      }
    }
    if (waits) {
      bool const waiting = active && work.status == page_status::waiting;
      if (waiting && leader) {
        a = await_other(fs, work.frame);
        if (lane_id() == 0) {
          scratch().entry[mine].got = a.got;
          scratch().entry[mine].error = a.error;
        }
      }
      __syncthreads();
      if (waiting) {
        seen = scratch().entry[mine];
        if (seen.error == 0) copy_slice(fs, span, page, work.frame, seen.got, member, team);
      }
      __syncthreads();
      if (waiting && leader && lane_id() == 0) unpin(fs.cache.headers[work.frame]);
    }
    if (active && work.status != page_status::no_frame) {
      todo = false;
      if (leader) stop.note_page(span, page, {seen.got, seen.error});
    }
    if (__syncthreads_or(todo) == 0) return;  // also: everybody has read the entries before they are written again
    if (round >= batch) return;
  }
}

}  // namespace gpufs::detail
