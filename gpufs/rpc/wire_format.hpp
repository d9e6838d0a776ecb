// Formats that device and daemon share: requests, completion words, records, the shared region.
#pragma once

#include <gpufs/base/host_device.hpp>
#include <gpufs/rpc/write_format.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::rpc {

/// Operations that a device caller can request. The completion word carries the result: >= 0 or
/// -errno.
enum class operation : std::uint8_t {
  nop,  ///< result 0; measures the round trip
  /// Reads `length` bytes at `offset` of `file` into staging. The result is the bytes read, fewer
  /// only at the end of the file. The daemon may overwrite staging up to the next multiple of
  /// staging_unit.
  read,
  /// The path is in staging (`length` bytes, no terminator), the flags are in argument[0], the mode
  /// is in argument[1]. The result is the descriptor.
  open,
  /// Closes descriptor `file`. The result is 0, or the error of writing its dirty pages if it was
  /// the file's last descriptor for writing. With argument[0] tells_nobody that error stays.
  close,
  stat,    ///< writes a file_status of descriptor `file` to staging; result 0
  advise,  ///< argument[0] is an advice for which concerns_whole_file(); result 0
  /// Writes the dirty pages of `file` and makes the file durable. The result is 0 or the first
  /// error that was not reported yet.
  sync,
  /// Writes the dirty pages of `file` and sets its size to argument[0] bytes. The file gets a new
  /// version. The caller keeps out the writers with the descriptor's write index, and those with
  /// argument[1], or 0. The result is 0, or other_gate_needed.
  truncate,
  unlink,  ///< takes a path as open does; result 0
  /// Writes the dirty pages of `file` that have its version or an earlier one, and stores the host
  /// file's size in its records. The result is 0 or the error of the write-back.
  flush,
};

/// request::flags of a read: bytes beyond the end of the file are zeros, not missing. Reads of
/// written files have it, because the device knows their size better.
inline constexpr std::uint8_t read_zeros_beyond_end = 1;

/// request::flags of a read: the prefetcher asks for a chunk. Reads without it are pages that a
/// caller asks for one by one.
inline constexpr std::uint8_t read_is_chunk = 2;

/// request::flags of a read: lanes want elements of a page. Without it a group wants the page.
inline constexpr std::uint8_t read_for_elements = 4;

/// All request::flags of a read.
inline constexpr std::uint8_t read_flags =
    read_zeros_beyond_end | read_is_chunk | read_for_elements;

/// Flag of an open, besides those of open(2): the file is written and never read through this
/// descriptor.
inline constexpr std::uint32_t open_write_once = 1u << 30;

/// Result of a truncation that was not begun: writers with another write index than argument[1]
/// must be kept out, too. It is in the completion. No errno has this value.
inline constexpr std::int32_t other_gate_needed = -4096;

/// request::argument[0] of a close: the caller drops the result.
inline constexpr std::uint64_t tells_nobody = 1;

/// A request, unpacked. In a ring slot it is eight 64-bit words (pack_word, unpack). offset,
/// length, staging and argument travel in 48 bits.
struct request {
  operation op = operation::nop;
  std::uint8_t flags = 0;
  std::uint32_t channel = 0;   ///< number of the completion word for the answer
  std::uint32_t sequence = 0;  ///< repeated in the completion word; never 0
  std::int32_t file = -1;
  std::uint64_t offset = 0;  ///< byte offset in the file
  std::uint64_t length = 0;
  std::uint64_t staging = 0;  ///< byte offset of the data in the staging region
  std::uint64_t argument[2] = {0, 0};
};

/// Files behind NVMe queues that kernels drive have versions with this number in the upper bits: 1
/// + index in the table of backings. 0: the daemon serves the file.
inline constexpr unsigned backing_shift = 56;
inline constexpr std::uint32_t most_backings = 255;
GPUFS_HOST_DEVICE constexpr std::uint8_t block_backing_of(std::uint64_t version) {
  return std::uint8_t(version >> backing_shift);
}

/// Staging pieces begin and end at multiples of this. So the daemon can widen a read to the
/// alignment that O_DIRECT needs.
inline constexpr std::uint64_t staging_unit = 4096;

inline constexpr unsigned words_per_slot = 8;
inline constexpr unsigned payload_bits = 48;
inline constexpr std::uint64_t payload_mask = (1ull << payload_bits) - 1;

//  63      48 47                    0
//  lap tag   | payload                     in each of the eight words
//
/// Ring slot. The producer of ticket t stores eight words in any order, each tagged with the lap of
/// t. A consumer has the request when all eight words carry that tag. So no word waits for another.
///
/// A commit word behind the payload would need a fence. On a GPU that fence waits for all loads of
/// its multiprocessor, and every later ticket waits for this one.
///
/// Slots are never cleared, since the tag tells a new request from that of the lap before. Every
/// lap rewrites the slot. So a tag that comes back after 65535 laps cannot be mistaken.
struct alignas(64) slot {
  std::uint64_t word[words_per_slot];
};
static_assert(sizeof(slot) == 64 && alignof(slot) == 64);

