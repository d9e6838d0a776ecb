// Requests pages for a lane that will access their elements later.
#pragma once

#include <gpufs/io/element/ahead.hpp>
#include <gpufs/io/element/lane_fetch.hpp>
#include <gpufs/io/element/lane_pages.hpp>
#include <gpufs/ring/submit.hpp>

#include <cstdint>

namespace gpufs::io {

using namespace base;

/// Whether the page is in the cache, or on its way there. Any single thread calls.
__device__ __forceinline__ bool is_cached(lane_file const& f, std::uint64_t page) {
  cache::lookup const found = cache::lane_find_and_pin(f.cache, f.file.version, page);
  if (found.result == cache::lookup_result::absent) return false;
  cache::unpin_read(f.cache.headers[found.frame]);
  return true;
}

/// Requests a page that is not in the cache, if it gets its entry and a channel. Any single thread
/// calls. Never waits.
///
/// An entry goes to another page once its request is answered, and not before: each request would
/// else take a channel away for the time of its answer.
__device__ __forceinline__ void request_ahead(lane_file const& f, source::page_name const& name) {
  fs_ref const& fs = *f.handle;
  ring::ahead_page& a = ahead_entry(fs, name.version, name.page);
  std::uint32_t const seen = phase_of_ahead(a).load(memory_order_relaxed);
  bool const holds = seen == static_cast<std::uint32_t>(ring::ahead_phase::requested);
  if (holds && is_ahead(a, name.version, name.page)) return;
  if (!own_ahead(a, seen)) return;
  if (holds && !drop_ahead(fs, a)) {
    leave_ahead(a, ring::ahead_phase::requested);
    return;
  }
  ring::channel via;
  if (!lane_channel(fs, 0, via)) {
    leave_ahead(a, ring::ahead_phase::empty);
    return;
  }
  std::uint64_t const begin = name.page << fs.cache.page_shift;
  a.channel = via.number;
  a.sequence = via.sequence;
  a.expected = name.expected;
  // Before the request, so that it has the writes that are counted.
  if (name.zero_filled)
    a.writes = dirty::writes_counted(fs, name.version, begin, begin + name.expected);
  atomic_ref<std::uint64_t, scope::device>(a.version).store(name.version, memory_order_relaxed);
  atomic_ref<std::uint64_t, scope::device>(a.page).store(name.page, memory_order_relaxed);
  if (!source::read_by_drives<one_lane>(fs, true, name, via, 0)) {
    rpc::request request = source::page_request(fs, name, via, 0);
    request.flags |= rpc::read_for_elements;
    ring::submit_alone(fs, request);
  }
  leave_ahead(a, ring::ahead_phase::requested);
  handle::add(fs, handle::counter::requests);
  handle::add(fs, handle::counter::read_requests);
}

/// Requests the pages of bytes [begin, end) of the file that are neither in the cache nor in a file
/// window, as entries and channels allow. Any thread calls. Never waits.
GPUFS_LIBRARY_STAGE void prefetch_bytes(fs_ref const* __restrict__ handle,
                                        file::used_file const file, std::int32_t seat,
                                        std::uint64_t begin, std::uint64_t end) {
  lane_file const f(handle, file, seat);
  fs_ref const& fs = *handle;
  // A request for an old version would be of no use. The next access looks at the file again.
  if (fs.ahead.count == 0 || begin >= end || may_have_new_version(f)) return;
  std::uint64_t const first = begin >> f.cache.page_shift;
  std::uint64_t const last = least(((end - 1) >> f.cache.page_shift), first + fs.ahead.count - 1);
  for (std::uint64_t page = first; page <= last; ++page) {
    source::page_name const name = f.name(page);
    if (name.expected == 0) return;
    if (is_cached(f, page)) continue;
    if (fs.windows.entries != nullptr && !name.zero_filled &&
        source::window_address(handle, name.version, page << f.cache.page_shift, name.expected) !=
            0)
      continue;
    request_ahead(f, name);
  }
}

}  // namespace gpufs::io
