// Write buffers on the device: which frame has which buffer, its written ranges, and its owners.
#pragma once

#include <gpufs/cache/line_wait.hpp>
#include <gpufs/cache/page_table.hpp>
#include <gpufs/dirty/buffer_state.hpp>
#include <gpufs/dirty/write_counters.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/rpc/write_format.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::dirty {

using namespace base;

//   free ---take---> taken ---attach---> attached to a frame
//     ^---give_back----/  ^                    |
//                         +--------take--------+   once the file has its bytes
//
// A buffer pins its frame. So the frame is not replaced while the buffer may hold bytes that the
// file lacks. Replacement that meets such a frame takes back the pin of a clean buffer
// (release_clean). The thread that changes a frame's buffer holds the lock in the frame's word.
// Holders of locks wait only for the daemon.

/// Says that a clean buffer will have bytes of its page that the file lacks. One thread calls, with
/// the lock of the buffer's frame, before these bytes are posted.
__device__ __forceinline__ void mark_buffer(fs_ref const& fs, std::uint32_t buffer) {
  buffer_state const& s = fs.writes.buffers[buffer];
  store_byte(reinterpret_cast<std::uint8_t*>(fs.link.shared.writes.marks)[buffer],
             rpc::mark_of(s.version));
  count_write(fs, s.version, s.page << fs.cache.page_shift);
}

/// Tries for the frame's lock. One thread calls. `buffer` gets 1 + the frame's buffer, or 0. Pairs
/// with unlock_frame().
__device__ __forceinline__ bool try_lock_frame(fs_ref const& fs, std::uint32_t frame,
                                               std::uint32_t& buffer) {
  buffer = frame_buffer(fs, frame).fetch_or(frame_locked, memory_order_acquire);
  return (buffer & frame_locked) == 0;
}
__device__ __forceinline__ void unlock_frame(fs_ref const& fs, std::uint32_t frame,
                                             std::uint32_t buffer) {
  frame_buffer(fs, frame).store(buffer, memory_order_release);
}

/// Whether the file has everything that was posted. Any thread calls. Pairs with the host's
/// release: its reads of the buffer are over.
__device__ __forceinline__ bool is_clean(fs_ref const& fs, std::uint32_t buffer,
                                         std::uint64_t sequence) {
  return written_word(fs, buffer).load(memory_order_acquire) == sequence << rpc::written_shift;
}

/// Takes a buffer that is free, or whose page is clean. One thread calls. A clean page's frame
/// loses the buffer and the pin that came with it.
__device__ __forceinline__ bool try_buffer(fs_ref const& fs, std::uint32_t buffer) {
  buffer_state& s = fs.writes.buffers[buffer];
  atomic_ref<std::uint32_t, scope::device> owner(s.owner);
  std::uint32_t seen = owner.load(memory_order_relaxed);
  if (seen == buffer_taken) return false;
  if (seen == buffer_free)
    return owner.compare_exchange_strong(seen, buffer_taken, memory_order_acquire,
                                         memory_order_relaxed);
  std::uint32_t const frame = seen - 1;
  std::uint32_t had = 0;
  if (!try_lock_frame(fs, frame, had)) return false;
  bool const ours = had == buffer + 1 && is_clean(fs, buffer, s.sequence);
  if (ours) {
    owner.store(buffer_taken, memory_order_relaxed);
    count_write(fs, s.version, s.page << fs.cache.page_shift);  // before the frame can be replaced
  }
  unlock_frame(fs, frame, ours ? 0 : had);
  if (ours) cache::unpin(fs.cache.headers[frame]);
  return ours;
}

/// Where the search for a buffer goes on: the hand of the calling thread's block, which counts the
/// buffers that it has passed, and the buffer at which it began. The hands that a grid uses begin
/// as far apart as the buffers allow.
struct buffer_search {
  atomic_ref<std::uint64_t, scope::device> hand;
  std::uint64_t start;
};
__device__ __forceinline__ buffer_search search_of_block(fs_ref const& fs) {
  std::uint32_t const blocks = gridDim.x * gridDim.y * gridDim.z;
  std::uint32_t const block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  std::uint32_t used = fs.writes.hand_count;
  while (used > 1 && used / 2 >= blocks) used /= 2;  // a grid may have 2^32 blocks, which is 0
  std::uint32_t const number = block & (used - 1);
  return {atomic_ref<std::uint64_t, scope::device>(fs.writes.hands[number * handle::hand_stride]),
          fs.link.shared.writes.count / used * number};
}

