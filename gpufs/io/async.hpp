// gread_async, gtest, gwait: requests sent now, pages entered and bytes delivered when they are
// waited for.
#pragma once

#include <gpufs/io/read.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace gpufs {

// Between the call and the wait the caller may do anything, also wait for pages and frames. So a
// read under way owes nobody anything: it holds channels and nothing else, and its pages are not in
// the page table, where others would wait for them. At most half of the channels are held like
// that, so that reads that wait for one always have the other half. Whatever was not requested,
// gwait reads as gread does.

namespace detail {

/// Of `wants` lanes, as many as the bound leaves room for; counted until async_done(). All lanes of
/// a warp call.
__device__ __forceinline__ bool async_admitted(fs_ref const& fs, bool wants) {
  unsigned const all = __ballot_sync(all_lanes, wants);
  auto const n = static_cast<std::uint32_t>(__popc(all));
  std::uint32_t room = 0;
  if (lane_id() == 0) {
    atomic_ref<std::uint32_t, scope::device> held(*fs.async_channels);
    std::uint32_t const most = fs.page_channels.count / 2;
    std::uint32_t const before = held.fetch_add(n, memory_order_relaxed);
    room = before >= most ? 0 : most - before < n ? most - before : n;
    if (room != n) held.fetch_sub(n - room, memory_order_relaxed);
  }
  room = warp_broadcast(room);
  return wants && rank_in(all) < room;
}
__device__ __forceinline__ void async_done(fs_ref const& fs, std::uint32_t n) {
  if (n != 0)
    atomic_ref<std::uint32_t, scope::device>(*fs.async_channels).fetch_sub(n, memory_order_relaxed);
}

/// Requests those of the pages first .. first + pages - 1 that are not in the cache. Returns their
/// bits. All lanes of a group's first warp call.
GPUFS_STAGE inline std::uint32_t request_pages(fs_ref const* handle, read_span const span,
                                               std::uint64_t first, unsigned pages,
                                               async_page* out) {
  fs_ref const& fs = *handle;
  unsigned const lane = lane_id();
  bool wants = false;
  for (unsigned i = 0; i < pages; ++i) {
    lookup const found = find_and_pin(fs.cache, span.uid, first + i);
    if (found.result == lookup_result::absent) {
      wants |= lane == i;
    } else if (lane == 0) {
      unpin_read(fs.cache.headers[found.frame]);
    }
  }
  __syncwarp();
  page_name const name = span.name(first + lane);
  // What a window has needs no request: gwait pulls it.
  if (wants && fs.windows.entries != nullptr && !span.whole)
    wants = window_address(handle, span.uid, name.page << span.page_shift, name.expected) == 0;
  bool const admitted = async_admitted(fs, wants);
  async_page mine;
  constexpr unsigned rounds = 4;
  std::uint32_t const from = warp_number() * fs.page_channels.spacing % fs.page_channels.count;
  bool const sends = try_channels(fs, fs.page_channels, from, rounds, admitted, mine.via);
  if (sends && span.whole) {
    std::uint64_t const begin = name.page << span.page_shift;
    mine.writes = writes_counted(fs, span.uid, begin, begin + span.page_bytes());
  }
  submit_each(fs, sends, sends ? page_request(fs, name, mine.via, 0) : rpc::request{});
  std::uint32_t const requested = __ballot_sync(all_lanes, sends);
  auto const n = static_cast<std::uint32_t>(__popc(requested));
  auto const unused = static_cast<std::uint32_t>(__popc(__ballot_sync(all_lanes, admitted))) - n;
  if (lane == 0) {
    async_done(fs, unused);
    count(fs, counter::requests, n);
    count(fs, counter::read_requests, n);
  }
  *out = mine;
  return requested;
}

/// Whether all requests of a read are answered, or never will be. All lanes of the first warp call.
GPUFS_STAGE inline bool all_answered(fs_ref const* handle, std::uint32_t requested,
                                     async_page const mine) {
  fs_ref const& fs = *handle;
  bool const open = (requested >> lane_id() & 1) != 0 &&
                    rpc::completion_sequence(load_completion(
                        fs, mine.via.number, memory_order_relaxed)) != mine.via.sequence;
  std::uint32_t stopped = 0;
  if (lane_id() == 0) stopped = daemon_stopped(fs) ? 1 : 0;
  return __ballot_sync(all_lanes, open) == 0 || warp_broadcast(stopped) != 0;
}

/// Gives up the requests of a read whose file is closed or is another version now. All lanes of the
/// first warp call.
GPUFS_STAGE inline void drop_pages(fs_ref const* handle, std::uint32_t requested,
                                   async_page const mine) {
  fs_ref const& fs = *handle;
  if ((requested >> lane_id() & 1) != 0) give_up_channel(fs, fs.page_channels, mine.via);
  if (lane_id() == 0) async_done(fs, static_cast<std::uint32_t>(__popc(requested)));
  __syncwarp();
}

/// Waits for the answers to a read's requests and enters its pages: those that nobody has brought
/// in meanwhile, or written to, and for which there is a frame, become `*entry`, to be moved and
/// published by the group; the channels of the others are given up. Returns the bits of the pages
/// to be moved. All lanes of the first warp call; the group holds no page.
GPUFS_STAGE inline std::uint32_t adopt_pages(fs_ref const* handle, batch const b,
                                             std::uint32_t requested, async_page const page,
                                             page_entry* entry) {
  fs_ref const& fs = *handle;
  unsigned const lane = lane_id();
  bool const mine = (requested >> lane & 1) != 0;
  page_name const name = b.span.name(b.first + lane);
  answer const got = await_answers(fs, mine, page.via);
  page_entry e;
  e.via = page.via;
  e.answered = got.answered ? 1 : 0;
  e.error = got.result < 0 ? got.result : 0;
  bool const complete = mine && got.result >= 0 && rpc::bytes_read(got.result) == name.expected;
  if (complete) {
    e.got = static_cast<std::uint32_t>(name.expected);
    if (rpc::is_in_twin(got.result)) e.chunk_offset |= in_twin;
  }
  for (unsigned left = __ballot_sync(all_lanes, mine && got.result >= 0 && !complete); left != 0;
       left &= left - 1) {
    int const i = __ffs(static_cast<int>(left)) - 1;
    page_entry const whole = complete_page(handle, b.span.name(b.first + static_cast<unsigned>(i)),
                                           warp_broadcast(e, i), warp_broadcast(got.result, i));
    if (lane == static_cast<unsigned>(i)) e = whole;
  }
  entry_attempt const a = enter_each(fs, b.slot, mine && e.error == 0, name.uid, name.page);
  auto const frame = static_cast<std::uint32_t>(a.taken.frame);
  // Asked again now that the page is entered: while it was not, somebody may have written to it and
  // let it go.
  std::uint64_t const begin = name.page << b.span.page_shift;
  bool const stale =
      a.entered && b.span.whole &&
      writes_counted(fs, name.uid, begin, begin + b.span.page_bytes()) != page.writes;
  if (__ballot_sync(all_lanes, stale) != 0) {
    remove_each(fs.cache, stale, frame);
    if (stale) release_filling(fs.cache.headers[frame]);
    __syncwarp();
  }
  bool const keeps = a.entered && !stale;
  if (mine && !keeps) return_channel(fs.page_channels, e.via, e.answered != 0);
  e.frame = frame;
  e.status = page_status::fetching;
  *entry = keeps ? e : page_entry{};
  auto const evicted = static_cast<unsigned>(__popc(__ballot_sync(all_lanes, a.taken.evicted)));
  if (lane == 0) {
    async_done(fs, static_cast<std::uint32_t>(__popc(requested)));
    count(fs, counter::evictions, evicted);
  }
  return __ballot_sync(all_lanes, keeps && e.got != 0);
}

}  // namespace detail

