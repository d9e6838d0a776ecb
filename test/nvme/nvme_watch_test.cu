// Controllers that fail while kernels alone use them: the host notices, and waits end with -EIO. A
// wait of these suites would time out after two minutes.
#include <gpufs/gpufs.hpp>

#include <test/nvme/block_members.hpp>
#include <test/nvme/read_faults.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 4096;
constexpr unsigned callers = 4;

/// Reads whose completions never come, under way while `broken` happens to the controller. The host
/// sends no command.
void waits_end(fault_scene& s, std::atomic<bool>& broken) {
  s.read_is_right(1);
  s.faults->plan({nvme_controller::fault::kind::lose, 0}, callers);
  op_batch batch;
  std::vector<std::size_t> ops;
  for (unsigned caller = 0; caller < callers; ++caller)
    ops.push_back(batch.read(caller, s.fd, std::int64_t(10 + caller) * page, page));
  batch.start(s.fs.ref(), callers, 64);
  wait_until([&] { return s.faults->planned() == 0; }, "lost completions");
  broken = true;
  batch.finish();
  for (auto const op : ops) CHECK(batch.result(op) == -EIO);
  CHECK(s.fs.stats().timeouts == 0);
  auto const seen = s.fs.attachment_stats("disk");
  CHECK(seen.resets >= 1);
  CHECK(seen.commands == s.host_commands);
  CHECK(inspect(s.fs.ref()).problems == "");
}

/// Polls a read that has no answer until gtest says that there is no more to wait for.
__global__ void poll(fs_ref fs, int fd, std::int64_t offset, std::byte* to, std::int64_t* result) {
  io_context io(fs, cooperative_groups::this_thread_block());
  async_read read = gread_async(io, fd, to, page, offset);
  while (gtest(io, read) == 0) {
  }
  std::int64_t const got = gwait(io, read);
  if (threadIdx.x == 0) *result = got;
}

constexpr unsigned most_tries = 20;

struct held_channels {
  unsigned holds;       ///< block 0 has its reads under way
  unsigned have_ended;  ///< those of block 1 have failed
  std::int64_t lost, other, held;
  unsigned tries;
};

/// Block 0 starts a read of 32 pages. Block 1 reads 32 pages, which takes all other channels. Block
/// 0 then reads a page with them under way, and again if that takes too long.
__global__ void hold_channels(fs_ref fs, int fd, std::byte* to, held_channels* h) {
  io_context io(fs, cooperative_groups::this_thread_block());
  std::byte* const mine = to + blockIdx.x * 33 * page;
  atomic_ref<unsigned, scope::device> const holds(h->holds), ended(h->have_ended);
  if (blockIdx.x == 1) {
    while (holds.load(memory_order_acquire) == 0) {
    }
    std::int64_t const got = gread(io, fd, mine, 32 * page, 32 * page);
    if (threadIdx.x == 0) {
      h->lost = got;
      ended.store(1, memory_order_release);
    }
    return;
  }
  async_read held = gread_async(io, fd, mine, 32 * page, 0);
  if (threadIdx.x == 0) holds.store(1, memory_order_release);
  while (ended.load(memory_order_acquire) == 0) {
  }
  std::int64_t got = -ETIMEDOUT;
  unsigned tries = 0;
  while (got == -ETIMEDOUT && ++tries <= most_tries)
    got = gread(io, fd, mine + 32 * page, page, 7 * page);
  std::int64_t const last = gwait(io, held);
  if (threadIdx.x == 0) h->other = got, h->held = last, h->tries = tries;
}

}  // namespace

TEST_CASE("watch: a controller that fails ends kernels' waits, and works after its reset") {
  bool relays = false;
  SUBCASE("kernels ring") { relays = false; }
  SUBCASE("relayed doorbells") { relays = true; }
  fault_scene s(small_config(page, 8), relays);
  waits_end(s, s.faults->fail);
  s.faults->fail = false;
  wait_until([&] { return s.read(1) == std::int64_t(page); }, "a read after the reset");
  for (std::uint64_t number = 0; number < 20; ++number) s.read_is_right(number);
}

