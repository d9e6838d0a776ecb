// The baseline's gread: a whole threadblock brings in and copies one page after the other, one
// request for each page that is missing and that was not read ahead.
#pragma once

#include <apps/baseline/original_cache.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace gpufs::apps::original {

namespace detail {

/// Bytes from `from` to `to` by all threads of the block, 16 at a time where both are so aligned.
__device__ inline void block_copy(std::byte* to, std::byte const* from, std::uint64_t bytes) {
  std::uint64_t done = 0;
  if (((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) & 15) == 0) {
    auto* const wide_to = reinterpret_cast<uint4*>(to);
    auto const* const wide_from = reinterpret_cast<uint4 const*>(from);
    for (std::uint64_t i = threadIdx.x; i < bytes / 16; i += blockDim.x) wide_to[i] = wide_from[i];
    done = bytes / 16 * 16;
  }
  for (std::uint64_t i = done + threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
}

/// The slot that this block's requests go through.
__device__ inline std::uint32_t seat_of_block(ref const& fs) { return blockIdx.x % fs.slots; }

__device__ inline bool answered(ref const& fs, std::uint32_t slot, std::uint32_t number,
                                std::int32_t& result) {
  // Pairs with the host thread's release: who sees the number sees the page in staging.
  std::uint64_t const word =
      atomic_ref<std::uint64_t, scope::system>(fs.answers[slot].word).load(memory_order_acquire);
  result = static_cast<std::int32_t>(static_cast<std::uint32_t>(word));
  return static_cast<std::uint32_t>(word >> 32) == number;
}

/// Sends a request through a slot whose lock the caller has, and waits. Returns the answer, or
/// -ETIMEDOUT.
__device__ inline std::int32_t exchange(ref const& fs, std::uint32_t slot, std::uint64_t offset,
                                        std::uint64_t bytes) {
  std::int32_t result = 0;
  std::uint32_t& number = fs.slot_numbers[slot];
  // A request that somebody gave up may still be under way: its answer must have come before
  // staging is used again.
  if (!wait_until(fs, [&] { return answered(fs, slot, number, result); })) return -ETIMEDOUT;
  ++number;
  request_slot& r = fs.requests[slot];
  atomic_ref<std::uint64_t, scope::system>(r.offset).store(offset, memory_order_relaxed);
  atomic_ref<std::uint64_t, scope::system>(r.bytes).store(bytes, memory_order_relaxed);
  // Pairs with the host thread's acquire: who sees the number sees the request.
  atomic_ref<std::uint32_t, scope::system>(r.number).store(number, memory_order_release);
  count(fs, counter::requests);
  if (!wait_until(fs, [&] { return answered(fs, slot, number, result); })) return -ETIMEDOUT;
  return result;
}

}  // namespace detail

/// Asks the host for `bytes` bytes at `offset`, through the slot of this block, and waits. One
/// thread calls. Returns the bytes read, which then lie at the start of the slot's staging memory,
/// or -errno; -ETIMEDOUT if there was no answer. Unless it is -EBUSY (the slot was not to be had),
/// end_request() must follow.
__device__ inline std::int32_t request_bytes(ref const& fs, std::uint64_t offset,
                                             std::uint64_t bytes) {
  std::uint32_t const slot = detail::seat_of_block(fs);
  if (!take_lock(fs, fs.slot_locks[slot])) return -EBUSY;
  fs.staged[slot] = {};
  return detail::exchange(fs, slot, offset, bytes);
}

/// The same, but with options::readahead: bytes that an earlier request of the slot read ahead are
/// not asked for again, and a request asks for more than `bytes`. `at`: where in the slot's staging
/// memory they lie.
__device__ inline std::int32_t request_ahead(ref const& fs, std::uint64_t offset,
                                             std::uint64_t bytes, std::uint64_t& at) {
  std::uint32_t const slot = detail::seat_of_block(fs);
  if (!take_lock(fs, fs.slot_locks[slot])) return -EBUSY;
  staged_range& staged = fs.staged[slot];
  if (offset >= staged.begin && offset + bytes <= staged.end) {
    at = offset - staged.begin;
    return static_cast<std::int32_t>(bytes);
  }
  staged = {};  // of a request that somebody gives up nothing is known
  at = 0;
  std::uint64_t const left = fs.file_bytes - offset;
  std::uint64_t const wanted = bytes + fs.readahead_bytes;
  std::int32_t const result = detail::exchange(fs, slot, offset, wanted < left ? wanted : left);
  if (result > 0 && fs.readahead_bytes != 0)
    staged = {offset, offset + static_cast<std::uint64_t>(result)};
  return result < static_cast<std::int64_t>(bytes) ? result : static_cast<std::int32_t>(bytes);
}

/// Gives the slot to the next block that uses it. One thread calls, after a barrier with those that
/// read its staging page.
__device__ inline void end_request(ref const& fs) {
  give_lock(fs.slot_locks[detail::seat_of_block(fs)]);
}

namespace detail {

/// What the block's first thread tells the others about a page.
struct page_news {
  std::int32_t error;
  std::uint32_t frame;
  std::uint32_t fetched;  ///< 1: the page lies in staging, and has yet to be put in its frame
  std::uint64_t at;       ///< where in the slot's staging memory
};

/// Finds the page, or has it brought to staging. One thread calls.
__device__ inline page_news find_page(ref const& fs, std::uint64_t page) {
  page_news news{0, no_frame, 0, 0};
  pin_result got = pin_result::filling;
  bool waited = false;
  if (!wait_until(fs, [&] {
        got = try_pin(fs, page, news.frame);
        waited |= got == pin_result::filling;
        return got != pin_result::filling;
      })) {
    return {-ETIMEDOUT, no_frame, 0, 0};
  }
  if (waited) count(fs, counter::waits);
  if (got == pin_result::pinned) {
    count(fs, counter::hits);
    return news;
  }
  count(fs, counter::misses);
  std::uint64_t const offset = page * fs.page_bytes;
  std::uint64_t const left = fs.file_bytes - offset;
  std::uint64_t const expected = left < fs.page_bytes ? left : fs.page_bytes;
  news.error = allocate_frame(fs, page, news.frame);
  if (news.error == 0) {
    std::int32_t const result = request_ahead(fs, offset, expected, news.at);
    news.fetched = 1;
    if (static_cast<std::int64_t>(result) != static_cast<std::int64_t>(expected)) {
      news = {result < 0 ? result : -EIO, no_frame, 0, 0};
      if (result != -EBUSY) end_request(fs);
    }
  }
  if (news.error != 0) abandon_fill(fs, page);
  return news;
}

}  // namespace detail

/// Reads up to `bytes` bytes at `offset` into `to` (device memory). All threads of a
/// one-dimensional block call with the same arguments and get the same result: bytes read (short at
/// end of file and before a failure), or -EINVAL (offset < 0), -EIO (the host's read failed) or the
/// host's own errno, -ENOMEM (all frames stayed in use), -EBUSY (other blocks kept the slot),
/// -ETIMEDOUT (no answer). Waits end after options::timeout_ms.
__device__ inline ssize_t gread(ref const& fs, void* to, std::size_t bytes, std::int64_t offset) {
  __shared__ detail::page_news shared_news;
  if (offset < 0) return -EINVAL;
  auto const begin = static_cast<std::uint64_t>(offset);
  if (begin >= fs.file_bytes) return 0;
  std::uint64_t const count = fs.file_bytes - begin < bytes ? fs.file_bytes - begin : bytes;
  for (std::uint64_t done = 0; done < count;) {
    std::uint64_t const page = (begin + done) / fs.page_bytes;
    std::uint64_t const within = (begin + done) % fs.page_bytes;
    std::uint64_t const range =
        fs.page_bytes - within < count - done ? fs.page_bytes - within : count - done;
    __syncthreads();  // the last use of shared_news is over
    if (threadIdx.x == 0) shared_news = detail::find_page(fs, page);
    __syncthreads();
    detail::page_news const news = shared_news;
    if (news.error != 0) return done != 0 ? static_cast<ssize_t>(done) : news.error;
    std::byte* const frame = fs.frames + news.frame * fs.page_bytes;
    if (news.fetched != 0) {
      detail::block_copy(frame, fs.staging_of(detail::seat_of_block(fs)) + news.at, fs.page_bytes);
      __syncthreads();
      if (threadIdx.x == 0) {
        end_request(fs);
        publish(fs, page, news.frame);
      }
    }
    detail::block_copy(static_cast<std::byte*>(to) + done, frame + within, range);
    __syncthreads();
    if (threadIdx.x == 0) unpin(fs, page);
    done += range;
  }
  return static_cast<ssize_t>(count);
}

}  // namespace gpufs::apps::original