/// Takes a write buffer for the caller alone. All lanes of a team call. Returns the buffer, or -1
/// if those it looked at are dirty or in use, or if others wait for one in the buffer line and the
/// caller may not try. Never waits.
template <class Team>
__device__ __forceinline__ std::int64_t take_buffer(fs_ref const& fs,
                                                    cache::line_wait<Team> const& wait) {
  std::uint64_t const count = fs.link.shared.writes.count;
  unsigned const lane = Team::lane();
  if (!wait.may_take()) return -1;
  auto const [hand, start] = search_of_block(fs);
  for (unsigned look = 0; look < 8 && look * Team::size < count; ++look) {
    std::uint64_t from = 0;
    // A lane that searches alone looks at one buffer at a time, and passes it in any case. So lanes
    // that search side by side look at different ones.
    if (lane == 0)
      from = Team::size == 1 ? hand.fetch_add(1, memory_order_relaxed)
                             : hand.load(memory_order_relaxed);
    from = Team::broadcast(from);
    auto const mine = static_cast<std::uint32_t>((start + from + lane) % count);
    // A guess for all lanes with one trip over the bus. try_buffer() looks again.
    buffer_state& s = fs.writes.buffers[mine];
    bool maybe = lane < count;
    if (maybe) {
      std::uint32_t const owner =
          atomic_ref<std::uint32_t, scope::device>(s.owner).load(memory_order_relaxed);
      maybe = owner == buffer_free;
      if (!maybe && owner != buffer_taken) {
        // Clean, or taken by another caller meanwhile. The guess needs no lock.
        maybe = written_word(fs, mine).load(memory_order_relaxed) >> rpc::written_shift ==
                posted_word(fs, mine).load(memory_order_relaxed) >> rpc::posted_shift;
      }
    }
    for (unsigned left = Team::ballot(maybe); left != 0; left &= left - 1) {
      unsigned const chosen = lowest_lane(left);
      bool const got = lane == chosen && try_buffer(fs, mine);
      if (Team::ballot(got) == 0) continue;
      // Buffers that are in use are passed over. Others may have moved the hand further.
      if (got) hand.fetch_max(from + lane + 1, memory_order_relaxed);
      Team::sync();  // all lanes come after the chosen lane's acquire
      return Team::broadcast(mine, chosen);
    }
    if (lane == 0) hand.fetch_max(from + Team::size, memory_order_relaxed);
    Team::sync();  // the next look begins behind these
  }
  return -1;
}

/// Callers in front of the buffer line. They look at words in host memory, and looks at one line of
/// it are answered one after the other.
inline constexpr std::uint32_t buffer_front_turns = 4;

/// Takes a write buffer, and waits for one in the buffer line. All lanes of a team call. The caller
/// and its group hold no frame, no lock and no buffer. Returns the buffer, -EIO if the daemon has
/// stopped, or -ENOMEM if no waiting caller has got a buffer for config::rpc_timeout_ms.
template <class Team = whole_warp>
__device__ __forceinline__ std::int64_t buffer_in_turn(fs_ref const& fs) {
  cache::line_wait<Team> wait(*fs.writes.line, buffer_front_turns);
  for (;;) {
    std::int64_t buffer = take_buffer(fs, wait);
    if (buffer < 0) {
      std::int32_t const error = wait.try_again(fs, -ENOMEM);
      if (error == 0) continue;
      buffer = error;
    }
    wait.leave(buffer >= 0);
    return buffer;
  }
}

/// Gives back a buffer that is taken and not attached. One thread calls.
__device__ __forceinline__ void give_back_buffer(fs_ref const& fs, std::uint32_t buffer) {
  atomic_ref<std::uint32_t, scope::device>(fs.writes.buffers[buffer].owner)
      .store(buffer_free, memory_order_release);
}

/// Frees the frame's write buffer if it is clean; the frame loses the pin that came with it. Any
/// single thread calls, with no pin and no lock. Never waits. Returns whether a buffer was freed.
__device__ __forceinline__ bool release_clean(fs_ref const& fs, std::uint32_t frame) {
  if (fs.writes.frame_buffers == nullptr) return false;
  std::uint32_t const has = frame_buffer(fs, frame).load(memory_order_relaxed);
  if (has == 0 || (has & frame_locked) != 0) return false;
  // The buffer may move to another frame before try_buffer() looks. Then that frame loses it if it
  // is clean there, as in take_buffer().
  if (!try_buffer(fs, has - 1)) return false;
  give_back_buffer(fs, has - 1);
  return true;
}

