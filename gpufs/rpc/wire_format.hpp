// What device and host daemon say to each other: the request in a ring slot, the completion word,
// the shared region. Both sides include this header and nothing else of each other.
#pragma once

#include <gpufs/host_device.hpp>
#include <gpufs/rpc/write_format.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::rpc {

/// Operations a device caller can ask for. Results are >= 0 or -errno, delivered in the completion
/// word.
enum class operation : std::uint8_t {
  nop,   ///< result 0; measures the round trip
  read,  ///< `length` bytes at `offset` of `file` into staging; result = bytes read, short only at
         ///< end of file. What lies behind them up to the next multiple of staging_unit may be
         ///< overwritten.
  open,    ///< path in staging (`length` bytes, no terminator), flags in argument[0], mode in
           ///< argument[1]; result = descriptor
  close,   ///< `file` = descriptor; result 0, or what stood in the way of its dirty pages if it was
           ///< the file's last for writing
  stat,    ///< `file` = descriptor; a file_status is written to staging; result 0
  advise,  ///< `file` = descriptor; an advice that concerns_whole_file() in argument[0]; result 0
  sync,  ///< `file` = descriptor: dirty pages are written, then the file is made durable; result 0
         ///< or its first unreported error
  truncate,  ///< `file` = descriptor, argument[0] = size in bytes: after writing dirty pages; the
             ///< file gets a new uid; result 0
  unlink,    ///< path as for open; result 0
};

/// request::flags of a read: bytes beyond the end of the file are zeros, not missing. For files
/// whose size the device knows better.
inline constexpr std::uint8_t read_zeros_beyond_end = 1;

/// Flags of an open besides those of open(2): the file is written and never read through this
/// descriptor.
inline constexpr std::uint32_t open_write_once = 1u << 30;

/// A request as code sees it. On the wire it is the eight 64-bit words of a ring slot (pack_word,
/// unpack). Numbers that travel in 48 bits: offset, length, staging, argument.
struct request {
  operation op = operation::nop;
  std::uint8_t flags = 0;
  std::uint32_t channel = 0;   ///< completion word to answer in
  std::uint32_t sequence = 0;  ///< echoed in the completion word; never 0
  std::int32_t file = -1;      ///< descriptor
  std::uint64_t offset = 0;    ///< byte offset in the file
  std::uint64_t length = 0;    ///< bytes
  std::uint64_t staging = 0;  ///< byte offset in the staging region where data goes (or comes from)
  std::uint64_t argument[2] = {0, 0};
};

/// Channels' pieces of staging begin and end at multiples of this, so that a read may be widened to
/// what O_DIRECT takes.
inline constexpr std::uint64_t staging_unit = 4096;

inline constexpr unsigned words_per_slot = 8;
inline constexpr unsigned payload_bits = 48;
inline constexpr std::uint64_t payload_mask = (1ull << payload_bits) - 1;

//  63      48 47                    0
//  lap tag   | payload                     in each of the eight words
//
/// Ring slot. The producer of ticket t stores eight words, each of them tagged with the lap of t,
/// in any order; a consumer has the request when all eight carry that tag. No word waits for
/// another: a commit word stored behind the payload would need a fence, and on a GPU that fence
/// waits for whatever else its multiprocessor has on the bus, while every later ticket waits for
/// this one. Slots are never cleared: the tag tells a fresh request from the one a lap before. (A
/// slot is rewritten every lap, so that a tag's recurrence after 65535 laps cannot be mistaken.)
struct alignas(64) slot {
  std::uint64_t word[words_per_slot];
};
static_assert(sizeof(slot) == 64 && alignof(slot) == 64);

/// Which of `rings` rings the requests of a channel go through. Consecutive channels take turns,
/// and so do channels at a distance of `rings`: any pattern of neighbouring callers spreads. Each
/// ring serves at most ceil(channels / rings) channels.
GPUFS_HOST_DEVICE inline std::uint32_t ring_of(std::uint32_t channel, std::uint32_t rings) {
  std::uint32_t const turn = channel / rings;
  return (channel + turn + turn / rings) % rings;
}

/// The tag of ticket `ticket` in a ring of `slots` slots: 1..65535, so that zeroed memory is an
/// empty ring.
GPUFS_HOST_DEVICE inline std::uint64_t lap_tag(std::uint64_t ticket, std::uint64_t slots) {
  return ticket / slots % 65535 + 1;
}

GPUFS_HOST_DEVICE inline std::uint64_t tag_of(std::uint64_t word) { return word >> payload_bits; }

/// Word `i` of a request's slot.
GPUFS_HOST_DEVICE inline std::uint64_t pack_word(request const& r, unsigned i, std::uint64_t tag) {
  std::uint64_t payload = 0;
  switch (i) {
    case 0:
      payload = std::uint64_t(std::uint8_t(r.op)) | std::uint64_t(r.flags) << 8 |
                std::uint64_t(r.channel) << 16;
      break;
    case 1: payload = r.sequence; break;
    case 2: payload = std::uint32_t(r.file); break;
    case 3: payload = r.offset; break;
    case 4: payload = r.length; break;
    case 5: payload = r.staging; break;
    case 6: payload = r.argument[0]; break;
    default: payload = r.argument[1]; break;
  }
  return tag << payload_bits | (payload & payload_mask);
}

