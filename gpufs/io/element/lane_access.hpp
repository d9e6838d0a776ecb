// Operations of lanes on pages that they visit: load bytes, store bytes, pin the page.
#pragma once

#include <gpufs/cache/peek.hpp>
#include <gpufs/io/element/lane_pages.hpp>
#include <gpufs/io/write/write_pages.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::io {

using namespace base;

/// Loads by use(pointer), with a pointer to byte `begin` of the page. Sets `error` if the page has
/// fewer than `count` bytes from there on. visit_pages() calls it.
template <class Use>
struct page_reader {
  static constexpr bool keeps_pins = false;
  static constexpr bool stores = false;
  handle::page_cache_ref const& cache;
  std::uint64_t begin;
  std::uint64_t count;
  Use& use;
  std::int32_t& error;

  __device__ __forceinline__ bool operator()(converged_group const&, page_visit const& v,
                                             lanes_wait const&) const {
    if (!v.here) return false;
    if (begin + count <= v.valid) {
      use(cache::frame_bytes(cache, v.frame) + begin);
    } else {
      error = -EIO;  // the file has become shorter
    }
    return true;
  }
};

/// Pins each lane's page, one pin per lane. release_pin() gives the pins back.
struct page_pinner {
  static constexpr bool keeps_pins = true;
  static constexpr bool stores = false;
  handle::page_cache_ref const& cache;
  std::uint32_t& frame;
  std::uint64_t& valid;

  __device__ __forceinline__ bool operator()(converged_group const&, page_visit const& v,
                                             lanes_wait const&) const {
    if (v.leads) {
      auto const more = count_lanes(v.peers) - 1;
      if (more != 0)
        cache::frame_state(cache.headers[v.frame]).fetch_add(more, memory_order_relaxed);
    }
    if (!v.here) return false;
    frame = v.frame;
    valid = v.valid;
    return true;
  }
  /// Gives back the calling lane's pin.
  __device__ __forceinline__ void give_back() const { cache::unpin_read(cache.headers[frame]); }
};

/// Pins the frame that each lane has seen (gpufs/cache/peek.hpp), if all frames still have the same
/// pages. All lanes of the group call, and get the same answer. Lanes that saw the same frame share
/// one atomic change, and count one hit for the first one's `fd`. Returns false, with nothing
/// pinned, if a frame has another page: a lane that kept its pin could keep the frame for which
/// another one waits.
__device__ __forceinline__ bool pin_seen(converged_group const& g, fs_ref const& fs,
                                         std::int32_t fd, cache::seen_frame const& seen) {
  unsigned const peers = g.match_any(reinterpret_cast<std::uintptr_t>(seen.header));
  auto const first = lowest_lane(peers);
  std::uint64_t state = 0;
  // Acquire pairs with publish(), as in pin().
  if (g.thread_rank() == first)
    state = cache::frame_state(*seen.header).fetch_add(count_lanes(peers), memory_order_acquire);
  state = g.shfl(state, first);
  g.sync();  // all lanes come after the first lane's acquire
  bool const same = g.all((state ^ seen.state) >> cache::phase_shift == 0);
  if (!same)
    cache::unpin_read(*seen.header);  // each lane alone: lanes may have seen different generations
  if (same && g.thread_rank() == first) handle::count(fs, fd, handle::file_counter::hits);
  return same;
}

/// Gives back the calling lane's pin by give(header, pins). Any thread calls. If the whole warp
/// comes, one lane does it for all with the same frame and returns their number; the others return
/// 0. Else each lane does it alone and returns 1 (lane_gate.hpp).
template <class Give>
__device__ __forceinline__ std::uint32_t give_back_pin(cache::frame_header& h, Give const& give) {
  if (converged().mask() != all_lanes) {
    give(h, 1u);
    return 1;
  }
  unsigned const peers = __match_any_sync(all_lanes, reinterpret_cast<std::uintptr_t>(&h));
  __syncwarp();  // the accesses of all lanes are over, as unpin_read() and unpin() need
  if (lane_id() != lowest_lane(peers)) return 0;
  auto const lanes = count_lanes(peers);
  give(h, lanes);
  return lanes;
}

/// Gives back the pin of a page that the lane has only read, as give_back_pin().
__device__ __forceinline__ std::uint32_t release_pin(cache::frame_header& h) {
  return give_back_pin(h, [](cache::frame_header& of, unsigned n) { cache::unpin_read(of, n); });
}

/// The same for a page that the lane may have stored to. A release orders its stores before those
/// of the frame's next owner.
__device__ __forceinline__ void release_written_pin(cache::frame_header& h) {
  give_back_pin(h, [](cache::frame_header& of, unsigned n) { cache::unpin(of, n); });
}

/// Joins the writers of the lanes' file, unless an earlier write-back has failed. Then lanes that
/// are `here` get its error. All lanes of the group call, and get the same result. Lanes that have
/// neither joined nor failed look at the file again in a later round.
__device__ __forceinline__ file::join_result lanes_join_writers(converged_group const& g,
                                                                lane_file const& f, bool here,
                                                                std::int32_t& error) {
  auto joined = file::join_result::joined;
  if (g.thread_rank() == 0) joined = file::try_join(*f.handle, f.file);
  joined = static_cast<file::join_result>(g.shfl(static_cast<std::int32_t>(joined), 0));
  if (here && joined != file::join_result::joined && file::join_error(joined) != 0)
    error = file::join_error(joined);
  return joined;
}

