// Atomic adds of lanes to elements of the pages that they visit.
#pragma once

#include <gpufs/dirty/write_buffer.hpp>
#include <gpufs/io/element/element.hpp>
#include <gpufs/io/element/lane_access.hpp>

#include <cstdint>

namespace gpufs::io {

/// Where a lane's element stands among those that lanes of a group add to. A run is distinct
/// elements of one page that lie one behind the other, as the lanes do.
struct element_run {
  bool distinct;          ///< the lane is the first one with its element
  bool starts;            ///< it is the first one of its run
  std::uint32_t number;   ///< of the run, among those of its page
  rpc::byte_range range;  ///< of the run, in the page; for the lane that `starts` it
};

/// The calling lane's run. Its element has `bytes` bytes and begins at byte `at` of the file and at
/// byte `begin` of its page. All lanes of the group call.
__device__ __forceinline__ element_run run_of(converged_group const& g, page_visit const& v,
                                              std::uint64_t at, std::uint32_t begin,
                                              std::uint32_t bytes) {
  unsigned const rank = g.thread_rank();
  auto const first = lowest_lane(g.match_any(v.here ? at : ~0ull));
  bool const distinct = v.here && first == rank;
  std::uint64_t const at_before = g.shfl(distinct ? at : ~0ull, rank == 0 ? 0 : rank - 1);
  bool const follows = distinct && rank != 0 && begin != 0 && at_before + bytes == at;
  bool const starts = distinct && !follows;
  unsigned const followers = g.ballot(follows);
  unsigned const starting = g.ballot(starts) & v.peers;
  std::uint32_t const mine = count_lanes(starting & ((2u << rank) - 1)) - 1;
  unsigned const behind = rank + 1 < warp_size ? followers >> (rank + 1) : 0;
  std::uint32_t const length = 1 + lowest_lane(~behind);
  return {distinct, starts, g.shfl(mine, first), {begin, begin + length * bytes}};
}

/// Adds to the element at byte `begin` of each lane's page. The frame's lock is held meanwhile, so
/// stores come before or after. Lanes with the same element add one after the other. The sums go to
/// the write buffer. Runs that find no room in its list of ranges wait for the next round.
/// visit_pages() calls it.
template <class T>
struct page_adder {
  static constexpr bool keeps_pins = false;
  static constexpr bool stores = true;
  lane_file const& f;
  std::uint64_t page;
  std::uint32_t begin;
  T value;
  T& old;  ///< gets the element's value before the add
  std::int32_t& error;

  __device__ __forceinline__ bool operator()(converged_group const& g, page_visit const& v,
                                             lanes_wait& wait) const {
    fs_ref const& fs = *f.handle;
    file::join_result const joined = lanes_join_writers(g, f, v.here, error);
    wait.kept_out = joined == file::join_result::look_again;
    if (joined != file::join_result::joined) return file::join_error(joined) != 0;
    element_run const run = run_of(g, v, (page << fs.cache.page_shift) + begin, begin, sizeof(T));
    std::int64_t const buffer = open_for_lanes(g, f, page, v, run.range, wait);
    std::uint32_t had = 0;
    if (v.leads && buffer >= 0) had = fs.writes.buffers[buffer].ranges;
    auto const first = lowest_lane(v.peers);
    auto const theirs =
        static_cast<std::int64_t>(g.shfl(static_cast<std::uint64_t>(buffer), first));
    // open_frame() has found room for the first run.
    std::uint32_t const ranges = g.shfl(had, first);
    bool const fits = run.number == 0 || ranges + run.number < rpc::most_ranges;
    bool const adds = v.here && theirs >= 0 && fits;
    g.sync();  // all lanes come after the acquires of the lane that opened the frame
    T* const element = reinterpret_cast<T*>(cache::frame_bytes(fs.cache, v.frame) + begin);
    if (adds) old = atomic_ref<T, scope::device>(*element).fetch_add(value, memory_order_relaxed);
    g.sync();  // all adds are made
    if (adds && run.distinct) {
      std::byte* const to = dirty::buffer_bytes(fs, static_cast<std::uint32_t>(theirs)) + begin;
      *reinterpret_cast<T*>(to) = atomic_ref<T, scope::device>(*element).load(memory_order_relaxed);
    }
    g.sync();  // all sums are in the write buffers
    post(g, v, run, adds, buffer);
    g.sync();  // everything is posted
    if (g.thread_rank() == 0) file::leave_writers(fs, f.file);
    return adds;
  }

 private:
  /// Posts each page's runs of lanes that add, and unlocks its frame. All lanes of the group call.
  __device__ __forceinline__ void post(converged_group const& g, page_visit const& v,
                                       element_run const& run, bool adds,
                                       std::int64_t buffer) const {
    fs_ref const& fs = *f.handle;
    bool const opened = v.leads && buffer >= 0;
    rpc::byte_range const block = block_of(g, f, page, v, adds);
    std::uint32_t end = 0;
    std::uint32_t bytes = 0;
    for_each_lane(g.ballot(adds && run.starts), [&](unsigned from) {
      rpc::byte_range const range{g.shfl(run.range.begin, from), g.shfl(run.range.end, from)};
      if (!opened || (v.peers >> from & 1) == 0) return;
      dirty::add_range(fs, static_cast<std::uint32_t>(buffer), range);
      end = most(end, range.end);
      bytes += range.end - range.begin;
    });
    if (!opened) return;
    post_added(fs, static_cast<std::uint32_t>(buffer), f.file.write_index,
               (page << fs.cache.page_shift) + end, block);
    dirty::unlock_frame(fs, v.frame, static_cast<std::uint32_t>(buffer) + 1);
    handle::count(fs, f.file.fd, handle::file_counter::bytes_written, bytes);
  }
};

/// Adds `value` to the element at byte `at` of the file, which lies in one page. Any thread calls.
/// Lanes that come together and add to one page open its write buffer once. Pages of `through` are
/// written through. Returns the value before the add.
template <class T>
GPUFS_STAGE loaded_element<T> add_to_element(fs_ref const* __restrict__ handle,
                                             file::used_file const file, std::int32_t seat,
                                             std::uint64_t at, T const value,
                                             through_bytes const through) {
  lane_file f(handle, file, seat, through);
  std::uint64_t const page = at >> f.cache.page_shift;
  auto const begin = static_cast<std::uint32_t>(at & (f.page_bytes() - 1));
  T old{};
  std::int32_t error = 0;
  std::int32_t const missed =
      visit_pages(f, page, page_adder<T>{f, page, begin, value, old, error});
  std::int32_t const failed = missed != 0 ? missed : error;
  return {{failed, f.file}, failed == 0 ? old : T{}};
}

}  // namespace gpufs::io
