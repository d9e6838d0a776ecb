// gread_async, gtest, gwait: sends requests at once; gwait enters the pages and delivers the bytes.
#pragma once

#include <gpufs/async.hpp>
#include <gpufs/io/async_page.hpp>
#include <gpufs/io/read/read.hpp>
#include <gpufs/ring/submit.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace gpufs {

// Between gread_async and gwait the caller may do anything, even wait for pages and frames. So a
// read under way must owe no page. It owns channels only, and its pages are not in the page table,
// where others would wait for them. Such reads own at most half of the channels, and requests ahead
// (element/ahead.hpp) a quarter. Reads that wait for a channel always have the rest. gwait reads
// the pages that were not requested, as gread does.

namespace io {

using namespace base;

/// Whether the lane is admitted. Admits as many of the lanes with `wants` as the bound leaves room
/// for. They count until async_done(). All lanes of a warp call.
__device__ __forceinline__ bool async_admitted(fs_ref const& fs, bool wants) {
  unsigned const all = __ballot_sync(all_lanes, wants);
  auto const n = count_lanes(all);
  std::uint32_t room = 0;
  if (lane_id() == 0) {
    atomic_ref<std::uint32_t, scope::device> held(*fs.channels.async);
    std::uint32_t const most = fs.channels.page.count / 2;
    std::uint32_t const before = held.fetch_add(n, memory_order_relaxed);
    room = before >= most ? 0 : least(most - before, n);
    if (room != n) held.fetch_sub(n - room, memory_order_relaxed);
  }
  room = warp_broadcast(room);
  return wants && rank_in(all) < room;
}
__device__ __forceinline__ void async_done(fs_ref const& fs, std::uint32_t n) {
  if (n != 0)
    atomic_ref<std::uint32_t, scope::device>(*fs.channels.async).fetch_sub(n, memory_order_relaxed);
}

/// Requests the pages first .. first + pages - 1 that are neither in the cache nor in a file
/// window, as channels allow. All lanes of the group's first warp call. Returns the bits of the
/// requested pages; `*out` gets the lane's channel.
GPUFS_LIBRARY_STAGE std::uint32_t request_pages(fs_ref const* __restrict__ handle,
                                                read_span const span, std::uint64_t first,
                                                unsigned pages, async_page* out) {
  fs_ref const& fs = *handle;
  unsigned const lane = lane_id();
  bool wants = false;
  for (unsigned i = 0; i < pages; ++i) {
    cache::lookup const found = cache::find_and_pin(fs.cache, span.version, first + i);
    if (found.result == cache::lookup_result::absent) {
      wants |= lane == i;
    } else if (lane == 0) {
      cache::unpin_read(fs.cache.headers[found.frame]);
    }
  }
  __syncwarp();
  source::page_name const name = span.name(first + lane);
  // A page in a file window needs no request: gwait pulls it.
  if (wants && fs.windows.entries != nullptr && !span.zero_filled)
    wants = source::window_address(handle, span.version, name.page << span.page_shift,
                                   name.expected) == 0;
  bool const admitted = async_admitted(fs, wants);
  async_page mine;
  constexpr unsigned rounds = 4;
  std::uint32_t const from = warp_number() * fs.channels.page.spacing % fs.channels.page.count;
  bool const sends = ring::try_channels(fs, fs.channels.page, from, rounds, admitted, mine.via);
  if (sends && span.zero_filled) {
    std::uint64_t const begin = name.page << span.page_shift;
    mine.writes = dirty::writes_counted(fs, span.version, begin, begin + span.page_bytes());
  }
  mine.since = device_clock_ns();
  bool const by_drives = source::read_by_drives<whole_warp>(fs, sends, name, mine.via, 0);
  bool const by_daemon = sends && !by_drives;
  ring::submit_each(fs, by_daemon,
                    by_daemon ? source::page_request(fs, name, mine.via, 0) : rpc::request{});
  std::uint32_t const requested = __ballot_sync(all_lanes, sends);
  auto const n = count_lanes(requested);
  auto const unused = count_lanes(__ballot_sync(all_lanes, admitted)) - n;
  if (lane == 0) {
    async_done(fs, unused);
    handle::add(fs, handle::counter::requests, n);
    handle::add(fs, handle::counter::read_requests, n);
  }
  *out = mine;
  return requested;
}

/// Whether all requests of a read are answered, the daemon has stopped, or the time of a wait for
/// them is over. All lanes of the first warp call.
GPUFS_LIBRARY_STAGE bool all_answered(fs_ref const* __restrict__ handle, std::uint32_t requested,
                                      async_page const mine) {
  fs_ref const& fs = *handle;
  bool const waits = (requested >> lane_id() & 1) != 0;
  bool const owed = ring::help_drives<whole_warp>(fs.self, waits, mine.via.number, 0);
  bool const open =
      waits && (owed || rpc::completion_sequence(ring::load_completion(
                            fs, mine.via.number, memory_order_relaxed)) != mine.via.sequence);
  std::uint32_t stopped = 0;
  if (lane_id() == 0) stopped = handle::wait_error(fs, mine.since) != 0 ? 1 : 0;
  return __ballot_sync(all_lanes, open) == 0 || warp_broadcast(stopped) != 0;
}

/// Gives up the requests of a read whose file is closed or has another version now. All lanes of
/// the first warp call.
GPUFS_LIBRARY_STAGE void drop_pages(fs_ref const* __restrict__ handle, std::uint32_t requested,
                                    async_page const mine) {
  fs_ref const& fs = *handle;
  if ((requested >> lane_id() & 1) != 0) ring::give_up_channel(fs, fs.channels.page, mine.via);
  if (lane_id() == 0) async_done(fs, count_lanes(requested));
  __syncwarp();
}

/// Waits for the answers to a read's requests and enters its pages. All lanes of the first warp
/// call. The group has no page pinned.
///
/// A page is entered if it came without error and a frame is free. It is not entered if another
/// caller has brought it in or written to it meanwhile. The `*entry` of an entered page is
/// fetching, and the group must move and publish the page. The channels of all other pages go back.
/// Returns the bits of the pages to be moved.
GPUFS_LIBRARY_STAGE std::uint32_t adopt_pages(fs_ref const* __restrict__ handle, batch const b,
                                              std::uint32_t requested, async_page const page,
                                              source::fill* entry) {
  fs_ref const& fs = *handle;
  unsigned const lane = lane_id();
  bool const mine = (requested >> lane & 1) != 0;
  source::page_name const name = b.span.name(b.first + lane);
  source::answer const got = source::await_answers(fs, mine, page.via, source::may_be_owed(name));
  source::fill e;
  e.via = page.via;
  e.answered = got.answered;
  e.error = got.result < 0 ? got.result : 0;
  bool const complete = mine && got.result >= 0 && rpc::bytes_read(got.result) == name.expected;
  if (complete) {
    e.got = static_cast<std::uint32_t>(name.expected);
    if (rpc::is_in_twin(got.result)) e.in_twin = 1;
  }
  for_each_lane(__ballot_sync(all_lanes, mine && got.result >= 0 && !complete), [&](unsigned i) {
    source::fill const whole = source::complete_page(
        handle, b.span.name(b.first + i), warp_broadcast(e, i), warp_broadcast(got.result, i));
    if (lane == i) e = whole;
  });
  // If others wait for frames, gread waits behind them and fetches the pages again.
  bool const may = cache::line_wait<>(*fs.cache.line).may_take();
  entry_attempt const a =
      enter_each(fs, b.seat, may && mine && e.error == 0, name.version, name.page);
  auto const frame = static_cast<std::uint32_t>(a.taken.frame);
  // Checked now that the page is in the table: until then a writer may have written it and gone.
  std::uint64_t const begin = name.page << b.span.page_shift;
  bool const stale =
      a.entered && b.span.zero_filled &&
      dirty::writes_counted(fs, name.version, begin, begin + b.span.page_bytes()) != page.writes;
  if (__ballot_sync(all_lanes, stale) != 0) {
    cache::remove_each(fs.cache, stale, frame);
    if (stale) cache::release_filling(fs.cache.headers[frame]);
    __syncwarp();
  }
  bool const keeps = a.entered && !stale;
  if (mine && !keeps) ring::return_channel(fs.channels.page, e.via, e.answered);
  e.frame = frame;
  e.status = source::page_status::fetching;
  *entry = keeps ? e : source::fill{};
  auto const evicted = count_lanes(__ballot_sync(all_lanes, a.taken.evicted));
  if (lane == 0) {
    async_done(fs, count_lanes(requested));
    handle::add(fs, handle::counter::evictions, evicted);
  }
  return __ballot_sync(all_lanes, keeps && e.got != 0);
}

}  // namespace io

