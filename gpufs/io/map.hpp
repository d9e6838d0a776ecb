// gmmap, gmunmap, gmsync: raw pointers to pinned pages.
#pragma once

#include <gpufs/io/read.hpp>
#include <gpufs/io/sync.hpp>
#include <gpufs/io/write.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/mman.h>
#include <sys/types.h>

namespace gpufs {

namespace detail {

__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> frame_mappings(
    fs_ref const& fs, std::uint32_t frame) {
  return atomic_ref<std::uint32_t, scope::device>(fs.mappings[frame]);
}

/// Pins the page if it is there. Returns `absent`, with nothing pinned, also for one that somebody
/// is bringing in. All lanes of a warp call.
GPUFS_STAGE inline lookup pin_if_ready(fs_ref const* handle, std::uint64_t uid,
                                       std::uint64_t page) {
  fs_ref const& fs = *handle;
  lookup found = find_and_pin(fs.cache, uid, page);
  if (found.result == lookup_result::filling) {
    if (lane_id() == 0) unpin_read(fs.cache.headers[found.frame]);
    __syncwarp();
    found.result = lookup_result::absent;
  }
  return found;
}

/// A page that is ready and pinned for the group, or why there is none.
struct pinned_page {
  std::int32_t error;
  std::uint32_t frame;
  std::uint64_t valid;  ///< bytes of the page that the file has
};

/// Has the page that a span lies in pinned once. All threads of the group call, all get the answer.
/// Ends with a barrier of the group.
template <class Group>
__device__ __forceinline__ pinned_page pin_page(io_context<Group>& io, read_span const& span) {
  using ops = typename io_context<Group>::ops;
  std::uint64_t const start = device_clock_ns();
  for (bool first = true;; first = false) {
    std::uint64_t seen[4] = {};
    if (ops::warp(io.group()) == 0) {
      lookup const found = pin_if_ready(io.fs().self, span.uid, span.first_page());
      seen[0] = found.result == lookup_result::hit ? 1 : 0;
      seen[1] = found.frame;
      seen[2] = found.valid;
      seen[3] = device_clock_ns() - start > io.fs().timeout_ns ? 1 : 0;
      if (first && seen[0] != 0 && lane_id() == 0) gpufs::count(io.fs(), counter::hits);
    }
    ops::broadcast(io.group(), seen);
    if (seen[0] != 0) return {0, static_cast<std::uint32_t>(seen[1]), seen[2]};
    if (seen[3] != 0) return {-ENOMEM, 0, 0};
    // Into the cache first; from there to the pin somebody else's page may take its place, and then
    // it is read again.
    span_read const read = read_pages(io, span);
    if (read.bytes != span.end - span.begin && read.error != 0) return {read.error, 0, 0};
  }
}

/// The frame in which an address lies, or -1.
__device__ __forceinline__ std::int64_t frame_of(page_cache_ref const& c, void const* address) {
  auto const* const at = static_cast<std::byte const*>(address);
  if (at < c.frames || at >= c.frames + (std::uint64_t(c.frame_count) << c.page_shift)) return -1;
  return (at - c.frames) >> c.page_shift;
}

}  // namespace detail

template <class Group>
__device__ ssize_t gmmap(io_context<Group>& io, int fd, std::size_t count, std::int64_t offset,
                         int protection, void** address) {
  using ops = typename io_context<Group>::ops;
  if (ops::warps(io.group()) == 0) return -EINVAL;
  if (std::int32_t const error = detail::use_file(io, fd); error != 0) return error;
  if (offset < 0 || count == 0 ||
      (protection != PROT_READ && protection != (PROT_READ | PROT_WRITE)))
    return -EINVAL;
  if (address == nullptr) return -EFAULT;
  used_file const& file = io.file();
  std::uint64_t const access = file.flags & O_ACCMODE;
  if (access == O_WRONLY || ((protection & PROT_WRITE) != 0 && access == O_RDONLY)) return -EACCES;
  auto const begin = static_cast<std::uint64_t>(offset);
  if (begin >= file.size) return 0;
  std::uint32_t const shift = io.fs().cache.page_shift;
  std::uint64_t const page_begin = begin >> shift << shift;
  std::uint64_t end = page_begin + (std::uint64_t(1) << shift);
  if (count < end - begin) end = begin + count;
  if (end > file.size) end = file.size;
  read_span const span{nullptr, begin, end, file.uid, file.size, file.fd, shift, file.place != 0};
  detail::pinned_page const page = detail::pin_page(io, span);
  if (page.error != 0) return page.error;
  std::uint64_t const in_page = begin - page_begin;
  std::uint64_t const has = page.valid > in_page
                                ? page.valid - in_page
                                : 0;  // less than asked for if the file has become shorter
  std::uint64_t const mapped = has < end - begin ? has : end - begin;
  if (io.group().thread_rank() == 0) {
    if (mapped == 0) {
      unpin_read(io.fs().cache.headers[page.frame]);
    } else {
      detail::frame_mappings(io.fs(), page.frame).fetch_add(1, memory_order_relaxed);
      gpufs::count(io.fs(), counter::maps);
      detail::note_read(io, span.uid, begin + mapped);
    }
  }
  if (mapped == 0) return 0;
  *address = frame_bytes(io.fs().cache, page.frame) + in_page;
  return static_cast<ssize_t>(mapped);
}

template <class Group>
__device__ int gmunmap(io_context<Group>& io, void const* address) {
  // Behind the barrier nobody of the group reads the page any more: see unpin_read().
  io_context<Group>::ops::sync(io.group());
  return detail::in_first_warp(io.group(), [&] {
    std::int32_t result = 0;
    if (lane_id() == 0) {
      fs_ref const& fs = io.fs();
      std::int64_t const frame = detail::frame_of(fs.cache, address);
      result = -EINVAL;
      if (frame >= 0) {
        auto const mappings = detail::frame_mappings(fs, static_cast<std::uint32_t>(frame));
        std::uint32_t seen = mappings.load(memory_order_relaxed);
        while (seen != 0 &&
               !mappings.compare_exchange_strong(seen, seen - 1, memory_order_relaxed)) {
        }
        if (seen != 0) {
          unpin(fs.cache.headers[frame]);  // a release: the group may have stored to the page
          gpufs::count(fs, counter::unmaps);
          result = 0;
        }
      }
    }
    return warp_broadcast(result);
  });
}

template <class Group>
__device__ int gmsync(io_context<Group>& io, int fd, void const* address, std::size_t count,
                      int flags) {
  using ops = typename io_context<Group>::ops;
  if (ops::warps(io.group()) == 0) return -EINVAL;
  if (flags != MS_ASYNC && flags != MS_SYNC) return -EINVAL;
  if (std::int32_t const error = detail::use_file(io, fd); error != 0) return error;
  page_cache_ref const& cache = io.fs().cache;
  std::int64_t const frame = detail::frame_of(cache, address);
  if (frame < 0) return -EINVAL;
  if ((io.file().flags & O_ACCMODE) != O_RDWR || io.file().place == 0) return -EACCES;
  // Pinned by the mapping, if there is one: so its name stays.
  std::uint64_t seen[4] = {};
  if (io.group().thread_rank() == 0) {
    frame_header& h = cache.headers[frame];
    seen[0] = detail::frame_mappings(io.fs(), static_cast<std::uint32_t>(frame))
                  .load(memory_order_relaxed);
    seen[1] = atomic_ref<std::uint64_t, scope::device>(h.uid).load(memory_order_relaxed);
    seen[2] = atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed);
  }
  ops::broadcast(io.group(), seen);
  std::uint64_t const page_bytes = std::uint64_t(1) << cache.page_shift;
  std::uint64_t const in_page =
      static_cast<std::uint64_t>(static_cast<std::byte const*>(address) -
                                 frame_bytes(cache, static_cast<std::uint32_t>(frame)));
  if (seen[0] == 0 || count > page_bytes - in_page) return -EINVAL;
  // The page writes its bytes to itself, and by that to its write buffer, as gwrite would.
  ssize_t const written = detail::write_at(
      io, fd, address, count, static_cast<std::int64_t>((seen[2] << cache.page_shift) + in_page),
      false, seen[1]);
  if (written < 0) return static_cast<int>(written);
  return flags == MS_SYNC ? gfsync(io, fd) : 0;
}

}  // namespace gpufs