TEST_CASE("watch: a controller that leaves the bus ends kernels' waits, then all is -EIO") {
  bool relays = false;
  SUBCASE("kernels ring") { relays = false; }
  SUBCASE("relayed doorbells") { relays = true; }
  fault_scene s(small_config(page, 8), relays);
  waits_end(s, s.faults->leave);
  CHECK(s.read(2) == -EIO);
  CHECK(s.read(3) == -EIO);
  CHECK(s.fs.attachment_stats("disk").resets == 1);
}

TEST_CASE("watch: a controller that does not stop ends kernels' waits, then all is -EIO") {
  fault_scene s;
  s.faults->stay_ready = true;
  waits_end(s, s.faults->fail);
  s.faults->fail = false;
  s.faults->stay_ready = false;
  CHECK(s.read(2) == -EIO);
  CHECK(s.fs.attachment_stats("disk").resets == 1);
}

TEST_CASE("watch: a failure is noticed while nobody reads") {
  fault_scene s;
  s.read_is_right(1);
  s.faults->fail = true;
  wait_until([&] { return s.fs.attachment_stats("disk").resets != 0; }, "a reset");
  s.faults->fail = false;
  wait_until([&] { return s.read(2) == std::int64_t(page); }, "a read after the reset");
  s.read_is_right(3);
}

TEST_CASE("watch: after a reset kernels drive no queue pairs, and the statistics say why") {
  fault_scene s;
  s.read_is_right(1);
  auto const before = s.fs.attachment_stats("disk");
  CHECK(before.device_queue_pairs > 0);
  CHECK(before.why_no_device_queues == "");
  s.faults->fail = true;
  wait_until([&] { return s.fs.attachment_stats("disk").resets != 0; }, "a reset");
  s.faults->fail = false;
  wait_until([&] { return s.read(2) == std::int64_t(page); }, "a read after the reset");
  auto const seen = s.fs.attachment_stats("disk");
  CHECK(seen.device_queue_pairs == 0);
  CHECK(seen.why_no_device_queues.find("reset") != std::string::npos);
  CHECK(seen.device_commands == before.device_commands);
}

TEST_CASE("watch: channels are free again though their commands are never answered") {
  auto c = small_config(page, 32);
  c.staging_size = 64 << 10;
  c.rpc_timeout_ms = 2000;
  fault_scene s(c);
  unsigned const channels = s.fs.ref().channels.page.count;
  s.faults->plan({nvme_controller::fault::kind::lose, 0}, channels);
  op_batch batch;
  auto const lost = batch.read(0, s.fd, 0, channels * page);
  batch.run(s.fs.ref(), 1, 64);
  CHECK(batch.result(lost) == -ETIMEDOUT);
  CHECK(s.faults->planned() == 0);
  // All channels wait for the controller, which says that it is well, and the host sends nothing.
  CHECK(s.fs.attachment_stats("disk").commands == s.host_commands);
  wait_until([&] { return s.read(1) == std::int64_t(page); }, "a channel");
  auto const seen = s.fs.attachment_stats("disk");
  CHECK(seen.resets == 1);
  CHECK(seen.timeouts == 0);
  for (std::uint64_t number = 0; number < 20; ++number) s.read_is_right(number);
  CHECK(inspect(s.fs.ref()).problems == "");
}

TEST_CASE("watch: those that are free again are found beside reads that are under way") {
  auto c = small_config(page, 128);
  c.staging_size = 64 * page;
  c.rpc_timeout_ms = 2000;
  fault_scene s(c);
  REQUIRE(s.fs.ref().channels.page.count == 64);
  s.faults->lost_from = 32 * page / 512;
  buffer<std::byte> to(2 * 33 * page);
  buffer<held_channels> h(1);
  h.fill_zero();
  launch(hold_channels, 2, 32, s.fs.ref(), s.fd, to.data(), h.data());
  gpufs::synchronize();
  held_channels seen{};
  h.copy_to_host(&seen, 1);
  CHECK(seen.lost == -ETIMEDOUT);
  CHECK(seen.other == std::int64_t(page));
  CHECK(seen.held == std::int64_t(32 * page));
  CHECK(seen.tries <= most_tries);
  s.faults->lost_from = ~0ull;
  CHECK(inspect(s.fs.ref()).problems == "");
}

