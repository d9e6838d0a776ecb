// Formats of NVM Express 1.4 that driver, control plane and controllers share: entries of queues,
// registers, opcodes, statuses. All words are little-endian.
#pragma once

#include <gpufs/base/host_device.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::nvme {

/// A submission queue entry. Its dwords are those of the specification.
struct alignas(64) sqe {
  std::uint32_t dw[16];
};
static_assert(sizeof(sqe) == 64);

/// A completion queue entry.
struct alignas(16) cqe {
  std::uint32_t dw[4];
};
static_assert(sizeof(cqe) == 16);

/// Memory pages of the controller: config CC.MPS = 0.
inline constexpr std::uint32_t page_bytes = 4096;
inline constexpr std::uint32_t page_shift = 12;
/// Most blocks of one command.
inline constexpr std::uint32_t most_blocks = 65536;

enum class opcode : std::uint8_t { flush = 0x00, write = 0x01, read = 0x02, write_zeroes = 0x08 };

enum class admin_opcode : std::uint8_t {
  delete_sq = 0x00,
  create_sq = 0x01,
  get_log_page = 0x02,
  delete_cq = 0x04,
  create_cq = 0x05,
  identify = 0x06,
  abort = 0x08,
  set_features = 0x09,
  get_features = 0x0a,
  async_event_request = 0x0c,
};

/// CNS of identify.
enum class identify_kind : std::uint32_t { name_space = 0, controller = 1, active_list = 2 };

/// The feature that says how many queues there are.
inline constexpr std::uint32_t feature_queue_count = 0x07;

/// Status codes: status code type << 8 | status code.
namespace status {
inline constexpr std::uint16_t success = 0x000;
inline constexpr std::uint16_t invalid_opcode = 0x001;
inline constexpr std::uint16_t invalid_field = 0x002;
inline constexpr std::uint16_t data_transfer_error = 0x004;
inline constexpr std::uint16_t power_loss = 0x005;
inline constexpr std::uint16_t internal_error = 0x006;
inline constexpr std::uint16_t aborted = 0x007;
inline constexpr std::uint16_t sq_deleted = 0x008;
inline constexpr std::uint16_t invalid_namespace = 0x00b;
inline constexpr std::uint16_t invalid_prp_offset = 0x013;
inline constexpr std::uint16_t write_protected = 0x020;
inline constexpr std::uint16_t lba_out_of_range = 0x080;
inline constexpr std::uint16_t capacity_exceeded = 0x081;
inline constexpr std::uint16_t namespace_not_ready = 0x082;
inline constexpr std::uint16_t invalid_cq = 0x100;
inline constexpr std::uint16_t invalid_queue_id = 0x101;
inline constexpr std::uint16_t invalid_queue_size = 0x102;
inline constexpr std::uint16_t too_many_event_requests = 0x105;
inline constexpr std::uint16_t invalid_log_page = 0x109;
inline constexpr std::uint16_t invalid_queue_deletion = 0x10c;
inline constexpr std::uint16_t conflicting_attributes = 0x180;
inline constexpr std::uint16_t write_to_read_only = 0x182;
inline constexpr std::uint16_t write_fault = 0x280;
inline constexpr std::uint16_t unrecovered_read = 0x281;
inline constexpr std::uint16_t guard_check = 0x282;
inline constexpr std::uint16_t application_tag_check = 0x283;
inline constexpr std::uint16_t reference_tag_check = 0x284;
inline constexpr std::uint16_t compare_failure = 0x285;
inline constexpr std::uint16_t access_denied = 0x286;
inline constexpr unsigned code_bits = 11;
/// Bit of a status word: the command would fail again.
inline constexpr std::uint16_t do_not_retry = 1 << 14;
}  // namespace status

// Submission queue entries.

GPUFS_HOST_DEVICE constexpr std::uint32_t opcode_of(sqe const& e) { return e.dw[0] & 0xff; }
GPUFS_HOST_DEVICE constexpr std::uint16_t cid_of(sqe const& e) {
  return static_cast<std::uint16_t>(e.dw[0] >> 16);
}
/// Fused operations and scatter-gather lists, which nothing here uses: bits 8..15 of dword 0.
GPUFS_HOST_DEVICE constexpr std::uint32_t flags_of(sqe const& e) { return e.dw[0] >> 8 & 0xff; }
GPUFS_HOST_DEVICE constexpr std::uint32_t nsid_of(sqe const& e) { return e.dw[1]; }
GPUFS_HOST_DEVICE constexpr std::uint64_t two_words(std::uint32_t low, std::uint32_t high) {
  return std::uint64_t{high} << 32 | low;
}
GPUFS_HOST_DEVICE constexpr std::uint64_t prp1_of(sqe const& e) {
  return two_words(e.dw[6], e.dw[7]);
}
GPUFS_HOST_DEVICE constexpr std::uint64_t prp2_of(sqe const& e) {
  return two_words(e.dw[8], e.dw[9]);
}
GPUFS_HOST_DEVICE constexpr std::uint64_t lba_of(sqe const& e) {
  return two_words(e.dw[10], e.dw[11]);
}
GPUFS_HOST_DEVICE constexpr std::uint32_t blocks_of(sqe const& e) {
  return (e.dw[12] & 0xffff) + 1;
}