template <class Group>
__device__ async_read gread_async(io_context<Group>& io, int fd, void* buf, std::size_t count,
                                  std::int64_t offset) {
  using ops = typename io_context<Group>::ops;
  async_read r;
  r.fd = fd;
  r.buffer = buf;
  r.count = count;
  r.offset = offset;
  if (ops::warps(io.group()) == 0 || offset < 0 || detail::use_file(io, fd) != 0)
    return r;  // gwait says what is wrong
  used_file const& file = io.file();
  auto const begin = static_cast<std::uint64_t>(offset);
  if ((file.flags & O_ACCMODE) == O_WRONLY || begin >= file.size) return r;
  std::uint32_t const shift = io.fs().cache.page_shift;
  std::uint64_t const first = begin >> shift;
  std::uint64_t const most = ((first + batch_pages) << shift) - begin;
  if (r.count > most) r.count = most;
  if (r.count == 0 || buf == nullptr) return r;
  std::uint64_t const end = r.count < file.size - begin ? begin + r.count : file.size;
  read_span const span{nullptr, begin, end, file.uid, file.size, file.fd, shift, file.place != 0};
  auto const pages = static_cast<unsigned>(span.last_page() - first + 1);
  std::uint64_t requested = 0;
  if (ops::warp(io.group()) == 0)
    requested = detail::request_pages(io.fs().self, span, first, pages, &r.page);
  r.requested = static_cast<std::uint32_t>(ops::broadcast(io.group(), requested));
  r.uid = file.uid;
  r.size = file.size;
  return r;
}

