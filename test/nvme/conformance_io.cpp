// Conformance: transfers, statuses, laps, full queues.
#include <test/nvme/conformance_scene.hpp>
#include <test/support/seed.hpp>

#include <random>

namespace gpufs::test {

namespace {

namespace status = nvme::status;
using nvme::opcode;

TEST_CASE("conformance: reads give the blocks they name, by one page, two pages and a list") {
  conformance_scene scene;
  plain_queue queue{scene.plane.create_queue_pair(1, 16)};
  struct {
    std::uint64_t lba;
    std::uint32_t blocks;
    std::uint64_t offset;
  } const reads[] = {{5, 1, 0},     {100, 8, 0},          {200, 16, 0},       {1000, 1024, 0},
                     {300, 3, 512}, {40, 8, 8 * 512 - 4}, {77, 24, 2048 + 12}};
  std::uint16_t cid = 100;
  for (auto const& each : reads) {
    nvme::cqe const done = queue.call(scene.read(++cid, each.lba, each.blocks, each.offset));
    CHECK(nvme::status_of(done) == status::success);
    CHECK(nvme::cid_of(done) == cid);
    CHECK(nvme::sq_id_of(done) == 1);
    CHECK(is_pattern(scene.piece.data() + each.offset, each.lba, each.blocks));
  }
}

TEST_CASE("conformance: transfers of all lengths at dword offsets touch their bytes only") {
  conformance_scene scene;
  plain_queue queue{scene.plane.create_queue_pair(1, 16)};
  std::mt19937_64 random{seed()};
  for (unsigned round = 0; round < 300; ++round) {
    auto const blocks = static_cast<std::uint32_t>(1 + random() % (round % 4 == 0 ? 512 : 20));
    std::uint64_t const bytes = std::uint64_t{blocks} * pattern_lba;
    std::uint64_t const offset =
        random() % ((conformance_scene::piece_bytes - bytes) / 4 - 8) * 4 + 16;
    std::uint64_t const lba = random() % 2000;
    std::byte* const at = scene.piece.data() + offset;
    std::memset(
        at - 16, 0x5a,
        bytes + 32 < conformance_scene::piece_bytes - offset + 16 ? bytes + 32 : bytes + 16);
    CHECK(nvme::status_of(queue.call(scene.read(7, lba, blocks, offset))) == status::success);
    CHECK(is_pattern(at, lba, blocks));
    for (int i = 1; i <= 16; ++i) CHECK(at[-i] == std::byte{0x5a});
    if (offset + bytes + 16 <= conformance_scene::piece_bytes)
      for (unsigned i = 0; i < 16; ++i) CHECK(at[bytes + i] == std::byte{0x5a});
  }
}

TEST_CASE("conformance: the last entry of a page of a PRP list names the next page") {
  conformance_scene scene;
  plain_queue queue{scene.plane.create_queue_pair(1, 16)};
  constexpr std::uint32_t pages = 20;
  // Entries 1 to 19 of the transfer: three at the end of the first page, then the link.
  auto const put = [&](std::uint64_t at, std::uint64_t entry) {
    std::memcpy(scene.list.data() + at, &entry, 8);
  };
  std::uint64_t at = nvme::page_bytes - 4 * 8;
  std::uint64_t const begin = at;
  for (std::uint32_t page = 1; page < pages; ++page) {
    if (at == nvme::page_bytes - 8) {
      put(at, scene.list.bus() + nvme::page_bytes);
      at = nvme::page_bytes;
    }
    put(at, scene.piece.bus() + std::uint64_t{page} * nvme::page_bytes);
    at += 8;
  }
  nvme::sqe const read = nvme::make_transfer(opcode::read, 9, 1, {64, pages * 8},
                                             {scene.piece.bus(), scene.list.bus() + begin});
  CHECK(nvme::status_of(queue.call(read)) == status::success);
  CHECK(is_pattern(scene.piece.data(), 64, pages * 8));
}

TEST_CASE("conformance: what is written is read back, also after a flush") {
  conformance_scene scene;
  plain_queue queue{scene.plane.create_queue_pair(1, 16)};
  fill_pattern({scene.piece.data(), 64 * pattern_lba}, 1'000'000);
  CHECK(nvme::status_of(queue.call(scene.transfer(opcode::write, 1, first_written, 64))) == 0);
  CHECK(nvme::status_of(queue.call(nvme::make_flush(2, 1))) == 0);
  std::memset(scene.piece.data(), 0, 64 * pattern_lba);
  CHECK(nvme::status_of(queue.call(scene.read(3, first_written, 64))) == 0);
  CHECK(is_pattern(scene.piece.data(), 1'000'000, 64));

  if (!scene.plane.identify_controller().write_zeroes) return;
  nvme::sqe const zero =
      nvme::make_transfer(opcode::write_zeroes, 4, 1, {first_written + 8, 8}, {});
  CHECK(nvme::status_of(queue.call(zero)) == 0);
  CHECK(nvme::status_of(queue.call(scene.read(5, first_written, 64))) == 0);
  CHECK(is_pattern(scene.piece.data(), 1'000'000, 8));
  for (unsigned i = 0; i < 8 * pattern_lba; ++i)
    REQUIRE(scene.piece.data()[8 * pattern_lba + i] == std::byte{0});
  CHECK(is_pattern(scene.piece.data() + 16 * pattern_lba, 1'000'016, 48));
}

TEST_CASE("conformance: each mistake has its status, and the queue goes on") {
  conformance_scene scene;
  plain_queue queue{scene.plane.create_queue_pair(1, 16)};
  auto const with_nsid = [&](std::uint32_t nsid) {
    nvme::sqe entry = scene.read(1, 0, 1);
    entry.dw[1] = nsid;
    return entry;
  };
  nvme::sqe unknown = scene.read(1, 0, 1);
  unknown.dw[0] = (unknown.dw[0] & ~0xffu) | 0x7f;
  nvme::sqe fused = scene.read(1, 0, 1);
  fused.dw[0] |= 1u << 8;
  nvme::sqe crooked = scene.read(1, 0, 16);
  crooked.dw[8] += 8;
  std::uint64_t const most = scene.plane.identify_controller().most_bytes;
  struct {
    char const* what;
    nvme::sqe entry;
    std::uint16_t code;
  } const mistakes[] = {
      {"first block behind the end", scene.read(1, pattern_blocks, 1), status::lba_out_of_range},
      {"last block behind the end", scene.read(1, pattern_blocks - 1, 2), status::lba_out_of_range},
      {"block 2^64 - 1", scene.read(1, ~0ull, 1), status::lba_out_of_range},
      {"write behind the end", scene.transfer(opcode::write, 1, pattern_blocks, 1),
       status::lba_out_of_range},
      {"inactive namespace", with_nsid(9), status::invalid_field},
      {"namespace 0", with_nsid(0), status::invalid_namespace},
      {"namespace beyond the last", with_nsid(0xfffffff0u), status::invalid_namespace},
      {"unknown opcode", unknown, status::invalid_opcode},
      {"fused command", fused, status::invalid_field},
      {"second page with an offset", crooked, status::invalid_prp_offset},
      {"more than a transfer may have",
       nvme::make_transfer(opcode::read, 1, 1,
                           {0, static_cast<std::uint32_t>(most == 0 ? 1 : most / pattern_lba + 1)},
                           {scene.piece.bus(), scene.list.bus()}),
       static_cast<std::uint16_t>(most == 0 ? status::success : status::invalid_field)},
  };
  for (auto const& each : mistakes) {
    CAPTURE(each.what);
    nvme::cqe const done = queue.call(each.entry);
    CHECK(nvme::status_of(done) == each.code);
    // QEMU's controller says of fused commands that they may be tried again.
    if (each.code != status::success && nvme::flags_of(each.entry) == 0)
      CHECK_FALSE(nvme::may_retry(done));
    CHECK(nvme::status_of(queue.call(scene.read(2, 5, 1))) == status::success);
    CHECK(is_pattern(scene.piece.data(), 5, 1));
  }
}

TEST_CASE("conformance: memory that is not mapped is not touched, and the queue goes on") {
  conformance_scene scene;
  plain_queue queue{scene.plane.create_queue_pair(1, 16)};
  nvme::sqe const lost = nvme::make_transfer(opcode::read, 1, 1, {0, 8}, {0x7700000000ull, 0});
  CHECK(nvme::status_of(queue.call(lost)) == controller_traits().unmapped_status);
  CHECK(nvme::status_of(queue.call(scene.read(2, 5, 1))) == status::success);
  CHECK(is_pattern(scene.piece.data(), 5, 1));
}

TEST_CASE("conformance: a queue of 16 has 15 commands under way, each answered once, lap by lap") {
  conformance_scene scene;
  plain_queue queue{scene.plane.create_queue_pair(1, 16)};
  for (unsigned lap = 0; lap < 60; ++lap) {
    unsigned const shift = lap % 7;
    for (std::uint16_t i = 0; i < 15; ++i)
      queue.push(scene.read(i, 8u * (i + shift), 8, std::uint64_t{i} * 4096));
    queue.ring();
    unsigned seen = 0;
    for (unsigned i = 0; i < 15; ++i) {
      nvme::cqe const done = queue.wait();
      CHECK(nvme::status_of(done) == status::success);
      CHECK(nvme::sq_head_of(done) < 16);
      seen |= 1u << nvme::cid_of(done);
    }
    CHECK(seen == 0x7fff);
    for (unsigned i = 0; i < 15; ++i)
      CHECK(is_pattern(scene.piece.data() + i * 4096, 8u * (i + shift), 8));
  }
  CHECK_FALSE(queue.poll().has_value());
}

TEST_CASE("conformance: 2000 reads one by one") {
  conformance_scene scene;
  plain_queue queue{scene.plane.create_queue_pair(1, 16)};
  for (std::uint32_t i = 0; i < 2000; ++i) {
    std::uint64_t const lba = i * 7 % 4000;
    CHECK(nvme::status_of(queue.call(scene.read(static_cast<std::uint16_t>(i), lba, 1))) == 0);
    CHECK(is_pattern(scene.piece.data(), lba, 1));
  }
}

}  // namespace

}  // namespace gpufs::test
