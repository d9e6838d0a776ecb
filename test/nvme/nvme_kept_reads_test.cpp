// Reads past the OS page cache, many under way on one thread: right bytes, no late ones.
#include <test/nvme/controller_scene.hpp>
#include <test/nvme/pattern.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <system_error>
#include <vector>

namespace gpufs::test {

namespace {

using nvme_controller::file_namespace;

constexpr std::uint64_t disk_bytes = pattern_blocks * pattern_lba;
constexpr std::uint64_t page = nvme::page_bytes;
constexpr unsigned blocks_per_page = page / pattern_lba;
constexpr unsigned together = 200;

/// A file of the pattern behind a controller of one thread; nothing where the file system does not
/// allow O_DIRECT.
class direct_disk {
 public:
  direct_disk() {
    std::vector<std::byte> bytes(disk_bytes);
    fill_pattern(bytes, 0);
    write_bytes(path(), bytes);
    try {
      blocks_ = std::make_shared<file_namespace>(
          path(), pattern_lba, file_namespace::mode::read_write, file_namespace::page_cache::past);
    } catch (std::system_error const& e) {
      MESSAGE("skipped: " << e.what());
    }
  }
  [[nodiscard]] std::string path() const { return folder_ / "disk"; }
  [[nodiscard]] std::shared_ptr<file_namespace> blocks() const { return blocks_; }

