// Readahead of files that are written: copies of what is overwritten meanwhile are never served.
#include <gpufs/gpufs.hpp>

#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

std::vector<std::byte> whole(std::string const& path) { return pread_bytes(path, 0, ~0ull); }

/// Notes requests for more than a page that do not begin at one.
struct page_starts final : testing::fault_injector {
  std::atomic<unsigned> elsewhere{0};
  std::atomic<unsigned> chunks{0};
  testing::fault_action before_read(rpc::request const& r, std::uint64_t, std::uint64_t) override {
    if (r.length <= 4096) return testing::fault_action::pass();
    ++chunks;
    if (r.offset % 4096 != 0) ++elsewhere;
    return testing::fault_action::pass();
  }
};

}  // namespace

TEST_CASE(
    "readahead goes on in whole pages behind a chunk that ended where the file did before it "
    "grew") {
  constexpr std::uint64_t page = 4096, length = 60001, grown = 300'000;
  scratch_folder folder;
  auto const path = make_file(folder, "file", length);
  auto expected = whole(path);
  expected.resize(grown);
  auto const bytes = some_bytes(3, 0, 100);
  std::copy(bytes.begin(), bytes.end(), expected.end() - 100);
  auto const requests = std::make_shared<page_starts>();
  auto c = small_config(page, 128);
  c.prefetch_size = prefetch_automatic;
  testing::filesystem fs(c, requests);
  int const fd = fs.open(path, O_RDWR);
  op_batch batch;
  std::vector<std::size_t> reads;
  for (std::uint64_t at = 0; at < grown; at += page) {
    // The second read has asked for all that the file has, up to its end within a page.
    if (at == 2 * page) {
      batch.write(0, fd, grown - 100, bytes);
      batch.sync(0, fd);
    }
    reads.push_back(batch.read(0, fd, std::int64_t(at), std::min(page, grown - at)));
  }
  batch.run(fs.ref(), 1, 64);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    auto const from = expected.begin() + std::ptrdiff_t(i * page);
    auto const to = expected.begin() + std::ptrdiff_t(std::min((i + 1) * page, grown));
    wrong += batch.bytes(reads[i]) != std::vector(from, to) ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK(requests->chunks.load() > 2);
  CHECK(requests->elsewhere.load() == 0);
  CHECK(fs.close(fd) == 0);
}

TEST_CASE("readahead of a file that is written never serves what has been overwritten") {
  constexpr std::uint64_t page = 4096, pages = 64;
  scratch_folder folder;
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (std::uint64_t const prefetch : {std::uint64_t{7} * page, prefetch_automatic}) {
    auto const path = make_file(folder, "file", pages * page);
    auto expected = whole(path);
    auto c = small_config(page, 8);
    c.prefetch_size = prefetch;
    c.prefetch_depth = 2;
    filesystem fs(c);
    int const fd = fs.open(path, O_RDWR);
    for (unsigned round = 0; round < scaled(12, 4); ++round) {
      // One caller reads on, so that chunks lie ahead of it; behind each read it overwrites what
      // they hold, and pushes it out of the cache.
      op_batch batch;
      std::vector<std::pair<std::size_t, std::vector<std::byte>>> reads;
      for (unsigned i = 0; i + 1 < pages; ++i) {
        std::uint64_t const at = i * page;
        reads.emplace_back(batch.read(0, fd, std::int64_t(at), page),
                           std::vector(expected.begin() + std::ptrdiff_t(at),
                                       expected.begin() + std::ptrdiff_t(at + page)));
        if (random() % 2 != 0) continue;
        // Near: in chunks that are there. Far: in chunks that are asked for while the page is
        // dirty, and used when it has left the cache.
        std::uint64_t const distance = random() % 2 == 0 ? 1 + random() % 4 : 8 + random() % 24;
        std::uint64_t const target = (i + distance) * page + random() % 100;
        if (target + 50 > pages * page) continue;
        auto const bytes = some_bytes(random(), 0, 50);
        batch.write(0, fd, std::int64_t(target), bytes);
        std::copy(bytes.begin(), bytes.end(), expected.begin() + std::ptrdiff_t(target));
        if (random() % 2 != 0) batch.sync(0, fd);
      }
      batch.run(fs.ref(), 1, 64);
      std::size_t wrong = 0;
      for (auto const& [op, bytes] : reads) wrong += batch.bytes(op) != bytes ? 1 : 0;
      CHECK(wrong == 0);
    }
    CHECK(fs.stats().prefetch_hits > 0);
    CHECK(fs.close(fd) == 0);
    CHECK(whole(path) == expected);
  }
}

TEST_CASE(
    "a chunk that was fetched while one of its pages was dirty is not used once that page has left "
    "the cache") {
  constexpr std::uint64_t page = 4096, target = 10, far = 1 << 30;
  scratch_folder folder;
  auto const path = make_file(folder, "file", 64 * page);
  auto expected = whole(path);
  auto const gate = std::make_shared<testing::gate>();
  auto faults = std::make_shared<scripted_faults>();
  // The page is not written before something has been written to the other file.
  faults->on_write = [gate](std::uint64_t offset, std::uint64_t) {
    if (offset < far) return fault_action::hold(gate);
    gate->release();
    return fault_action::pass();
  };
  auto c = small_config(page, 8);
  c.prefetch_size = 7 * page;
  testing::filesystem fs(c, faults);
  int const fd = fs.open(path, O_RDWR), other = fs.open(folder / "other", O_WRONLY | O_CREAT);
  op_batch batch;
  auto const bytes = some_bytes(5, 0, 50);
  std::copy(bytes.begin(), bytes.end(), expected.begin() + target * page);
  batch.write(0, fd, target * page, bytes);
  for (std::uint64_t p = 0; p < target; ++p)
    batch.read(0, fd, std::int64_t(p * page), page);  // pages 8 to 15 are one chunk
  for (unsigned i = 0; i < 20; ++i) {                 // needs all frames, and not the prefetcher
    batch.write(0, other, std::int64_t(far + i * page), some_bytes(i, 0, page));
    batch.sync(0, other);
    if (i == 0) batch.sync(0, fd);
  }
  auto const read = batch.read(0, fd, target * page, page);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.bytes(read) ==
        std::vector(expected.begin() + target * page, expected.begin() + (target + 1) * page));
  CHECK(fs.stats().prefetch_hits >= target - 2);
  CHECK(fs.close(fd) == 0);
  CHECK(fs.close(other) == 0);
  CHECK(whole(path) == expected);
}
