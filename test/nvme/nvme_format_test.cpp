// Formats bit by bit, the table of statuses, and PRP entries against a plain walk over pages.
#include <gpufs/nvme/format.hpp>
#include <gpufs/nvme/prp.hpp>
#include <gpufs/nvme/status.hpp>

#include <doctest/doctest.h>
#include <nvme-controller/prp_walk.hpp>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

namespace nvme = gpufs::nvme;
namespace status = gpufs::nvme::status;
using gpufs::nvme_controller::mapped_range;
using gpufs::nvme_controller::range_table;
using gpufs::nvme_controller::segment;
using gpufs::nvme_controller::walk_prps;

namespace {

std::array<unsigned char, 64> bytes_of(nvme::sqe const& e) {
  std::array<unsigned char, 64> bytes;
  std::memcpy(bytes.data(), &e, sizeof e);
  return bytes;
}

constexpr std::uint64_t piece_bus = 0x7'0000'0000ull;
constexpr std::uint64_t list_bus = 0x9'0000'1000ull;

/// A piece of 2 MiB and its list, at bus addresses that are no addresses of this process.
struct piece_memory {
  std::vector<std::byte> piece = std::vector<std::byte>(nvme::most_piece_bytes);
  std::vector<std::uint64_t> list = std::vector<std::uint64_t>(512);
  nvme::prp_piece place{piece_bus, list_bus};
  range_table table{{piece_bus, piece.size(), piece.data()},
                    {list_bus, 4096, reinterpret_cast<std::byte*>(list.data())}};

  piece_memory() {
    for (std::uint32_t i = 0; i < nvme::list_entries(piece.size()); ++i)
      list[i] = nvme::list_entry(place, i);
  }

  /// Whether a walk finds bytes [offset, offset + bytes) of the piece, page by page.
  bool finds(std::uint64_t offset, std::uint64_t bytes) {
    parts.clear();
    if (walk_prps(table, nvme::prps(place, offset, bytes), bytes, parts) != 0) return false;
    std::uint64_t at = offset;
    for (segment const& part : parts) {
      std::uint64_t const page_left = 4096 - at % 4096;
      if (part.memory != piece.data() + at) return false;
      if (part.bytes != std::min(page_left, offset + bytes - at)) return false;
      at += part.bytes;
    }
    return at == offset + bytes;
  }

  std::vector<segment> parts;
};

}  // namespace

TEST_CASE("nvme: a read is these 64 bytes") {
  auto const e =
      nvme::make_transfer(nvme::opcode::read, 0x1234, 0x01020304, {0x1122334455667788ull, 0x101},
                          {0xa1a2a3a4a5a6a7a8ull, 0xb1b2b3b4b5b6b7b8ull}, true);
  std::array<unsigned char, 64> const golden{
      0x02, 0x00, 0x34, 0x12, 0x04, 0x03, 0x02, 0x01, 0,    0,    0,    0,    0,
      0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0xa8, 0xa7,
      0xa6, 0xa5, 0xa4, 0xa3, 0xa2, 0xa1, 0xb8, 0xb7, 0xb6, 0xb5, 0xb4, 0xb3, 0xb2,
      0xb1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00, 0x01, 0x00, 0x40};
  CHECK(bytes_of(e) == golden);
  CHECK(nvme::blocks_of(e) == 0x101);
  CHECK(nvme::lba_of(e) == 0x1122334455667788ull);
  CHECK(nvme::blocks_of(nvme::make_transfer(nvme::opcode::write, 0, 1, {0, 65536}, {})) == 65536);
  std::array<unsigned char, 64> const flush{0, 0, 0xcd, 0xab, 7};
  CHECK(bytes_of(nvme::make_flush(0xabcd, 7)) == flush);
}

TEST_CASE("nvme: creation of a queue is these 64 bytes") {
  auto const e = nvme::make_admin(nvme::admin_opcode::create_sq, 9, 0, {0x123456789000ull, 0},
                                  1023u << 16 | 5, 5u << 16 | 1);
  std::array<unsigned char, 64> const golden{
      0x01, 0x00, 0x09, 0x00, 0, 0, 0, 0, 0,    0,    0,    0,    0,    0,    0,    0,
      0,    0,    0,    0,    0, 0, 0, 0, 0x00, 0x90, 0x78, 0x56, 0x34, 0x12, 0,    0,
      0,    0,    0,    0,    0, 0, 0, 0, 0x05, 0x00, 0xff, 0x03, 0x01, 0x00, 0x05, 0x00};
  CHECK(bytes_of(e) == golden);
}

