// Several writers of one file, or of one page: blocks, the host, two filesystems, other
// descriptors; what each of them sees.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

std::vector<std::byte> whole(std::string const& path) { return pread_bytes(path, 0, ~0ull); }

void host_write(std::string const& path, std::uint64_t offset,
                std::vector<std::byte> const& bytes) {
  int const fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  CHECK(::pwrite(fd, bytes.data(), bytes.size(), off_t(offset)) == ssize_t(bytes.size()));
  ::close(fd);
}

/// Block b writes bytes b, b + stride, ... of the pages, one by one.
__global__ void write_interleaved(fs_ref fs, int fd, std::uint32_t stride, std::uint32_t bytes,
                                  std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  __shared__ std::byte one[1];
  for (std::uint32_t at = blockIdx.x; at < bytes; at += stride) {
    if (threadIdx.x == 0) one[0] = static_cast<std::byte>(at * 7 + 1);
    __syncthreads();
    ssize_t const n = gwrite(io, fd, one, 1, at);
    if (threadIdx.x == 0 && n != 1)
      atomic_ref<std::uint64_t>(*wrong).fetch_add(1, memory_order_relaxed);
  }
}

/// Writes, says so, waits to be told to go on, writes again.
__global__ void write_twice(fs_ref fs, int fd, std::byte const* bytes, std::uint64_t count,
                            std::uint32_t* written, std::uint32_t* go_on, std::int64_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  ssize_t const first = gwrite(io, fd, bytes, count, 0);
  if (threadIdx.x == 0) {
    results[0] = first;
    atomic_ref<std::uint32_t, scope::system>(*written).store(1, memory_order_release);
    wait_for(*go_on, 1);
  }
  block.sync();
  ssize_t const second = gwrite(io, fd, bytes, count, std::int64_t(count));
  if (threadIdx.x == 0) results[1] = second;
}

}  // namespace