/// The memory of a command: PRP entry 1 and 2.
struct prp_pair {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

/// An entry without the dwords of its command.
GPUFS_HOST_DEVICE constexpr sqe make_sqe(std::uint32_t code, std::uint16_t cid, std::uint32_t nsid,
                                         prp_pair memory = {}) {
  sqe e{};
  e.dw[0] = code | std::uint32_t{cid} << 16;
  e.dw[1] = nsid;
  e.dw[6] = static_cast<std::uint32_t>(memory.first);
  e.dw[7] = static_cast<std::uint32_t>(memory.first >> 32);
  e.dw[8] = static_cast<std::uint32_t>(memory.second);
  e.dw[9] = static_cast<std::uint32_t>(memory.second >> 32);
  return e;
}
GPUFS_HOST_DEVICE constexpr sqe make_admin(admin_opcode code, std::uint16_t cid, std::uint32_t nsid,
                                           prp_pair memory = {}, std::uint32_t dw10 = 0,
                                           std::uint32_t dw11 = 0) {
  sqe e = make_sqe(static_cast<std::uint32_t>(code), cid, nsid, memory);
  e.dw[10] = dw10;
  e.dw[11] = dw11;
  return e;
}

/// What an I/O command does to which blocks.
struct block_range {
  std::uint64_t lba = 0;
  std::uint32_t blocks = 1;  ///< 1..most_blocks
};

inline constexpr std::uint32_t force_unit_access = 1u << 30;  ///< bit of dword 12

/// A read, write or write_zeroes.
GPUFS_HOST_DEVICE constexpr sqe make_transfer(opcode code, std::uint16_t cid, std::uint32_t nsid,
                                              block_range range, prp_pair memory,
                                              bool through = false) {
  sqe e = make_sqe(static_cast<std::uint32_t>(code), cid, nsid, memory);
  e.dw[10] = static_cast<std::uint32_t>(range.lba);
  e.dw[11] = static_cast<std::uint32_t>(range.lba >> 32);
  e.dw[12] = ((range.blocks - 1) & 0xffff) | (through ? force_unit_access : 0);
  return e;
}
GPUFS_HOST_DEVICE constexpr sqe make_flush(std::uint16_t cid, std::uint32_t nsid) {
  return make_sqe(static_cast<std::uint32_t>(opcode::flush), cid, nsid);
}

// Completion queue entries. Dword 3 is stored last, since it has the phase.

GPUFS_HOST_DEVICE constexpr std::uint16_t cid_of(cqe const& e) {
  return static_cast<std::uint16_t>(e.dw[3]);
}
GPUFS_HOST_DEVICE constexpr std::uint32_t phase_of(std::uint32_t dw3) { return dw3 >> 16 & 1; }
/// Status code type << 8 | status code.
GPUFS_HOST_DEVICE constexpr std::uint16_t status_of(cqe const& e) {
  return static_cast<std::uint16_t>(e.dw[3] >> 17 & ((1u << status::code_bits) - 1));
}
GPUFS_HOST_DEVICE constexpr bool may_retry(cqe const& e) { return e.dw[3] >> 31 == 0; }
GPUFS_HOST_DEVICE constexpr std::uint16_t sq_head_of(cqe const& e) {
  return static_cast<std::uint16_t>(e.dw[2]);
}
GPUFS_HOST_DEVICE constexpr std::uint16_t sq_id_of(cqe const& e) {
  return static_cast<std::uint16_t>(e.dw[2] >> 16);
}
/// `with`: status code and the bits above it, such as do_not_retry.
GPUFS_HOST_DEVICE constexpr cqe make_cqe(std::uint32_t specific, std::uint16_t sq_id,
                                         std::uint16_t sq_head, std::uint16_t cid,
                                         std::uint16_t with, std::uint32_t phase) {
  return {{specific, 0, std::uint32_t{sq_id} << 16 | sq_head,
           std::uint32_t{with} << 17 | phase << 16 | cid}};
}
/// The phase of an entry that is number `at` of all entries of a queue of 2^`log2` entries.
GPUFS_HOST_DEVICE constexpr std::uint32_t phase_at(std::uint32_t at, unsigned log2) {
  return ~(at >> log2) & 1;
}

// Registers: byte offsets, and fields of their values.

namespace reg {
inline constexpr std::uint32_t cap = 0x00;
inline constexpr std::uint32_t vs = 0x08;
inline constexpr std::uint32_t cc = 0x14;
inline constexpr std::uint32_t csts = 0x1c;
inline constexpr std::uint32_t aqa = 0x24;
inline constexpr std::uint32_t asq = 0x28;
inline constexpr std::uint32_t acq = 0x30;
inline constexpr std::uint32_t doorbells = 0x1000;

inline constexpr std::uint32_t cc_enable = 1;
inline constexpr std::uint32_t cc_shutdown_normal = 1u << 14;
inline constexpr std::uint32_t cc_shutdown_mask = 3u << 14;
/// Entries of 64 and 16 bytes, pages of 4 KiB, NVM command set.
inline constexpr std::uint32_t cc_entry_sizes = 6u << 16 | 4u << 20;
inline constexpr std::uint32_t csts_ready = 1;
inline constexpr std::uint32_t csts_fatal = 2;
inline constexpr std::uint32_t csts_shutdown_done = 2u << 2;
inline constexpr std::uint32_t csts_shutdown_mask = 3u << 2;
/// What registers of a controller that is gone read as.
inline constexpr std::uint32_t gone = 0xffffffffu;
}  // namespace reg

/// Fields of register CAP.
struct capabilities {
  std::uint64_t word = 0;

