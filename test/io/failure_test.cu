// Bounded waits: a daemon that stops, no free frame, a device that is busy elsewhere. Late answers
// are in late_answer_test.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/numbered_reads.hpp>
#include <test/support/opens.hpp>
#include <test/support/reads.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t page = numbered_page;

__global__ void pin_frames(fs_ref fs, std::uint32_t count, bool undo) {
  for (std::uint32_t i = threadIdx.x; i < count; i += blockDim.x)
    undo ? unpin(fs.cache.headers[i]) : (void)pin(fs.cache.headers[i]);
}

void pin_all_but(filesystem& fs, std::uint32_t spared, bool undo = false) {
  auto const ref = fs.ref();
  launch(pin_frames, 1, 32, ref, ref.cache.frame_count - spared, undo);
  this_thread_stream().synchronize();
}

/// As if a gwrite to the file were under way, or no longer.
__global__ void stay_in_gwrite(fs_ref fs, std::uint64_t place, bool undo) {
  if (threadIdx.x != 0) return;
  atomic_ref<std::uint32_t, scope::device> writers(fs.writes.files[place - 1].writers);
  undo ? writers.fetch_sub(1, memory_order_relaxed) : writers.fetch_add(1, memory_order_relaxed);
}

__global__ void close_and_stat(fs_ref fs, int fd, int* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  file_status status{};
  int const stated = gfstat(io, fd, &status);
  int const closed = gclose(io, fd);
  if (threadIdx.x == 0) {
    results[0] = stated;
    results[1] = closed;
  }
}

}  // namespace