template <class Group>
__device__ async_read gread_async(io_context<Group>& io, int fd, void* buf, std::size_t count,
                                  std::int64_t offset) {
  using ops = typename io_context<Group>::ops;
  async_read r;
  r.fd = fd;
  r.buffer = buf;
  r.count = count;
  r.offset = offset;
  if (ops::warps(io.group()) == 0 || offset < 0) return r;  // gwait reports the error
  auto const begin = static_cast<std::uint64_t>(offset);
  std::uint32_t const shift = io.fs().cache.page_shift;
  std::uint64_t const first = begin >> shift;
  std::uint64_t const most = ((first + source::batch_pages) << shift) - begin;
  r.count = base::least(r.count, most);
  if (r.count == 0 || buf == nullptr || io::use_file(io, fd) != 0) return r;
  file::used_file const& file = io.file();
  if ((file.flags & O_ACCMODE) == O_WRONLY || begin >= file.size) return r;
  std::uint64_t const end = begin + base::least(r.count, file.size - begin);
  io::read_span const span{nullptr,   begin,   end,   file.version,
                           file.size, file.fd, shift, file.write_index != 0};
  auto const pages = static_cast<unsigned>(span.last_page() - first + 1);
  std::uint32_t requested = 0;
  if (ops::warp(io.group()) == 0)
    requested = io::request_pages(io.handle(), span, first, pages, &r.page);
  r.requested = ops::broadcast(io.group(), requested);
  r.version = file.version;
  r.size = file.size;
  return r;
}