TEST_CASE("blocks that write different bytes of one page at the same time all succeed") {
  constexpr unsigned blocks = 4;
  for (std::uint64_t const page : {512u, 4096u}) {
    constexpr std::uint32_t bytes = scaled(800, 300);
    scratch_folder folder;
    auto const path = make_file(folder, "file", 2000);
    auto expected = whole(path);
    filesystem fs(small_config(page, 8));
    int const fd = fs.open(path, O_RDWR);
    auto const wrong = zeroed<std::uint64_t>(1);
    // No writer owns every other byte; it keeps its value.
    launch(write_interleaved, blocks, 32, fs.ref(), fd, std::uint32_t(2 * blocks), bytes,
           wrong.data());
    this_thread_stream().synchronize();
    for (std::uint32_t at = 0; at < bytes; ++at)
      if (at % (2 * blocks) < blocks) expected[at] = std::byte(at * 7 + 1);
    CHECK(contents(wrong)[0] == 0);
    CHECK(fs.close(fd) == 0);
    CHECK(whole(path) == expected);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE(
    "blocks and the host that write different bytes of one page at the same time all succeed") {
  constexpr unsigned blocks = 2;
  constexpr std::uint32_t bytes = scaled(800, 200);
  scratch_folder folder;
  auto const path = make_file(folder, "file", 2000);
  auto expected = whole(path);
  for (std::uint32_t at = 0; at < bytes; ++at) expected[at] = std::byte(at * 7 + 1);
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(path, O_RDWR);
  auto const wrong = zeroed<std::uint64_t>(1);
  launch(write_interleaved, blocks, 32, fs.ref(), fd, std::uint32_t(2 * blocks), bytes,
         wrong.data());
  for (std::uint32_t at = 0; at < bytes; ++at)
    if (at % (2 * blocks) >= blocks) host_write(path, at, {expected[at]});
  this_thread_stream().synchronize();
  CHECK(contents(wrong)[0] == 0);
  CHECK(fs.close(fd) == 0);
  CHECK(whole(path) == expected);
}

TEST_CASE(
    "bytes that the host writes into a page between two gwrites to it survive, dirty or written "
    "back") {
  constexpr std::uint64_t page = 4096;
  for (bool const synced : {false, true}) {
    scratch_folder folder;
    auto const path = make_file(folder, "file", page);
    auto expected = whole(path);
    filesystem fs(small_config(page, 8));
    int const fd = fs.open(path, O_RDWR);
    for (unsigned round = 0; round < 10; ++round) {
      op_batch batch;
      auto const ours = some_bytes(round, 0, 50);
      batch.write(0, fd, round * 300, ours);
      if (synced) batch.sync(0, fd);
      batch.run(fs.ref(), 1, 64);
      std::copy(ours.begin(), ours.end(), expected.begin() + round * 300);
      // Into bytes of an earlier gwrite if that is in the file, else beside them.
      auto const theirs = some_bytes(100 + round, 0, 20);
      auto const at = round * 300 + (synced ? 10 : 100);
      host_write(path, at, theirs);
      std::copy(theirs.begin(), theirs.end(), expected.begin() + at);
    }
    CHECK(fs.close(fd) == 0);
    CAPTURE(synced);
    CHECK(whole(path) == expected);
  }
}

TEST_CASE("two filesystems that write different bytes of the same pages both succeed") {
  constexpr std::uint64_t page = 4096, size = 20 * page;
  scratch_folder folder;
  auto const path = make_file(folder, "file", size);
  auto expected = whole(path);
  {
    filesystem first(small_config(page, 8)), second(small_config(512, 16));
    int const a = first.open(path, O_RDWR), b = second.open(path, O_RDWR);
    op_batch batch_a, batch_b;
    for (unsigned i = 0; i < 100; ++i) {
      auto const bytes = some_bytes(i, 0, 30);
      auto const at = i * (size / 100);
      batch_a.write(i % 4, a, std::int64_t(at), bytes);
      batch_b.write(i % 4, b, std::int64_t(at) + 40, bytes);
      std::copy(bytes.begin(), bytes.end(), expected.begin() + std::ptrdiff_t(at));
      std::copy(bytes.begin(), bytes.end(), expected.begin() + std::ptrdiff_t(at) + 40);
    }
    batch_a.run(first.ref(), 4, 64);
    batch_b.run(second.ref(), 4, 64);
  }
  CHECK(whole(path) == expected);
}

TEST_CASE(
    "fs.sync writes what a running kernel has written, without its help; gwrite goes on "
    "afterwards") {
  constexpr std::uint64_t page = 512, count = 5 * page + 9;
  scratch_folder folder;
  auto const path = folder / "file";
  filesystem fs(small_config(page, 32));
  int const fd = fs.open(path, O_RDWR | O_CREAT);
  auto const bytes = some_bytes(1, 0, count);
  buffer<std::byte> on_device(count);
  on_device.copy_from_host(bytes.data(), count);
  pinned_buffer<std::uint32_t> flags(2);
  flags.fill_zero();
  auto const results = zeroed<std::int64_t>(2);
  launch(write_twice, 1, 64, fs.ref(), fd, on_device.data(), count, &flags[0], &flags[1],
         results.data());
  atomic_ref<std::uint32_t, scope::system> const written(flags[0]);
  wait_until([&] { return written.load(memory_order_acquire) != 0; }, "the kernel has written");
  CHECK(fs.sync(fd) == 0);
  CHECK(whole(path) == bytes);
  file_status status{};
  CHECK(fs.stat(fd, status) == 0);
  CHECK(status.size == count);
  atomic_ref<std::uint32_t, scope::system>(flags[1]).store(1, memory_order_release);
  this_thread_stream().synchronize();
  CHECK(contents(results) == std::vector<std::int64_t>(2, std::int64_t(count)));
  CHECK(fs.close(fd) == 0);
  auto twice = bytes;
  twice.insert(twice.end(), bytes.begin(), bytes.end());
  CHECK(whole(path) == twice);
}

TEST_CASE(
    "while the host writes a page gwrite leaves it alone, and gives up in bounded time; reads go "
    "on") {
  constexpr std::uint64_t page = 4096;
  scratch_folder folder;
  auto const path = folder / "file";
  auto const gate = std::make_shared<testing::gate>();
  auto faults = std::make_shared<scripted_faults>();
  faults->on_write = [gate](std::uint64_t, std::uint64_t) {
    return testing::fault_action::hold(gate);
  };
  auto c = small_config(page, 8);
  c.rpc_timeout_ms = 300;
  testing::filesystem fs(c, faults);
  int const fd = fs.open(path, O_RDWR | O_CREAT);
  auto const first = some_bytes(1, 0, page), second = some_bytes(2, 0, page);
  op_batch batch;
  batch.write(0, fd, 0, first);
  batch.run(fs.ref(), 1, 64);
  wait_until([&] { return gate->arrivals() > 0; }, "the host holds the page");
  op_batch meanwhile;
  auto const refused = meanwhile.write(0, fd, 0, second);
  auto const read = meanwhile.read(0, fd, 0, page);
  meanwhile.run(fs.ref(), 1, 64);
  CHECK(meanwhile.result(refused) == -ETIMEDOUT);
  CHECK(meanwhile.bytes(read) == first);
  gate->release();
  CHECK(fs.sync(fd) == 0);
  CHECK(whole(path) == first);
  op_batch after;
  auto const taken = after.write(0, fd, 0, second);
  after.run(fs.ref(), 1, 64);
  CHECK(after.result(taken) == std::int64_t(page));
  CHECK(fs.close(fd) == 0);
  CHECK(whole(path) == second);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("the host does not touch a write buffer that the device says it is adding bytes to") {
  constexpr std::uint64_t page = 4096;
  scratch_folder folder;
  auto const path = folder / "file";
  std::atomic<bool> refuse{true}, busy{false}, early{false};
  auto faults = std::make_shared<scripted_faults>();
  faults->on_write = [&](std::uint64_t, std::uint64_t) {
    if (busy) early = true;
    return refuse ? testing::fault_action::fail(EIO) : testing::fault_action::pass();
  };
  testing::filesystem fs(small_config(page, 8), faults);
  int const fd = fs.open(path, O_RDWR | O_CREAT);
  auto const bytes = some_bytes(1, 0, page);
  op_batch batch;
  batch.write(0, fd, 0, bytes);
  batch.run(fs.ref(), 1, 64);
  CHECK(fs.sync() == -EIO);
  REQUIRE(fs.unwritten().size() == 1);
  // No kernel runs: this test is the device, and has gwrite under way in the dirty buffer.
  auto const writes = fs.ref().link.shared.writes;
  std::uint64_t dirty = 0;
  while (writes.posted[dirty] >> rpc::posted_shift == 0) ++dirty;
  std::atomic_ref<std::uint64_t> const posted(writes.posted[dirty]);
  posted.fetch_or(rpc::posted_busy, std::memory_order_seq_cst);
  busy = true;
  refuse = false;
  int result = 0;
  std::thread syncs([&] { result = fs.sync(fd); });
  // Which bytes of the page are dirty cannot be known now, but that some are.
  for (unsigned look = 0; look < 20; ++look)
    CHECK(fs.unwritten() == std::vector{path + ": bytes in 0..4095"});
  busy = false;
  posted.fetch_and(~rpc::posted_busy, std::memory_order_seq_cst);
  syncs.join();
  CHECK(!early);
  CHECK(result == -EIO);  // of before
  CHECK(whole(path) == bytes);
  CHECK(fs.close(fd) == 0);
}

TEST_CASE(
    "what is written through one descriptor is read through the others, and fs.write by the next "
    "context") {
  constexpr std::uint64_t page = 4096;
  scratch_folder folder;
  auto const path = make_file(folder, "file", 3 * page + 5);
  auto expected = whole(path);
  filesystem fs(small_config(page, 16));
  int const reader = fs.open(path, O_RDONLY);
  op_batch warm;
  warm.read(0, reader, 0, 4 * page);
  warm.run(fs.ref(), 1, 64);
  int const both = fs.open(path, O_RDWR), writer = fs.open(path, O_WRONLY);
  CHECK(both != writer);
  for (unsigned round = 0; round < 6; ++round) {
    auto const bytes = some_bytes(round, 0, 2 * page);
    std::uint64_t const at = round * page + 9;
    op_batch batch;
    if (round % 3 == 2) {
      CHECK(fs.write(both, bytes.data(), bytes.size(), std::int64_t(at)) ==
            std::int64_t(bytes.size()));
    } else {
      batch.write(0, round % 3 == 0 ? both : writer, std::int64_t(at), bytes);
    }
    expected.resize(std::max<std::uint64_t>(expected.size(), at + bytes.size()));
    std::copy(bytes.begin(), bytes.end(), expected.begin() + std::ptrdiff_t(at));
    auto const a = batch.read(0, reader, 0, 20 * page);
    auto const b = batch.read(0, both, 0, 20 * page);
    batch.run(fs.ref(), 1, 64);
    CAPTURE(round);
    CHECK(batch.bytes(a) == expected);
    CHECK(batch.bytes(b) == expected);
  }
  CHECK(fs.close(both) == 0);
  CHECK(fs.close(writer) == 0);
  CHECK(whole(path) == expected);
}

TEST_CASE("fs.stat counts bytes of gwrite while their page is being written back, and after") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 100);
  auto const held = std::make_shared<testing::gate>();
  auto const faults = std::make_shared<scripted_faults>();
  faults->on_write = [&](std::uint64_t, std::uint64_t) {
    return testing::fault_action::hold(held);
  };
  testing::filesystem fs(small_config(512, 8), faults);
  int const fd = fs.open(path, O_RDWR);
  op_batch batch;
  batch.write(0, fd, 5000, some_bytes(1, 5000, 10));
  batch.run(fs.ref(), 1, 64);
  wait_until([&] { return held->arrivals() != 0; }, "write-back of the page");
  // The page becomes clean while fs.stat waits for it, so that neither order may miss it.
  std::thread opener([&] {
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    held->release();
  });
  file_status status{};
  CHECK(fs.stat(fd, status) == 0);
  opener.join();
  CHECK(status.size == 5010);
  CHECK(fs.close(fd) == 0);
}
