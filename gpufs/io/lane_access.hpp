// What lanes do to bytes of pages that they visit: load them, store them, or keep the page.
#pragma once

#include <gpufs/cache/peek.hpp>
#include <gpufs/io/lane_pages.hpp>
#include <gpufs/io/write_pages.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::detail {

/// Loads through `use(pointer to byte `begin` of the page)`, or sets `error` if the page has fewer
/// than `count` bytes from there on.
template <class Use>
struct page_reader {
  static constexpr bool keeps_pins = false;
  static constexpr bool stores = false;
  page_cache_ref const& cache;
  std::uint64_t begin;
  std::uint64_t count;
  Use& use;
  std::int32_t& error;

  __device__ __forceinline__ bool operator()(converged_group const&, page_visit const& v) const {
    if (!v.here) return false;
    if (begin + count <= v.valid) {
      use(frame_bytes(cache, v.frame) + begin);
    } else {
      error = -EIO;  // the file has become shorter
    }
    return true;
  }
};

/// Keeps each lane's page pinned for it: one pin per lane, given back by release_pins().
struct page_keeper {
  static constexpr bool keeps_pins = true;
  static constexpr bool stores = false;
  page_cache_ref const& cache;
  std::uint32_t& frame;
  std::uint64_t& valid;

  __device__ __forceinline__ bool operator()(converged_group const&, page_visit const& v) const {
    if (v.leads) {
      auto const more = static_cast<std::uint32_t>(__popc(v.peers)) - 1;
      if (more != 0) frame_state(cache.headers[v.frame]).fetch_add(more, memory_order_relaxed);
    }
    if (!v.here) return false;
    frame = v.frame;
    valid = v.valid;
    return true;
  }
};

/// Pins the frame that the calling lane has seen (gpufs/cache/peek.hpp), if it holds the same page
/// still: one pin per lane that comes here, and one atomic change for all that have seen the same
/// frame. Returns whether it does; if not, nothing is pinned.
__device__ __forceinline__ bool pin_seen(fs_ref const& fs, seen_frame const& seen) {
  converged_group const g = converged();
  unsigned const peers = g.match_any(reinterpret_cast<std::uintptr_t>(seen.header));
  auto const first = static_cast<unsigned>(__ffs(static_cast<int>(peers)) - 1);
  std::uint64_t state = 0;
  // Acquire, as in pin().
  if (g.thread_rank() == first)
    state = frame_state(*seen.header)
                .fetch_add(static_cast<unsigned>(__popc(peers)), memory_order_acquire);
  state = g.shfl(state, first);
  g.sync();  // all lanes come after the acquire of the first one
  bool const same = (state ^ seen.state) >> phase_shift == 0;
  if (!same)
    unpin_read(
        *seen.header);  // of each lane by itself: they may have seen it in different generations
  if (same && g.thread_rank() == first) count(fs, counter::hits);
  return same;
}

/// Gives back one pin of each lane in `g`, which is converged() where release_pins() is called: the
/// lanes have only read the page. One lane of those with the same frame does it for all of them:
/// returns for how many the calling one did, 0 in the others.
__device__ __forceinline__ std::uint32_t release_pins(converged_group const& g, frame_header& h) {
  unsigned const peers = g.match_any(reinterpret_cast<std::uintptr_t>(&h));
  g.sync();  // their loads are over: see unpin_read()
  if (g.thread_rank() != static_cast<unsigned>(__ffs(static_cast<int>(peers)) - 1)) return 0;
  auto const lanes = static_cast<std::uint32_t>(__popc(peers));
  unpin_read(h, lanes);
  return lanes;
}

/// Stores `count` bytes at byte `begin` of each lane's page: into the frame, where all see them at
/// once, and into its write buffer. Lanes whose bytes lie one behind the other are posted together;
/// others wait for the next round.
template <class Fill>
struct page_writer {
  static constexpr bool keeps_pins = false;
  static constexpr bool stores = true;
  lane_file const& f;
  std::uint64_t page;
  std::uint32_t begin;
  std::uint32_t count;
  Fill& fill;  ///< fill(where): puts the lane's bytes there
  std::int32_t& error;

  __device__ __forceinline__ bool operator()(converged_group const& g, page_visit const& v) const {
    fs_ref const& fs = *f.handle;
    std::int32_t joined = 0;  // or 1: not now, look at the file again; or an earlier write's error
    if (g.thread_rank() == 0) {
      joined = earlier_write_error(fs, f.file);
      if (joined == 0 && !join_writers(fs, f.file)) joined = 1;
    }
    joined = g.shfl(joined, 0);
    if (joined != 0) {
      if (joined < 0 && v.here) error = joined;
      return joined < 0;
    }
    auto const first = static_cast<unsigned>(__ffs(static_cast<int>(v.peers)) - 1);
    auto const place = static_cast<unsigned>(__popc(v.peers & ((1u << g.thread_rank()) - 1)));
    std::uint32_t const leaders_count = g.shfl(count, first);
    std::uint32_t const leaders_begin = g.shfl(begin, first);
    bool const follows = v.here && count == leaders_count && begin == leaders_begin + place * count;
    unsigned const others = v.peers & ~g.ballot(follows);
    bool const member =
        follows && (others == 0 ||
                    g.thread_rank() < static_cast<unsigned>(__ffs(static_cast<int>(others)) - 1));
    auto const members = static_cast<std::uint32_t>(__popc(v.peers & g.ballot(member)));
    rpc::byte_range const range{begin, begin + members * count};
    std::int64_t buffer = -1;
    if (v.leads) buffer = open_frame<one_lane>(fs, v.frame, f.file.uid, page, range);
    auto const theirs =
        static_cast<std::int64_t>(g.shfl(static_cast<std::uint64_t>(buffer), first));
    bool const stored = member && theirs >= 0;
    g.sync();  // all lanes come after the acquires of the one that opened the frame
    if (stored) {
      fill(frame_bytes(fs.cache, v.frame) + begin);
      fill(buffer_bytes(fs, static_cast<std::uint32_t>(theirs)) + begin);
    }
    g.sync();  // all bytes are in place
    if (v.leads && buffer >= 0) {
      post_range(fs, static_cast<std::uint32_t>(buffer), f.file.place, page << fs.cache.page_shift,
                 range);
      unlock_frame(fs, v.frame, static_cast<std::uint32_t>(buffer) + 1);
      gpufs::count(fs, counter::bytes_written, range.end - range.begin);
    }
    g.sync();  // everything is posted
    if (g.thread_rank() == 0) leave_writers(fs, f.file);
    return stored;
  }
};

}  // namespace gpufs::detail