 private:
  scratch_folder const folder_;
  std::shared_ptr<file_namespace> blocks_;
};

/// Pushes a read of a random page to each page of `to`. Returns their first blocks.
std::vector<std::uint64_t> push_reads(plain_queue& queue, std::uint64_t to, std::mt19937_64& random,
                                      std::uint64_t pages = pattern_blocks / blocks_per_page) {
  std::vector<std::uint64_t> blocks;
  for (std::uint16_t i = 0; i < together; ++i) {
    blocks.push_back(random() % pages * blocks_per_page);
    queue.push(nvme::make_transfer(nvme::opcode::read, i, 1, {blocks[i], blocks_per_page},
                                   {to + i * page, 0}));
  }
  queue.ring();
  return blocks;
}

/// Takes all their completions.
void take_all(plain_queue& queue) {
  std::set<std::uint16_t> seen;
  for (unsigned i = 0; i < together; ++i) {
    nvme::cqe const done = queue.wait();
    CHECK(nvme::status_of(done) == nvme::status::success);
    CHECK(seen.insert(nvme::cid_of(done)).second);
  }
}

}  // namespace

TEST_CASE("kept reads: all bytes are there when the completion is") {
  direct_disk const disk;
  if (disk.blocks() == nullptr) return;
  controller_scene s{disk.blocks()};
  nvme_host::dma_memory const memory{s.link.memory(), nvme_host::anonymous_memory(),
                                     together * page};
  plain_queue queue = s.queue(1024);
  std::mt19937_64 random{seed()};
  auto const& counters = s.link.controller().counters();
  for (unsigned round = 0; round < 10; ++round) {
    std::memset(memory.data(), 0xee, together * page);
    auto const blocks = push_reads(queue, memory.bus(), random);
    for (unsigned i = 0; i < together; ++i) {
      std::uint16_t const cid = nvme::cid_of(queue.wait());
      CHECK(is_pattern(memory.data() + cid * page, blocks[cid], blocks_per_page));
    }
  }
  CHECK(counters.bytes_read == 10 * together * page);
  CHECK(counters.errors == 0);
  if (counters.kept_reads == 0)
    MESSAGE("the system refuses io_uring, so the thread read by itself");
  else
    CHECK(counters.kept_reads == 10 * together);
}

TEST_CASE("kept reads: transfers of several pages, and parts of pages, are right") {
  direct_disk const disk;
  if (disk.blocks() == nullptr) return;
  controller_scene s{disk.blocks()};
  plain_queue queue = s.queue();
  std::mt19937_64 random{seed()};
  auto const& counters = s.link.controller().counters();
  for (unsigned round = 0; round < 100; ++round) {
    // Whole pages every other time: only these are kept.
    std::uint32_t const step = round % 2 == 0 ? blocks_per_page : 1;
    auto const blocks =
        static_cast<std::uint32_t>(1 + random() % (2 * blocks_per_page / step)) * step;
    std::uint64_t const lba = random() % ((pattern_blocks - blocks) / step) * step;
    std::memset(s.memory.data(), 0xee, 2 * page);
    CHECK(nvme::status_of(queue.call(s.transfer(nvme::opcode::read, 1, lba, blocks))) == 0);
    CHECK(is_pattern(s.memory.data(), lba, blocks));
    CHECK((blocks == 2 * blocks_per_page ||
           s.memory.data()[blocks * pattern_lba] == std::byte{0xee}));
  }
  CHECK((counters.kept_reads == 0 || counters.kept_reads >= 50));
}

TEST_CASE("kept reads: blocks that others have cut off a file cannot be read") {
  direct_disk const disk;
  if (disk.blocks() == nullptr) return;
  controller_scene s{disk.blocks()};
  plain_queue queue = s.queue();
  std::filesystem::resize_file(disk.path(), page + 700);
  std::memset(s.memory.data(), 0xee, 2 * page);
  CHECK(nvme::status_of(
            queue.call(s.transfer(nvme::opcode::read, 1, blocks_per_page, 2 * blocks_per_page))) ==
        nvme::status::unrecovered_read);
  CHECK(nvme::status_of(queue.call(s.transfer(nvme::opcode::read, 1, blocks_per_page, 1))) == 0);
  CHECK(is_pattern(s.memory.data(), blocks_per_page, 1));
}

TEST_CASE("kept reads: after a stop nothing is written any more") {
  direct_disk const disk;
  if (disk.blocks() == nullptr) return;
  controller_scene s{disk.blocks()};
  std::mt19937_64 random{seed()};
  auto const& counters = s.link.controller().counters();
  for (unsigned round = 0; round < 20; ++round) {
    nvme_host::dma_memory const memory{s.link.memory(), nvme_host::anonymous_memory(),
                                       together * page};
    plain_queue queue = s.queue(1024);
    std::uint64_t const before = counters.commands;
    push_reads(queue, memory.bus(), random);
    wait_until([&] { return counters.commands > before; }, "a read");
    REQUIRE(s.plane.stop());
    std::memset(memory.data(), 0x41, together * page);
    s.plane.bring_up();
    plain_queue again = s.queue(1024);
    nvme_host::dma_memory const other{s.link.memory(), nvme_host::anonymous_memory(),
                                      together * page};
    push_reads(again, other.bus(), random);
    take_all(again);
    std::span<std::byte const> const untouched{memory.data(), together * page};
    CHECK(std::ranges::all_of(untouched, [](std::byte b) { return b == std::byte{0x41}; }));
    REQUIRE(s.plane.stop());
    s.plane.free_retired();
    s.plane.bring_up();
  }
}

TEST_CASE("kept reads: memory that is unmapped under load is never written again") {
  direct_disk const disk;
  if (disk.blocks() == nullptr) return;
  controller_scene s{disk.blocks()};
  plain_queue queue = s.queue(1024);
  std::mt19937_64 random{seed()};
  // It is taken away from the controller only: a late read would find the same pages.
  auto const pages = nvme_host::anonymous_memory()(together * page);
  auto const same = [&pages](std::uint64_t) { return pages; };
  for (unsigned round = 0; round < 50; ++round) {
    {
      nvme_host::dma_memory const memory{s.link.memory(), same, together * page};
      push_reads(queue, memory.bus(), random);
    }
    std::memset(pages.get(), 0x41, together * page);
    for (unsigned i = 0; i < together; ++i) {
      std::uint16_t const code = nvme::status_of(queue.wait());
      CHECK((code == nvme::status::success || code == nvme::status::data_transfer_error));
    }
    std::span<std::byte const> const untouched{pages.get(), together * page};
    CHECK(std::ranges::all_of(untouched, [](std::byte b) { return b == std::byte{0x41}; }));
  }
}

TEST_CASE("kept reads: a deleted queue waits for its reads, and a new one has no strays") {
  direct_disk const disk;
  if (disk.blocks() == nullptr) return;
  controller_scene s{disk.blocks()};
  nvme_host::dma_memory const memory{s.link.memory(), nvme_host::anonymous_memory(),
                                     together * page};
  std::mt19937_64 random{seed()};
  auto const& counters = s.link.controller().counters();
  for (unsigned round = 0; round < 10; ++round) {
    plain_queue queue = s.queue(1024);
    std::uint64_t const before = counters.commands;
    push_reads(queue, memory.bus(), random);
    wait_until([&] { return counters.commands > before; }, "a read");
    s.plane.delete_queue_pair(1);
    plain_queue next = s.queue(1024);
    auto const blocks = push_reads(next, memory.bus(), random);
    take_all(next);
    for (unsigned i = 0; i < together; ++i)
      CHECK(is_pattern(memory.data() + i * page, blocks[i], blocks_per_page));
    CHECK_FALSE(next.poll().has_value());
    s.plane.delete_queue_pair(1);
  }
}

}  // namespace gpufs::test