/// Attaches a taken buffer to a page and pins the frame once more. One thread calls; it has the
/// frame pinned and locked.
__device__ __forceinline__ void attach_buffer(fs_ref const& fs, std::uint32_t buffer,
                                              std::uint32_t frame, std::uint64_t version,
                                              std::uint64_t page) {
  buffer_state& s = fs.writes.buffers[buffer];
  s.ranges = 0;
  s.urgent = 0;
  s.version = version;
  s.page = page;
  rpc::buffer_header& h = fs.link.shared.writes.headers[buffer];
  atomic_ref<std::uint64_t, scope::system>(h.version).store(version, memory_order_relaxed);
  atomic_ref<std::uint64_t, scope::system>(h.page).store(page, memory_order_relaxed);
  atomic_ref<std::uint32_t, scope::device>(s.owner).store(frame + 1, memory_order_relaxed);
  static_cast<void>(cache::pin(fs.cache.headers[frame]));
  mark_buffer(fs, buffer);
}

/// The bits of a posted word that is not busy.
__device__ __forceinline__ std::uint64_t posted_by(buffer_state const& s) {
  return s.sequence << rpc::posted_shift | (s.urgent != 0 ? rpc::posted_urgent : 0);
}

/// host_reads    The host has locked the buffer.
/// list_is_full  The buffer has no room for another range, and must be written back first.
enum class open_result { opened, host_reads, list_is_full };

/// Opens an attached buffer for more bytes of its page. One thread calls, with the frame's lock. If
/// it is not opened, the caller unlocks the frame and tries again later.
__device__ __forceinline__ open_result open_buffer(fs_ref const& fs, std::uint32_t buffer,
                                                   rpc::byte_range added) {
  buffer_state& s = fs.writes.buffers[buffer];
  auto const posted = posted_word(fs, buffer);
  auto const written = written_word(fs, buffer);
  if (!is_clean(fs, buffer, s.sequence)) {
    // Pairs with daemon::write_back::lock_buffer(): at least one of the two sees the other.
    posted.store(s.sequence << rpc::posted_shift | rpc::posted_busy, memory_order_seq_cst);
    std::uint64_t const seen = written.load(memory_order_seq_cst);
    if ((seen & rpc::written_locked) != 0) {
      posted.store(posted_by(s), memory_order_release);
      return open_result::host_reads;
    }
    if (seen != s.sequence << rpc::written_shift) {
      std::uint32_t apart = 0;
      for (std::uint32_t i = 0; i < s.ranges; ++i)
        apart += s.range[i].begin > added.end || s.range[i].end < added.begin ? 1 : 0;
      if (apart < rpc::most_ranges) return open_result::opened;
      posted.store(s.sequence << rpc::posted_shift | rpc::posted_urgent, memory_order_release);
      return open_result::list_is_full;
    }
  }
  s.ranges = 0;
  s.urgent = 0;
  mark_buffer(fs, buffer);
  return open_result::opened;
}

/// Adds a range to those of an open buffer, here and in the pinned header. One thread calls, with
/// the frame's lock.
__device__ __forceinline__ void add_range(fs_ref const& fs, std::uint32_t buffer,
                                          rpc::byte_range added) {
  buffer_state& s = fs.writes.buffers[buffer];
  rpc::buffer_header& h = fs.link.shared.writes.headers[buffer];
  std::uint32_t n = s.ranges;
  for (std::uint32_t i = 0; i < n;) {
    rpc::byte_range const r = s.range[i];
    if (r.begin > added.end || r.end < added.begin) {
      ++i;
      continue;
    }
    // Ranges do not touch each other. So this union comes no nearer to the ranges before it.
    added.begin = least(r.begin, added.begin);
    added.end = most(r.end, added.end);
    if (i != --n) h.range[i] = s.range[i] = s.range[n];
  }
  h.range[n] = s.range[n] = added;
  h.ranges = n + 1;
  s.ranges = static_cast<std::uint16_t>(n + 1);
}

/// Has the next posts of an open buffer hand its page to write-back at once, if its ranges cover
/// `block`, which is empty for pages that are never handed over. One thread calls, with the frame's
/// lock. Ranges do not touch each other, so one of them covers it, or none does.
__device__ __forceinline__ void hand_over(fs_ref const& fs, std::uint32_t buffer,
                                          rpc::byte_range block) {
  if (block.begin == block.end) return;
  buffer_state& s = fs.writes.buffers[buffer];
  for (std::uint32_t i = 0; i < s.ranges; ++i)
    if (s.range[i].begin <= block.begin && s.range[i].end >= block.end) s.urgent = 1;
}

/// Posts the added bytes to the host. One thread calls, with the frame's lock, after a barrier that
/// orders other threads' bytes. Release pairs with the host's acquire of the word.
__device__ __forceinline__ void post_buffer(fs_ref const& fs, std::uint32_t buffer) {
  buffer_state& s = fs.writes.buffers[buffer];
  ++s.sequence;
  posted_word(fs, buffer).store(posted_by(s), memory_order_release);
}

}  // namespace gpufs::dirty