TEST_CASE(
    "a daemon that stops under a running kernel ends its waits with -EIO, and those of the next "
    "kernel") {
  scratch_folder folder;
  for (std::uint64_t const size : {std::uint64_t{512}, std::uint64_t{65536}}) {
    auto const path = make_file(folder, std::to_string(size), 40 * size, size);
    auto const gate = std::make_shared<testing::gate>();
    testing::filesystem fs(
        small_config(size, 128), read_faults([gate, size](std::uint64_t offset, std::uint64_t) {
          return offset < 4 * size ? fault_action::pass() : fault_action::hold(gate);
        }));
    int const fd = fs.open(path, O_RDONLY);
    read_batch warm;
    warm.add(fd, path, 0, 4 * size);
    warm.run(fs.ref(), 1, 64);
    CHECK(warm.problems() == "");

    read_batch cold;
    for (unsigned p = 4; p < 40; ++p)
      cold.add_failing(fd, std::int64_t(p / 2 * 2 * size), size, -EIO);
    cold.start(fs.ref(), 8, 64);
    wait_until([&] { return gate->arrivals() > 0; }, "a read of the file");
    fs.stop();
    cold.finish();
    CHECK(cold.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");

    cold.run(fs.ref(), 4, 64);
    CHECK(cold.problems() == "");
    warm.run(fs.ref(), 2, 64);  // needs no daemon
    CHECK(warm.problems() == "");
    CHECK(open_in_kernel(fs, path) == -EIO);
    auto const results = zeroed<int>(2);
    launch(close_and_stat, 1, 64, fs.ref(), fd, results.data());
    this_thread_stream().synchronize();
    CHECK(contents(results) == std::vector{-EIO, -EIO});
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE(
    "gftruncate waits for gwrites that are under way: with one that never ends it gives "
    "-ETIMEDOUT, and keeps nobody away") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 3 * page);
  filesystem fs(impatient(8));
  int const fd = fs.open(path, O_RDWR);
  auto const run_one = [&](auto const& add) {
    op_batch batch;
    auto const op = add(batch);
    batch.run(fs.ref(), 1, 64);
    return batch.result(op);
  };
  auto const write = [&](op_batch& batch) {
    return batch.write(0, fd, 0, some_bytes(1, 0, 2 * page));
  };
  auto const truncate = [&](op_batch& batch) { return batch.truncate(0, fd, 5); };
  CHECK(run_one(write) == std::int64_t(2 * page));
  auto const place = fs.ref().link.shared.open_files[rpc::descriptor_index(fd)].write_index;
  REQUIRE(place != 0);
  launch(stay_in_gwrite, 1, 32, fs.ref(), place, false);
  CHECK(run_one(truncate) == -ETIMEDOUT);
  CHECK(run_one(write) == std::int64_t(2 * page));
  launch(stay_in_gwrite, 1, 32, fs.ref(), place, true);
  std::int64_t result = -ETIMEDOUT;
  for (int tries = 0; tries < 20 && result == -ETIMEDOUT; ++tries)
    result = run_one(truncate);  // the host may be slow
  CHECK(result == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(pread_bytes(path, 0, ~0ull) == some_bytes(1, 0, 5));
}

TEST_CASE(
    "frames: with all of them pinned gread gives -ENOMEM in bounded time, and works again when "
    "they are not") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 40 * page);
  for (auto const policy : {replacement::lra, replacement::fifo, replacement::clock}) {
    auto c = impatient(8);
    c.policy = policy;
    CAPTURE(int(policy));
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    read_batch fill;
    fill.add(fd, path, 0, 8 * page);
    CHECK(fill.run_patiently(fs.ref(), 1, 32) == "");
    pin_all_but(fs, 0);
    read_batch batch;
    for (unsigned i = 0; i < 4; ++i) batch.add_failing(fd, (20 + i) * page, 4 * page, -ENOMEM);
    batch.add(fd, path, 3, 100);  // is there
    batch.run(fs.ref(), 5, 64);
    CHECK(batch.problems() == "");
    CHECK(inspect(fs.ref(), 8).problems == "");
    pin_all_but(fs, 0, true);
    read_batch again;
    again.add(fd, path, 20 * page, 10 * page);
    CHECK(again.run_patiently(fs.ref(), 1, 64) == "");
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE(
    "frames: one that is not pinned suffices for any number of callers, however many pages each "
    "wants") {
  scratch_folder folder;
  for (std::uint64_t const size : {std::uint64_t{512}, std::uint64_t{65536}}) {
    auto const path = make_file(folder, std::to_string(size), 40 * size, size);
    for (auto const policy : {replacement::lra, replacement::fifo, replacement::clock}) {
      auto c = small_config(size, 16);
      c.policy = policy;
      filesystem fs(c);
      int const fd = fs.open(path, O_RDONLY);
      pin_all_but(fs, 1);
      read_batch batch;
      for (unsigned i = 0; i < 8; ++i)
        batch.add(fd, path, std::int64_t(i * 3 * size + i), 6 * size, i);
      batch.run(fs.ref(), 8, 64);
      CHECK(batch.problems() == "");
      batch.run(fs.ref(), 4, 64, caller_kind::tile);
      CHECK(batch.problems() == "");
      CHECK(inspect(fs.ref(), 15).problems == "");
      pin_all_but(fs, 1, true);
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
}

TEST_CASE(
    "a host thread that allocates and frees device memory all the time does not stop a kernel that "
    "reads") {
  scratch_folder folder;
  constexpr unsigned pages = 250;
  auto const path = make_numbered(folder, pages);
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(path, O_RDONLY);
  std::atomic<bool> stop{false};
  std::atomic<unsigned> allocations{0};
  reading_kernel kernel(fs, fd, pages, 8, scaled(200, 50));
  kernel.wait_until_begun();
  // On a GPU the free waits for the kernel, and calls of other threads may queue behind it: the
  // kernel must get its pages all the same.
  std::thread other([&] {
    while (!stop.load()) {
      buffer<std::byte> const memory(1 << 20);
      allocations.fetch_add(1);
    }
  });
  wait_until([&] { return allocations.load() > 0; }, "an allocation");
  CHECK(kernel.finish() == 0);
  stop = true;
  other.join();
  CHECK(inspect(fs.ref()).problems == "");
}
