// io_path=dma from kernel to file: bytes that arrive through the twin, and copies that get stuck
// while kernels go on.
#include <gpufs/gpufs.hpp>
#include <gpufs/testing/faults.hpp>
#include <gpufs/testing/filesystem.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <thread>

using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t page = 64 << 10;

config dma_config(std::uint64_t frames) {
  auto c = small_config(page, frames);
  c.path = io_path::dma;
  c.dma_timeout_ms = 60'000;  // so that a slow machine's copies are not given up
  return c;
}

// The transfer thread stays in its call to the device as long as the gate is shut, as it would if a
// user's thread sat in cudaFree.
struct stuck_device final : testing::fault_injector {
  std::atomic<bool> sticks{true};
  testing::gate shut;
  void before_copy() override {
    if (!sticks.load(std::memory_order_acquire)) return;
    shut.arrive();
    while (!shut.is_open()) std::this_thread::yield();
  }
};

/// Each page of the file by one of 4 blocks.
void read_all(filesystem& fs, int fd, std::string const& path, std::uint64_t pages) {
  read_batch batch;
  for (std::uint64_t p = 0; p < pages; ++p) batch.add(fd, path, std::int64_t(p * page), page, 0);
  batch.run(fs.ref(), 4, 64, caller_kind::block);
  CHECK(batch.problems() == "");
  CHECK(inspect(fs.ref()).problems == "");
}

}  // namespace

TEST_CASE("dma: pages of 64 KiB arrive by DMA, all of them, and none is pulled") {
  scratch_folder folder;
  constexpr std::uint64_t pages = 24;
  auto const path = make_file(folder, "a", pages * page - 100, 1);
  filesystem fs(dma_config(pages));
  int const fd = fs.open(path, O_RDONLY);
  read_all(fs, fd, path, pages);
  auto const s = fs.stats();
  CHECK(s.bytes_dma == pages * page - 100);
  CHECK(s.bytes_pulled == 0);
}

TEST_CASE(
    "dma: chunks of small pages arrive by DMA; what is shorter than a copy is worth is pulled") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", 16 * page + 5000, 1);
  auto c = dma_config(64);
  c.page_size = 4096;
  c.prefetch_size = 60 << 10;
  c.prefetch_depth = 2;
  filesystem fs(c);
  int const fd = fs.open(path, O_RDONLY);
  read_batch batch;
  for (std::uint64_t at = 0; at < 16 * page + 5000; at += 4096)
    batch.add(fd, path, std::int64_t(at), 4096, 0);
  batch.run(fs.ref(), 1, 64, caller_kind::block);
  CHECK(batch.problems() == "");
  auto const s = fs.stats();
  CHECK(s.bytes_dma >= 16 * page);
  CHECK(s.bytes_dma + s.bytes_pulled == 16 * page + 5000);
}

TEST_CASE(
    "dma: a page that comes in two parts, one in the twin and one not, is put together right") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", 8 * page, 1);
  std::array<std::atomic<int>, 8> seconds{};
  auto const faults = read_faults([&](std::uint64_t offset, std::uint64_t) {
    auto const within = offset % page;
    if (within == 0) return fault_action::shorten(40'000);
    // The first time, the rest fails: the request is answered by what there is, and the device asks
    // for the rest.
    return within == 40'000 && seconds[offset / page]++ == 0 ? fault_action::fail(EIO)
                                                             : fault_action::pass();
  });
  testing::filesystem fs(dma_config(16), faults);
  int const fd = fs.open(path, O_RDONLY);
  read_all(fs, fd, path, 8);
  CHECK(fs.stats().errors == 0);
  CHECK(fs.stats().bytes_pulled == 8 * page);
}

TEST_CASE(
    "dma: while copies are stuck kernels pull; late copies harm nobody; afterwards copies are made "
    "again") {
  scratch_folder folder;
  constexpr std::uint64_t pages = 32;
  auto const path = make_file(folder, "a", pages * page, 1);
  auto const faults = std::make_shared<stuck_device>();
  auto c = dma_config(8);  // every pass misses
  c.dma_timeout_ms = 3;
  testing::filesystem fs(c, faults);
  int const fd = fs.open(path, O_RDONLY);
  for (int pass = 0; pass < 3; ++pass) read_all(fs, fd, path, pages);
  CHECK(faults->shut.arrivals() == 1);
  auto const stuck = fs.stats();
  CHECK(stuck.bytes_dma == 0);
  CHECK(stuck.errors == 0);
  CHECK(stuck.timeouts == 0);
  faults->sticks.store(false, std::memory_order_release);
  faults->shut.release();
  wait_until(
      [&] {
        read_all(fs, fd, path, pages);
        return fs.stats().bytes_dma > 0;
      },
      "bytes by DMA");
}

TEST_CASE(
    "dma: stop() and destruction wait for no kernel's sake; a copy under way ends before its "
    "memory goes") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", 4 * page, 1);
  auto const faults = std::make_shared<stuck_device>();
  auto c = dma_config(8);
  testing::filesystem fs(c, faults);
  int const fd = fs.open(path, O_RDONLY);
  read_batch batch;
  batch.add(fd, path, 0, page, 0);
  std::thread stopper([&] {
    wait_until([&] { return faults->shut.arrivals() == 1; }, "a copy that is stuck");
    fs.stop();
    faults->shut.release();
  });
  batch.run(fs.ref(), 1, 64, caller_kind::block);
  stopper.join();
}