/// Returns the tag of a ticket in a ring of `slots` slots: 1..65535. Zeroed memory is an empty
/// ring.
GPUFS_HOST_DEVICE inline std::uint64_t lap_tag(std::uint64_t ticket, std::uint64_t slots) {
  return ticket / slots % 65535 + 1;
}

GPUFS_HOST_DEVICE inline std::uint64_t tag_of(std::uint64_t word) { return word >> payload_bits; }

/// Returns word `i` of the request's slot.
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

/// Completion word of a channel: sequence << 32 | uint32(result). The daemon thread that took the
/// request writes it with one release store. The waiting device thread acquires it. Each word has a
/// cache line of its own, so daemon threads do not share lines.
///
/// Some requests must not be carried out after their callers gave up. A truncation or an open with
/// O_TRUNC would destroy bytes that were written since, an unlink a name that is another file's by
/// then. Nobody would close the descriptor of an open, and an error that a sync or a close takes
/// would be told to nobody. So a caller that gives up stores its sequence in `given_up`, then loads
/// `begun`. The daemon stores
/// the sequence in `begun` before it destroys anything, takes an error, or answers with a
/// descriptor, then loads `given_up`. All four are sequentially consistent. So at least one side
/// sees the other: the daemon draws back, or the caller waits for the answer. Both may happen. Then
/// the answer is -ETIMEDOUT. Once the daemon has begun, it does not ask again.
struct alignas(64) completion {
  std::uint64_t word;
  std::uint64_t given_up;  ///< the device writes
  std::uint64_t begun;     ///< the host writes
  /// Of a successful open, stored before `word`: control_block::changes, and the version and write
  /// index of the file's record. The index is 0 if the file is not written, or is O_GWRONCE. Of a
  /// truncation: version, write index and size as its descriptors without O_GWRONCE have them, or
  /// with other_gate_needed the index whose writers must be kept out, too.
  std::uint64_t changes;
  std::uint64_t version;
  std::uint64_t write_index;
  std::uint64_t size;
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

/// A read's result >= 0 has the bytes read, fewer than 2^30, and a bit. The bit says that the bytes
/// are also in the twin in GPU memory.
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
  std::int64_t mtime_ns;  ///< nanoseconds since 1970
  std::int64_t ctime_ns;
  std::uint64_t mode;        ///< st_mode
  std::uint64_t block_size;  ///< st_blksize
  std::uint64_t reserved;
};
static_assert(sizeof(file_status) == 64);

/// The daemon's record of an open descriptor, in pinned memory. Its index is the descriptor's
/// index. The daemon stores tag 0, then the fields, then the tag, each with a release. Both sides
/// access every field with 64-bit atomics.
struct alignas(64) open_file_record {
  std::uint64_t tag;  ///< the descriptor's generation (never 0) while it is open; 0: closed
  /// the version of the file's contents, the key of its pages; never reused, never 0
  std::uint64_t version;
  std::uint64_t size;    ///< bytes, as of the last validation
  std::uint64_t flags;   ///< access mode and flags of its open
  std::uint64_t advice;  ///< the last gpufs::advice for the whole file; `normal` after the open
  /// 1 + number of the device's record of a file that is or was written; 0: `size` stays until
  /// the file is opened for writing
  std::uint64_t write_index;
  /// 1: the file was open for writing when it got this version. Pages of an earlier version may be
  /// dirty, or become dirty, until device code has taken the version (gpufs/file/take_version.hpp).
  std::uint64_t renewed;
  std::uint64_t reserved;
};
static_assert(sizeof(open_file_record) == 64);

/// Descriptors: generation (1..32767) << 16 | index (0..65535). They are always positive, and stale
/// ones are recognised. So are those of another filesystem, whose generations begin far away.
inline constexpr std::uint32_t last_generation = 32767;
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

/// The stop flag exists many times. The GPU's loads of one line of host memory are answered one
/// after the other, a microsecond each, whichever warps make them.
struct alignas(128) stop_flag {
  std::uint64_t stopped;  ///< nonzero: the daemon answers no more, and device waits end with -EIO
  std::uint64_t reserved[15];
};
inline constexpr unsigned stop_flags = 128;

/// Words in pinned memory that only the host writes.
struct alignas(128) control_block {
  stop_flag stop[stop_flags];
  /// grows when a descriptor is closed and when a file is revalidated or advised; contexts look at
  /// it now and then for the host's advice (prefetcher/advised.hpp)
  std::uint64_t epoch;
  /// new versions of files that were open already; the answer of each open tells it, and device
  /// code does not look here, since the GPU's loads of one line take turns
  std::uint64_t changes;
  std::uint64_t reserved[14];
};

/// All memory that both sides share. Pinned memory has one address, so pointers are valid on both.
struct shared_region {
  slot* ring = nullptr;  ///< `rings` rings of `slots` slots each
  /// at least 1; about one per daemon thread, so threads rarely look at the same ring
  std::uint64_t rings = 1;
  /// slots per ring: a power of two, and at least the channels that the ring serves. A caller with
  /// a channel therefore finds its slot free.
  std::uint64_t slots = 0;
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