GPUFS_HOST_DEVICE inline request unpack(std::uint64_t const (&w)[words_per_slot]) {
  request r;
  r.op = operation(std::uint8_t(w[0]));
  r.flags = std::uint8_t(w[0] >> 8);
  r.channel = std::uint32_t(w[0] >> 16);
  r.sequence = std::uint32_t(w[1]);
  r.file = std::int32_t(std::uint32_t(w[2]));
  r.offset = w[3] & payload_mask;
  r.length = w[4] & payload_mask;
  r.staging = w[5] & payload_mask;
  r.argument[0] = w[6] & payload_mask;
  r.argument[1] = w[7] & payload_mask;
  return r;
}

/// Completion word of a channel: sequence << 32 | uint32(result). Written by exactly one daemon
/// thread, the one that took the request, with one release store; the waiting device thread
/// acquires it. One per cache line, so that daemon threads do not write to each other's lines.
struct alignas(64) completion {
  std::uint64_t word;
};
static_assert(sizeof(completion) == 64);

GPUFS_HOST_DEVICE inline std::uint64_t pack_completion(std::uint32_t sequence,
                                                       std::int32_t result) {
  return std::uint64_t(sequence) << 32 | std::uint32_t(result);
}
GPUFS_HOST_DEVICE inline std::uint32_t completion_sequence(std::uint64_t w) {
  return std::uint32_t(w >> 32);
}
GPUFS_HOST_DEVICE inline std::int32_t completion_result(std::uint64_t w) {
  return std::int32_t(std::uint32_t(w));
}

/// A read's result >= 0 is its bytes, fewer than 2^30, and whether they are in the twin of the
/// staging region in GPU memory, too.
inline constexpr std::int32_t in_twin_bit = 1 << 30;
GPUFS_HOST_DEVICE inline std::int32_t read_result(std::uint32_t bytes, bool in_twin) {
  return std::int32_t(bytes) | (in_twin ? in_twin_bit : 0);
}
GPUFS_HOST_DEVICE inline std::uint32_t bytes_read(std::int32_t result) {
  return std::uint32_t(result & ~in_twin_bit);
}
GPUFS_HOST_DEVICE inline bool is_in_twin(std::int32_t result) {
  return result >= 0 && (result & in_twin_bit) != 0;
}

/// Answer to `stat`.
struct file_status {
  std::uint64_t size;     ///< bytes
  std::uint64_t device;   ///< st_dev
  std::uint64_t inode;    ///< st_ino
  std::int64_t mtime_ns;  ///< nanoseconds since the epoch
  std::int64_t ctime_ns;
  std::uint64_t mode;        ///< st_mode
  std::uint64_t block_size;  ///< st_blksize
  std::uint64_t reserved;
};
static_assert(sizeof(file_status) == 64);

/// What the device must know of an open descriptor. The host registry owns an array of these in
/// pinned memory (index = descriptor index), writes the fields, then release-stores `tag`; it
/// stores tag 0 first when it takes the record back. Every field is accessed with 64-bit atomics on
/// both sides.
struct alignas(64) open_file_record {
  std::uint64_t tag;  ///< the descriptor's generation (never 0) while it is open; 0 = closed
  std::uint64_t
      uid;  ///< names this version of the file's contents in the page cache; never reused, never 0
  std::uint64_t size;    ///< bytes, as of the last validation
  std::uint64_t flags;   ///< the O_* access mode and flags it was opened with
  std::uint64_t advice;  ///< the last gpufs::advice about the whole file; normal when it is opened
  std::uint64_t place;  ///< 1 + where the device keeps the size of a file that is or was written; 0
                        ///< = `size` is all there is to know
  std::uint64_t reserved[2];
};
static_assert(sizeof(open_file_record) == 64);

/// Descriptors: generation (1..32767) << 16 | index (0..65535); always positive, and stale ones are
/// recognised.
GPUFS_HOST_DEVICE inline std::uint32_t descriptor_index(std::int32_t fd) {
  return std::uint32_t(fd) & 0xffff;
}
GPUFS_HOST_DEVICE inline std::uint32_t descriptor_generation(std::int32_t fd) {
  return std::uint32_t(fd) >> 16;
}
GPUFS_HOST_DEVICE inline std::int32_t make_descriptor(std::uint32_t index,
                                                      std::uint32_t generation) {
  return std::int32_t(generation << 16 | index);
}

/// Says the same in many places: the GPU's loads of one line of host memory are answered one after
/// the other, a microsecond each, however many warps make them.
struct alignas(128) stop_flag {
  std::uint64_t stopped;  ///< nonzero once the daemon no longer answers: device waits end with -EIO
  std::uint64_t reserved[15];
};
inline constexpr unsigned stop_flags = 128;

/// Words the host alone writes and the device watches, in pinned memory.
struct alignas(128) control_block {
  stop_flag stop[stop_flags];
  std::uint64_t epoch;  ///< bumped whenever a descriptor is closed, a file revalidated or advised:
                        ///< device copies older than it are re-read
  std::uint64_t reserved[15];
};

/// Everything both sides share. All pointers are valid on both sides (pinned memory has one
/// address).
struct shared_region {
  slot* ring = nullptr;  ///< `rings` rings of `slots` entries each, one behind the other
  std::uint64_t rings =
      1;  ///< from 1 on; about one per daemon thread, so that threads rarely look at the same one
  std::uint64_t slots = 0;  ///< per ring: a power of two, >= the channels it serves, so that a
                            ///< caller that holds a channel finds its slot free
  completion* completions = nullptr;  ///< `channels` entries
  std::uint64_t channels = 0;
  std::byte* staging = nullptr;  ///< `staging_bytes`, 4096-aligned
  std::uint64_t staging_bytes = 0;
  open_file_record* open_files = nullptr;  ///< `max_open_files` entries
  std::uint64_t max_open_files = 0;
  control_block* control = nullptr;
  write_region writes;
};

}  // namespace gpufs::rpc
