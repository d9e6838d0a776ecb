// Loads of single elements by requests of their own, without their page. They serve lanes that come
// with few others, where no file window has the bytes.
#pragma once

#include <gpufs/cache/peek.hpp>
#include <gpufs/device.hpp>
#include <gpufs/file/file_record.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/io/element/ahead.hpp>
#include <gpufs/io/element/lane_fetch.hpp>
#include <gpufs/io/element/straight.hpp>
#include <gpufs/ring/submit.hpp>
#include <gpufs/source/staged.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::io {

using namespace base;

// Problem: a lane that comes alone pulls a page of 4 KiB by 256 loads of 16 bytes. The bus carries
//   some 130 million loads a second, however short they are. A filter that selects few rows of a
//   column spent nearly all of its time so.
// Trick: the first access to a page asks for its element only. The second one brings the page in.
// A lane that walks through a file is not slowed down: where the page before is in the cache, the
// page is brought in at once.

/// Lanes that come together from here on pull a page by long loads.
inline constexpr unsigned enough_lanes = 8;

/// Whether an element is to be requested without its page. Counts the access. Any thread calls.
__device__ __forceinline__ bool goes_alone(fs_ref const& fs, std::uint64_t version,
                                           std::uint64_t page) {
  cache::seen_frame before;
  return converged().size() < enough_lanes && rpc::block_backing_of(version) == 0 &&
         (fs.ahead.count == 0 || !is_requested(ahead_entry(fs, version, page), version, page)) &&
         (page == 0 || !cache::see_page(fs.cache, version, page - 1, before)) &&
         !wants_page(fs.windows, page_key(version, page), 1);
}

/// A page channel with the bytes that were requested through it.
struct requested_bytes {
  std::byte const* bytes = nullptr;  ///< in pinned memory; null: nothing was requested, or came
  ring::channel via;
};

/// Requests bytes [begin, name.expected) of a page, and waits for them, if they are to go without
/// the page. Any thread calls; it holds no page. The caller gives the channel of what came back.
GPUFS_LIBRARY_STAGE requested_bytes request_alone(fs_ref const* __restrict__ handle,
                                                  source::page_name const name,
                                                  std::uint32_t begin) {
  fs_ref const& fs = *handle;
  requested_bytes got;
  if (!goes_alone(fs, name.version, name.page) || !lane_channel(fs, 0, got.via)) return got;
  rpc::request r = source::page_request(fs, name, got.via, begin);
  r.flags |= rpc::read_for_elements;
  ring::submit_alone(fs, r);
  handle::add(fs, handle::counter::requests);
  handle::add(fs, handle::counter::read_requests);
  bool answered = false;
  std::int32_t const result = source::await_answer(fs, got.via, false, answered);
  if (answered && result >= 0 && rpc::bytes_read(result) >= r.length) {
    handle::add(fs, handle::counter::elements_alone);
    handle::add(fs, handle::counter::bytes_pulled, r.length);
    got.bytes = ring::staging_bytes(fs, fs.channels.page, got.via) + begin;
  } else {
    // The page's own request tells what is wrong.
    ring::return_channel(fs.channels.page, got.via, answered);
  }
  return got;
}

/// Loads the element at byte `at` of the file by a request of its own. It may go without its page.
/// Any thread calls; it holds no page. Returns false, and loads nothing, if the page is to be
/// brought in, or must be. The bytes are right for the reason that load_straight() gives.
template <class T>
__device__ __forceinline__ bool load_alone(fs_ref const& fs, file::used_file const& file,
                                           std::uint64_t at, T& value) {
  static_assert(sizeof(T) <= most_straight_bytes);
  std::uint64_t const page = at >> fs.cache.page_shift;
  auto const begin = static_cast<std::uint32_t>(at - (page << fs.cache.page_shift));
  requested_bytes const got =
      request_alone(&fs, {file.version, page, file.fd, begin + sizeof(T), false}, begin);
  if (got.bytes == nullptr) return false;
  value = load_from_window<T>(got.bytes);
  await_loads(cache::mark_of_object(value));  // the channel's next holder overwrites them
  ring::return_channel(fs.channels.page, got.via, true, after_settling);
  return true;
}

}  // namespace gpufs::io