TEST_CASE("nvme: the fields of a completion") {
  auto const e =
      nvme::make_cqe(0x99, 0x11, 0x22, 0x3344, status::unrecovered_read | status::do_not_retry, 1);
  CHECK(e.dw[0] == 0x99);
  CHECK(e.dw[1] == 0);
  CHECK(e.dw[2] == 0x00110022);
  // DNR 31, status code type 27:25, status code 24:17, phase 16, CID 15:0
  CHECK(e.dw[3] == (1u << 31 | 2u << 25 | 0x81u << 17 | 1u << 16 | 0x3344u));
  CHECK(nvme::status_of(e) == status::unrecovered_read);
  CHECK_FALSE(nvme::may_retry(e));
  CHECK(nvme::cid_of(e) == 0x3344);
  CHECK(nvme::sq_id_of(e) == 0x11);
  CHECK(nvme::sq_head_of(e) == 0x22);
  CHECK(nvme::may_retry(nvme::make_cqe(0, 0, 0, 0, status::namespace_not_ready, 0)));
}

TEST_CASE("nvme: the phase is 1 in the first lap, and goes on where the count of entries wraps") {
  CHECK(nvme::phase_at(0, 4) == 1);
  CHECK(nvme::phase_at(15, 4) == 1);
  CHECK(nvme::phase_at(16, 4) == 0);
  CHECK(nvme::phase_at(32, 4) == 1);
  CHECK(nvme::phase_at(0xffffffffu, 4) == 0);  // the last lap before the wrap; entry 0 follows
  CHECK(nvme::phase_at(0xffffffffu, 13) == 0);
}