template <class Group>
__device__ int gtest(io_context<Group>& io, async_read const& r) {
  using ops = typename io_context<Group>::ops;
  if (ops::warps(io.group()) == 0 || r.requested == 0) return 1;
  std::uint64_t answered = 0;
  if (ops::warp(io.group()) == 0)
    answered = detail::all_answered(io.fs().self, r.requested, r.page) ? 1 : 0;
  return static_cast<int>(ops::broadcast(io.group(), answered));
}

template <class Group>
__device__ ssize_t gwait(io_context<Group>& io, async_read& r) {
  using ops = typename io_context<Group>::ops;
  Group const& group = io.group();
  if (r.requested != 0) {
    std::uint32_t const shift = io.fs().cache.page_shift;
    std::uint64_t const first = static_cast<std::uint64_t>(r.offset) >> shift;
    // Without a buffer: into their frames. From there gread delivers them with the others.
    bool const same = detail::use_file(io, r.fd) == 0 && io.file().uid == r.uid;
    read_span const span{nullptr,
                         static_cast<std::uint64_t>(r.offset),
                         static_cast<std::uint64_t>(r.offset) + r.count,
                         r.uid,
                         r.size,
                         r.fd,
                         shift,
                         io.file().place != 0};
    detail::batch const b{span, first, batch_pages, io.slot(), nullptr};
    page_entry own;
    page_entry* const entry = ops::home(own);
    ops::sync(group);  // a block's scratch is free
    batch_step step;
    if (ops::warp(group) == 0) {
      if (same) {
        step.moving = detail::adopt_pages(io.fs().self, b, r.requested, r.page, entry);
      } else {
        detail::drop_pages(io.fs().self, r.requested, r.page);
      }
    }
    if (same) {
      step = ops::share(group, step);
      if (ops::warp(group) < ops::warps(group))
        detail::move_pages(io.fs().self, group, span, first, step.moving, own);
      ops::sync(group);
      if (ops::warp(group) == 0) static_cast<void>(detail::end_batch(io.fs().self, b, entry));
    }
    r.requested = 0;
  }
  return gread(io, r.fd, r.buffer, r.count, r.offset);
}

}  // namespace gpufs