TEST_CASE("watch: a kernel that polls for an answer which never comes gets on") {
  auto c = small_config(page, 8);
  c.rpc_timeout_ms = 2000;
  fault_scene s(c);
  s.faults->plan({nvme_controller::fault::kind::lose, 0}, 1);
  buffer<std::byte> to(page);
  buffer<std::int64_t> result(1);
  launch(poll, 1, 64, s.fs.ref(), s.fd, std::int64_t(5 * page), to.data(), result.data());
  gpufs::synchronize();
  std::int64_t seen = 0;
  result.copy_to_host(&seen, 1);
  CHECK(seen == std::int64_t(page));  // the daemon has read it
  CHECK(inspect(s.fs.ref()).problems == "");
}

TEST_CASE(
    "watch: a system call that hangs is an error in time, and the file works once it returns") {
  auto c = small_config(page, 32);
  c.rpc_timeout_ms = 2000;
  fault_scene s(c);
  s.faults->hangs = true;
  CHECK(s.read(2) == -ETIMEDOUT);
  CHECK(s.read(3) < 0);
  wait_until([&] { return s.fs.attachment_stats("disk").resets != 0; }, "a reset");
  CHECK(s.read(4) < 0);
  s.faults->release();
  wait_until([&] { return s.read(5) == std::int64_t(page); }, "a read after the system call");
  for (std::uint64_t number = 0; number < 20; ++number)
    wait_until([&] { return s.read(number) == std::int64_t(page); }, "a read");
  CHECK(inspect(s.fs.ref()).problems == "");
}

TEST_CASE("watch: one of two members fails, reads of the other are right") {
  scratch_folder folder;
  auto const files = make_members(folder, {2, false, page}, 64 * page);
  std::vector<std::shared_ptr<read_faults>> faults{std::make_shared<read_faults>(),
                                                   std::make_shared<read_faults>()};
  filesystem fs(small_config(page, 8));
  owner::inject_controller_faults({faults[0], faults[1]});
  fs.attach("disk", files.options);
  int const fd = fs.open("nvme:disk", O_RDONLY);
  REQUIRE(fd > 0);
  faults[0]->plan({nvme_controller::fault::kind::lose, 0}, 1);
  op_batch batch;
  auto const lost = batch.read(0, fd, 10 * page, page);
  for (unsigned i = 0; i < 20; ++i) batch.read(1, fd, std::int64_t(2 * i + 1) * page, page);
  batch.start(fs.ref(), 2, 64);
  wait_until([&] { return faults[0]->planned() == 0; }, "a lost completion");
  faults[0]->fail = true;
  batch.finish();
  CHECK(batch.result(lost) == -EIO);
  for (std::size_t op = 1; op < batch.size(); ++op) {
    CHECK(batch.result(op) == std::int64_t(page));
    CHECK(batch.bytes(op) == pread_bytes(files.whole, (2 * op - 1) * page, page));
  }
  CHECK(fs.close(fd) == 0);
  CHECK(fs.detach("disk") == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("watch: attachments and filesystems end while their controller fails or leaves") {
  std::mt19937_64 random(seed());
  for (unsigned round = 0; round < scaled(60, 15); ++round) {
    CAPTURE(round);
    auto s = std::make_unique<fault_scene>(small_config(page, 8), round % 2 == 0);
    s->read_is_right(1);
    (random() % 2 == 0 ? s->faults->fail : s->faults->leave) = true;
    // Some ends come before the look, some during the reset, some later.
    if (random() % 2 == 0)
      for (std::uint64_t reads = random() % 4; reads > 0; --reads)
        static_cast<void>(s->fs.attachment_stats("disk"));
    if (random() % 3 == 0)
      wait_until([&] { return s->fs.attachment_stats("disk").resets != 0; }, "a reset");
    s.reset();
  }
}