TEST_CASE("nvme: the fields of CAP, and where doorbells are") {
  nvme::capabilities const cap{0x003000203c0107ffull | 0x0020'0000'0000ull};
  CHECK(cap.most_entries() == 2048);
  CHECK(cap.contiguous_queues());
  CHECK(cap.nvm_commands());
  CHECK(nvme::capabilities{0x0000'0020'0f01'07ffull}.ready_ms() == 7500);
  CHECK(nvme::make_capabilities(8192, 4, 5).doorbell_stride() == 128);
  CHECK(nvme::make_capabilities(8192, 4, 5).ready_ms() == 2000);
  CHECK(nvme::make_capabilities(8192, 4, 0).smallest_page() == 4096);
  CHECK(nvme::sq_doorbell(0, 4) == 0x1000);
  CHECK(nvme::cq_doorbell(0, 4) == 0x1004);
  CHECK(nvme::sq_doorbell(3, 4) == 0x1018);
  CHECK(nvme::cq_doorbell(3, 128) == 0x1000 + 7 * 128);
}

TEST_CASE("nvme: every status has an error") {
  struct row {
    std::uint16_t code;
    int read, write;
  };
  row const table[] = {
      {0x000, 0, 0},
      {0x001, -EOPNOTSUPP, -EOPNOTSUPP},
      {0x002, -EINVAL, -EINVAL},
      {0x004, -EIO, -EIO},
      {0x005, -EIO, -EIO},
      {0x006, -EIO, -EIO},
      {0x007, -ETIMEDOUT, -ETIMEDOUT},
      {0x008, -EIO, -EIO},
      {0x00b, -ENXIO, -ENXIO},
      {0x013, -EINVAL, -EINVAL},
      {0x020, -EROFS, -EROFS},
      {0x080, -EIO, -ENOSPC},
      {0x081, -ENOSPC, -ENOSPC},
      {0x082, -EIO, -EIO},
      {0x180, -EINVAL, -EINVAL},
      {0x182, -EROFS, -EROFS},
      {0x280, -EIO, -EIO},
      {0x281, -EIO, -EIO},
      {0x282, -EILSEQ, -EILSEQ},
      {0x283, -EILSEQ, -EILSEQ},
      {0x284, -EILSEQ, -EILSEQ},
      {0x285, -EIO, -EIO},
      {0x286, -EACCES, -EACCES},
      {0x300, -EIO, -EIO},
      {0x371, -EIO, -EIO},
      {0x7ff, -EIO, -EIO},
  };
  for (row const& each : table) {
    CAPTURE(each.code);
    CHECK(nvme::error_of(each.code, nvme::direction::read) == each.read);
    CHECK(nvme::error_of(each.code, nvme::direction::write) == each.write);
  }
  for (std::uint32_t code = 1; code < 0x800; ++code) {
    CHECK(nvme::error_of(static_cast<std::uint16_t>(code), nvme::direction::read) < 0);
    CHECK(nvme::error_of(static_cast<std::uint16_t>(code), nvme::direction::write) < 0);
    bool const retry = code == 0x082 || code >> 8 == 3;
    CHECK(nvme::worth_retry(static_cast<std::uint16_t>(code), false) == retry);
    CHECK_FALSE(nvme::worth_retry(static_cast<std::uint16_t>(code), true));
  }
  CHECK(nvme::own_fault(status::invalid_field));
  CHECK_FALSE(nvme::own_fault(status::unrecovered_read));
}

TEST_CASE("nvme: PRP entries of every length up to 1 MiB name the bytes of the piece") {
  piece_memory memory;
  std::uint64_t const offsets[] = {0, 4, 4092, 4096, 8188, 1 << 20};
  for (std::uint64_t bytes = 1; bytes <= 1 << 20; bytes += bytes < 20000 ? 1 : 509)
    for (std::uint64_t const offset : offsets) REQUIRE(memory.finds(offset, bytes));
}

TEST_CASE("nvme: PRP entries at every dword offset name the bytes of the piece") {
  piece_memory memory;
  for (std::uint64_t offset = 0; offset < 3 * 4096; offset += 4)
    for (std::uint64_t const bytes : {1ull, 4ull, 512ull, 4092ull, 4095ull, 4096ull, 4097ull,
                                      8191ull, 8192ull, 8193ull, 12288ull, 65536ull, 1ull << 20})
      REQUIRE(memory.finds(offset, bytes));
  CHECK(memory.finds(0, nvme::most_piece_bytes));
  CHECK(memory.finds(nvme::most_piece_bytes - 4, 4));
}

TEST_CASE("nvme: only the first list may begin within a page") {
  std::vector<std::uint64_t> lists(3 * 512, piece_bus);
  std::vector<std::byte> piece(8 * 4096);
  range_table const table{{piece_bus, piece.size(), piece.data()},
                          {list_bus, 3 * 4096, reinterpret_cast<std::byte*>(lists.data())}};
  auto const walk = [&](std::uint64_t next) {
    lists[511] = next;
    std::vector<segment> parts;
    return walk_prps(table, {piece_bus, list_bus + 510 * 8}, 5 * 4096, parts);
  };
  CHECK(walk(list_bus + 4096) == status::success);
  for (std::uint64_t const offset : {4u, 8u, 4088u}) {
    CAPTURE(offset);
    CHECK(walk(list_bus + 4096 + offset) == status::invalid_prp_offset);
  }
}

TEST_CASE("nvme: a walk over PRP entries refuses what is not aligned or not mapped") {
  piece_memory memory;
  std::vector<segment> parts;
  auto const walk = [&](nvme::prp_pair pair, std::uint64_t bytes) {
    parts.clear();
    return walk_prps(memory.table, pair, bytes, parts);
  };
  CHECK(walk({piece_bus + 2, 0}, 8) == status::invalid_prp_offset);
  CHECK(walk({piece_bus, piece_bus + 4100}, 8192) == status::invalid_prp_offset);
  CHECK(walk({piece_bus, list_bus + 4}, 16384) == status::invalid_prp_offset);
  CHECK(walk({0, 0}, 8) == status::data_transfer_error);
  CHECK(walk({piece_bus - 4096, 0}, 8) == status::data_transfer_error);
  CHECK(walk({piece_bus + nvme::most_piece_bytes - 4, 0}, 4) == status::success);
  CHECK(walk({piece_bus + nvme::most_piece_bytes, 0}, 4) == status::data_transfer_error);
  CHECK(walk({piece_bus, 0}, 8192) == status::data_transfer_error);
  CHECK(walk({piece_bus, ~0ull - 7}, 16384) == status::data_transfer_error);
  memory.list[1] += 8;
  CHECK(walk({piece_bus, list_bus}, 16384) == status::invalid_prp_offset);
  memory.list[1] = 0xdead0000;
  CHECK(walk({piece_bus, list_bus}, 16384) == status::data_transfer_error);
}