template <class Group>
__device__ int gtest(io_context<Group>& io, async_read const& r) {
  using ops = typename io_context<Group>::ops;
  if (ops::warps(io.group()) == 0 || r.requested == 0) return 1;
  int answered = 0;
  if (ops::warp(io.group()) == 0)
    answered = io::all_answered(io.handle(), r.requested, r.page) ? 1 : 0;
  return ops::broadcast(io.group(), answered);
}

template <class Group>
__device__ ssize_t gwait(io_context<Group>& io, async_read& r) {
  using ops = typename io_context<Group>::ops;
  Group const& group = io.group();
  if (r.requested != 0) {
    std::uint32_t const shift = io.fs().cache.page_shift;
    std::uint64_t const first = static_cast<std::uint64_t>(r.offset) >> shift;
    // Without a buffer, the pages go to their frames. gread then delivers them with the others.
    bool const same = io::use_file(io, r.fd) == 0 && io.file().version == r.version;
    io::read_span const span{nullptr,
                             static_cast<std::uint64_t>(r.offset),
                             static_cast<std::uint64_t>(r.offset) + r.count,
                             r.version,
                             r.size,
                             r.fd,
                             shift,
                             io.file().write_index != 0};
    io::batch const b{span, first, source::batch_pages, io.seat(), nullptr};
    typename ops::entries own;
    source::fill* const entry = ops::home(own);
    ops::sync(group);  // the block's scratch is free
    io::batch_step step;
    if (ops::warp(group) == 0) {
      if (same) {
        step.moving = io::adopt_pages(io.handle(), b, r.requested, r.page, entry);
      } else {
        io::drop_pages(io.handle(), r.requested, r.page);
      }
    }
    if (same) {
      step = ops::share(group, step);
      if (ops::warp(group) < ops::warps(group))
        io::move_pages(io.handle(), group, span, first, step.moving, own);
      ops::sync(group);
      if (ops::warp(group) == 0) static_cast<void>(io::end_batch(io.handle(), b, entry));
    }
    r.requested = 0;
  }
  return gread(io, r.fd, r.buffer, r.count, r.offset);
}

}  // namespace gpufs