  /// Most entries of an I/O queue.
  [[nodiscard]] constexpr std::uint32_t most_entries() const { return (word & 0xffff) + 1; }
  [[nodiscard]] constexpr bool contiguous_queues() const { return (word >> 16 & 1) != 0; }
  /// Longest time until CSTS.RDY follows CC.EN, in milliseconds.
  [[nodiscard]] constexpr std::uint32_t ready_ms() const {
    return static_cast<std::uint32_t>(word >> 24 & 0xff) * 500;
  }
  /// Bytes from one doorbell to the next.
  [[nodiscard]] constexpr std::uint32_t doorbell_stride() const { return 4u << (word >> 32 & 15); }
  [[nodiscard]] constexpr bool nvm_commands() const { return (word >> 37 & 1) != 0; }
  /// Smallest page of the controller's memory accesses, in bytes.
  [[nodiscard]] constexpr std::uint64_t smallest_page() const {
    return std::uint64_t{4096} << (word >> 48 & 15);
  }
};
constexpr capabilities make_capabilities(std::uint32_t most_entries, std::uint32_t ready_halves,
                                         std::uint32_t stride_log2) {
  return {std::uint64_t{most_entries - 1} | 1ull << 16 | std::uint64_t{ready_halves} << 24 |
          std::uint64_t{stride_log2} << 32 | 1ull << 37};
}

/// Byte offset of the tail doorbell of submission queue `id`.
constexpr std::uint32_t sq_doorbell(std::uint32_t id, std::uint32_t stride) {
  return reg::doorbells + 2 * id * stride;
}
/// Byte offset of the head doorbell of completion queue `id`.
constexpr std::uint32_t cq_doorbell(std::uint32_t id, std::uint32_t stride) {
  return reg::doorbells + (2 * id + 1) * stride;
}

/// Byte offsets in the 4096 bytes that identify gives.
namespace identify {
inline constexpr std::size_t bytes = 4096;
inline constexpr std::size_t serial = 4, serial_bytes = 20;      // of the controller
inline constexpr std::size_t model = 24, model_bytes = 40;       //
inline constexpr std::size_t firmware = 64, firmware_bytes = 8;  //
inline constexpr std::size_t mdts = 77;
inline constexpr std::size_t version = 80;
inline constexpr std::size_t sqes = 512, cqes = 513;
inline constexpr std::size_t namespaces = 516;
inline constexpr std::size_t commands = 520;     ///< ONCS; bit 3: write zeroes
inline constexpr std::size_t write_cache = 525;  ///< VWC
inline constexpr std::size_t blocks = 0;         ///< NSZE, of a namespace
inline constexpr std::size_t capacity = 8;       ///< NCAP
inline constexpr std::size_t used = 16;          ///< NUSE
inline constexpr std::size_t format_index = 26;  ///< FLBAS, low four bits
inline constexpr std::size_t formats = 128;      ///< LBAF0; 4 bytes each
inline constexpr std::uint32_t zeroes_bit = 1 << 3;
}  // namespace identify

}  // namespace gpufs::nvme
