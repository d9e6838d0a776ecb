// gmmap, gmunmap, gmsync: raw pointers to pinned pages.
#pragma once

#include <gpufs/io/read/read.hpp>
#include <gpufs/io/sync.hpp>
#include <gpufs/io/write/write.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/mman.h>
#include <sys/types.h>

namespace gpufs {

namespace io {

using namespace base;

__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> frame_mappings(
    fs_ref const& fs, std::uint32_t frame) {
  return atomic_ref<std::uint32_t, scope::device>(fs.pins.mappings[frame]);
}

/// Mappings that a page can have. A frame's state has room for more pins, so groups that map the
/// page at the same time may exceed this a little.
inline constexpr std::uint32_t most_mappings = 1u << 20;

/// Pins the page if it is ready. All lanes of a warp call. Returns `absent`, with nothing pinned,
/// if it is not in the cache or another group is bringing it in.
GPUFS_LIBRARY_STAGE cache::lookup pin_if_ready(fs_ref const* __restrict__ handle,
                                               std::uint64_t version, std::uint64_t page) {
  fs_ref const& fs = *handle;
  cache::lookup found = cache::find_and_pin(fs.cache, version, page);
  if (found.result == cache::lookup_result::filling) {
    if (lane_id() == 0) cache::unpin_read(fs.cache.headers[found.frame]);
    __syncwarp();
    found.result = cache::lookup_result::absent;
  }
  return found;
}

/// A page that is ready and pinned for the group. With an error nothing is pinned.
struct pinned_page {
  std::int32_t error;
  std::uint32_t frame;
  std::uint64_t valid;  ///< bytes of the page that the file has
};

/// Pins the page, and waits in turn for what that needs. All lanes of a warp call; its group holds
/// no page. Returns -ENOMEM if no caller has got a frame for rpc_timeout, or the error of the read.
GPUFS_LIBRARY_STAGE pinned_page pin_in_turn(fs_ref const* __restrict__ handle, read_span const span,
                                            std::int32_t seat) {
  fs_ref const& fs = *handle;
  source::page_name const name = span.name(span.first_page());
  source::fill e = enter_in_turn(fs, seat, name);
  if (e.status == source::page_status::fetching) {
    if (fetch_page(fs, name, e) == 0 && lane_id() == 0) {
      cache::frame_header& h = fs.cache.headers[e.frame];
      static_cast<void>(cache::pin(h));  // before the filler's pin goes
      cache::publish(h, e.got);
    }
    __syncwarp();
  }
  return {e.error, e.frame, e.got};
}

/// Pins the page of the span once for the group and brings it in if needed. All threads of the
/// group call, and all get the result. Ends with a group barrier. Errors as of pin_in_turn(), and
/// -ENOMEM if the page has too many mappings.
template <class Group>
__device__ __forceinline__ pinned_page pin_page(io_context<Group>& io, read_span const& span) {
  using ops = typename io_context<Group>::ops;
  struct attempt {
    std::int32_t error = 0;
    std::uint32_t pinned = 0;
    std::uint64_t frame = 0;
    std::uint64_t valid = 0;
  };
  for (unsigned round = 0;; ++round) {
    attempt now;
    if (ops::warp(io.group()) == 0) {
      if (round < 2) {
        cache::lookup const found = pin_if_ready(io.handle(), span.version, span.first_page());
        now = {0, found.result == cache::lookup_result::hit ? 1u : 0u, found.frame, found.valid};
        if (round == 0 && now.pinned != 0 && lane_id() == 0)
          handle::count(io.fs(), span.fd, handle::file_counter::hits);
      } else {
        pinned_page const page = pin_in_turn(io.handle(), span, io.seat());
        now = {page.error, 1, page.frame, page.valid};
      }
      if (lane_id() == 0 && now.error == 0 && now.pinned != 0) {
        auto const frame = static_cast<std::uint32_t>(now.frame);
        if (frame_mappings(io.fs(), frame).load(memory_order_relaxed) >= most_mappings) {
          cache::unpin_read(io.fs().cache.headers[frame]);
          now.error = -ENOMEM;
        }
      }
    }
    now = ops::broadcast(io.group(), now);
    if (now.error != 0) return {now.error, 0, 0};
    if (now.pinned != 0) return {0, static_cast<std::uint32_t>(now.frame), now.valid};
    if (round != 0) continue;
    // All warps bring the page in. Another page may take its frame before the pin. Then one warp
    // brings it in again and keeps the pin.
    span_read const read = read_pages(io, span);
    if (read.bytes != span.end - span.begin && read.error != 0) return {read.error, 0, 0};
  }
}

/// A mapped frame: its name, and the number of its mappings.
struct mapped_frame {
  std::uint64_t version = 0;
  std::uint64_t page = 0;
  std::uint32_t mappings = 0;
};

/// The frame in which an address lies, or -1.
__device__ __forceinline__ std::int64_t frame_of(handle::page_cache_ref const& c,
                                                 void const* address) {
  auto const* const at = static_cast<std::byte const*>(address);
  if (at < c.frames || at >= c.frames + (std::uint64_t(c.frame_count) << c.page_shift)) return -1;
  return (at - c.frames) >> c.page_shift;
}

}  // namespace io

template <class Group>
__device__ ssize_t gmmap(io_context<Group>& io, int fd, std::size_t count, std::int64_t offset,
                         int protection, void** address) {
  using ops = typename io_context<Group>::ops;
  if (ops::warps(io.group()) == 0) return -EINVAL;
  if (std::int32_t const error = io::use_file(io, fd); error != 0) return error;
  if (offset < 0 || count == 0 ||
      (protection != PROT_READ && protection != (PROT_READ | PROT_WRITE)))
    return -EINVAL;
  if (address == nullptr) return -EFAULT;
  file::used_file const& file = io.file();
  std::uint64_t const access = file.flags & O_ACCMODE;
  if (access == O_WRONLY || ((protection & PROT_WRITE) != 0 && access == O_RDONLY)) return -EACCES;
  auto const begin = static_cast<std::uint64_t>(offset);
  if (begin >= file.size) return 0;
  std::uint32_t const shift = io.fs().cache.page_shift;
  std::uint64_t const page_begin = begin >> shift << shift;
  std::uint64_t end = page_begin + (std::uint64_t(1) << shift);
  if (count < end - begin) end = begin + count;
  if (end > file.size) end = file.size;
  io::read_span const span{nullptr,   begin,   end,   file.version,
                           file.size, file.fd, shift, file.write_index != 0};
  io::pinned_page const page = io::pin_page(io, span);
  if (page.error != 0) return page.error;
  std::uint64_t const in_page = begin - page_begin;
  std::uint64_t const has = page.valid > in_page
                                ? page.valid - in_page
                                : 0;  // fewer bytes than requested if the file has become shorter
  std::uint64_t const mapped = base::least(has, end - begin);
  if (io.group().thread_rank() == 0) {
    if (mapped == 0) {
      cache::unpin_read(io.fs().cache.headers[page.frame]);
    } else {
      io::frame_mappings(io.fs(), page.frame).fetch_add(1, memory_order_relaxed);
      handle::add(io.fs(), handle::counter::maps);
      io::note_read(io, span.version, begin + mapped);
    }
  }
  if (mapped == 0) return 0;
  ops::sync(io.group());  // counted before any thread passes the pointer on to one that unmaps it
  *address = cache::frame_bytes(io.fs().cache, page.frame) + in_page;
  return static_cast<ssize_t>(mapped);
}

template <class Group>
__device__ int gmunmap(io_context<Group>& io, void const* address) {
  // After the barrier no thread of the group uses the page.
  io_context<Group>::ops::sync(io.group());
  return io::in_first_warp(io.group(), [&] {
    std::int32_t result = 0;
    if (lane_id() == 0) {
      fs_ref const& fs = io.fs();
      std::int64_t const frame = io::frame_of(fs.cache, address);
      result = -EINVAL;
      if (frame >= 0) {
        auto const mappings = io::frame_mappings(fs, static_cast<std::uint32_t>(frame));
        std::uint32_t seen = mappings.load(memory_order_relaxed);
        while (seen != 0 &&
               !mappings.compare_exchange_strong(seen, seen - 1, memory_order_relaxed)) {
        }
        if (seen != 0) {
          cache::unpin(
              fs.cache.headers[frame]);  // a release: the group may have stored to the page
          handle::add(fs, handle::counter::unmaps);
          result = 0;
        }
      }
    }
    return base::warp_broadcast(result);
  });
}

template <class Group>
__device__ int gmsync(io_context<Group>& io, int fd, void const* address, std::size_t count,
                      int flags) {
  using ops = typename io_context<Group>::ops;
  if (ops::warps(io.group()) == 0) return -EINVAL;
  if (flags != MS_ASYNC && flags != MS_SYNC) return -EINVAL;
  if (std::int32_t const error = io::use_file(io, fd); error != 0) return error;
  handle::page_cache_ref const& cache = io.fs().cache;
  std::int64_t const frame = io::frame_of(cache, address);
  if (frame < 0) return -EINVAL;
  if ((io.file().flags & O_ACCMODE) != O_RDWR || io.file().write_index == 0) return -EACCES;
  // A mapping pins the frame, so its name stays. Without a mapping the call fails below.
  io::mapped_frame mapped;
  if (io.group().thread_rank() == 0) {
    cache::frame_header& h = cache.headers[frame];
    mapped.mappings =
        io::frame_mappings(io.fs(), static_cast<std::uint32_t>(frame)).load(memory_order_relaxed);
    mapped.version = atomic_ref<std::uint64_t, scope::device>(h.version).load(memory_order_relaxed);
    mapped.page = atomic_ref<std::uint64_t, scope::device>(h.page).load(memory_order_relaxed);
  }
  mapped = ops::broadcast(io.group(), mapped);
  std::uint64_t const page_bytes = std::uint64_t(1) << cache.page_shift;
  std::uint64_t const in_page =
      static_cast<std::uint64_t>(static_cast<std::byte const*>(address) -
                                 cache::frame_bytes(cache, static_cast<std::uint32_t>(frame)));
  if (mapped.mappings == 0 || count > page_bytes - in_page) return -EINVAL;
  // The page writes its bytes to itself, and so to its write buffer, as gwrite does.
  ssize_t const written =
      io::write_at(io, fd, address, count,
                   static_cast<std::int64_t>((mapped.page << cache.page_shift) + in_page), false,
                   mapped.version);
  if (written < 0) return static_cast<int>(written);
  return flags == MS_SYNC ? gfsync(io, fd) : 0;
}

}  // namespace gpufs