/// Opens a page's frame as open_frame(). Any thread calls. With a spare buffer it waits for the
/// lock, unless the daemon stops or the deadline passes.
__device__ __forceinline__ std::int64_t open_with_spare(lane_file const& f, std::uint64_t page,
                                                        std::uint32_t frame, rpc::byte_range range,
                                                        std::int64_t spare) {
  fs_ref const& fs = *f.handle;
  std::int64_t buffer = -1;
  auto const opened = [&] {
    std::int64_t const got = open_frame<one_lane>(fs, frame, f.file.version, page, range, spare);
    if (got != -1) buffer = got;  // while others lock the frame, what it was before
    return got >= 0;
  };
  if (spare < 0) {
    static_cast<void>(opened());
  } else {
    static_cast<void>(handle::spin_until(fs, handle::device_pause_ns, opened));
  }
  return buffer;
}

/// Opens each page that lanes visit for the leading lane's `range`. If the lanes have a spare
/// buffer, only the first page is opened, with that buffer. All lanes of the group call; they have
/// joined the writers. Returns the page's buffer in the leading lane, or less than 0.
__device__ __forceinline__ std::int64_t open_for_lanes(converged_group const& g, lane_file const& f,
                                                       std::uint64_t page, page_visit const& v,
                                                       rpc::byte_range range, lanes_wait& wait) {
  std::int64_t buffer = -1;
  std::int64_t const spare = wait.spare;
  unsigned const leaders = g.ballot(v.leads);
  bool const opens = v.leads && (spare < 0 || g.thread_rank() == lowest_lane(leaders));
  if (opens) buffer = open_with_spare(f, page, v.frame, range, spare);
  wait.held_up = g.any(opens && spare >= 0 && buffer < 0 && buffer != list_is_full);
  bool const took = g.any(spare >= 0 && buffer == spare);
  if (took) wait.spare = -1;
  return buffer;
}

/// The part of each lane's page that is written through: as the first lane says that stores there
/// and writes through, since lanes may come by several arrays. All lanes of the group call.
__device__ __forceinline__ rpc::byte_range block_of(converged_group const& g, lane_file const& f,
                                                    std::uint64_t page, page_visit const& v,
                                                    bool stores) {
  rpc::byte_range const mine = f.block(page);
  bool const through = stores && mine.begin != mine.end;
  if (!g.any(through)) return {0, 0};
  unsigned const lanes = g.ballot(through) & v.peers;
  unsigned const from = lanes == 0 ? g.thread_rank() : lowest_lane(lanes);
  rpc::byte_range const theirs{g.shfl(mine.begin, from), g.shfl(mine.end, from)};
  return lanes == 0 ? rpc::byte_range{0, 0} : theirs;
}

/// Stores `count` bytes at byte `begin` of each lane's page, to the frame and to its write buffer.
/// From the frame every block reads them at once. Lanes whose bytes lie one behind the other share
/// one post. Other lanes wait for the next round. visit_pages() calls it.
template <class Fill>
struct page_writer {
  static constexpr bool keeps_pins = false;
  static constexpr bool stores = true;
  lane_file const& f;
  std::uint64_t page;
  std::uint32_t begin;
  std::uint32_t count;
  Fill& fill;  ///< fill(pointer): stores the lane's bytes there
  std::int32_t& error;

  __device__ __forceinline__ bool operator()(converged_group const& g, page_visit const& v,
                                             lanes_wait& wait) const {
    fs_ref const& fs = *f.handle;
    file::join_result const joined = lanes_join_writers(g, f, v.here, error);
    wait.kept_out = joined == file::join_result::look_again;
    if (joined != file::join_result::joined) return file::join_error(joined) != 0;
    auto const first = lowest_lane(v.peers);
    auto const position = count_lanes(v.peers & ((1u << g.thread_rank()) - 1));
    std::uint32_t const leaders_count = g.shfl(count, first);
    std::uint32_t const leaders_begin = g.shfl(begin, first);
    bool const follows =
        v.here && count == leaders_count && begin == leaders_begin + position * count;
    unsigned const others = v.peers & ~g.ballot(follows);
    bool const member = follows && (others == 0 || g.thread_rank() < lowest_lane(others));
    auto const members = count_lanes(v.peers & g.ballot(member));
    rpc::byte_range const range{begin, begin + members * count};
    rpc::byte_range const block = block_of(g, f, page, v, member);
    std::int64_t const buffer = open_for_lanes(g, f, page, v, range, wait);
    auto const theirs =
        static_cast<std::int64_t>(g.shfl(static_cast<std::uint64_t>(buffer), first));
    bool const stored = member && theirs >= 0;
    g.sync();  // all lanes come after the acquires of the lane that opened the frame
    if (stored) {
      fill(cache::frame_bytes(fs.cache, v.frame) + begin);
      fill(dirty::buffer_bytes(fs, static_cast<std::uint32_t>(theirs)) + begin);
    }
    g.sync();  // all bytes are in place
    if (v.leads && buffer >= 0) {
      post_range(fs, static_cast<std::uint32_t>(buffer), f.file.write_index,
                 page << fs.cache.page_shift, range, block);
      dirty::unlock_frame(fs, v.frame, static_cast<std::uint32_t>(buffer) + 1);
      handle::count(fs, f.file.fd, handle::file_counter::bytes_written, range.end - range.begin);
    }
    g.sync();  // everything is posted
    if (g.thread_rank() == 0) file::leave_writers(fs, f.file);
    return stored;
  }
};

}  // namespace gpufs::io
