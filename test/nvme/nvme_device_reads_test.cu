// Block files that kernels read by queue pairs of their own: bytes, who sent the commands, errors.
#include <gpufs/async.hpp>
#include <gpufs/gpufs.hpp>
#include <gpufs/nvme/status.hpp>
#include <gpufs/owner/nvme_members.hpp>

#include <test/nvme/block_members.hpp>
#include <test/nvme/read_faults.hpp>
#include <test/nvme/statuses.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

namespace status = nvme::status;
constexpr std::uint64_t page = 4096;

/// Random reads of the file and of what lies behind its end.
void add_random(read_batch& batch, int fd, std::string const& path, std::uint64_t size,
                std::mt19937_64& random, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    std::uint64_t const most = random() % 4 == 0 ? 40 * page : random() % 2 == 0 ? page : 60;
    batch.add(fd, path, std::int64_t(random() % (size + page)), 1 + random() % most,
              unsigned(random() % 64));
  }
}

/// Reads the file, and checks that kernels alone sent the commands, in at least one.
void read_by_kernels(filesystem& fs, member_files const& files, std::mt19937_64& random,
                     unsigned blocks, caller_kind who, unsigned count) {
  int const fd = fs.open("nvme:disk", O_RDONLY);
  REQUIRE(fd > 0);
  auto const before = fs.attachment_stats("disk");
  read_batch batch;
  add_random(batch, fd, files.whole, files.size, random, count);
  check_twice(fs, batch, blocks, 64, who);
  auto const after = fs.attachment_stats("disk");
  CHECK(after.commands == before.commands);
  CHECK(after.device_commands > before.device_commands);
  CHECK(fs.close(fd) == 0);
}

/// Sums words of a file at random places, and counts errors. Those after `ahead` more rounds are
/// prefetched, if that is not 0.
__global__ void sum_elements(fs_ref fs, int fd, std::uint64_t seed, unsigned rounds, unsigned ahead,
                             unsigned long long* sum, unsigned long long* errors) {
  io_context io(fs, cooperative_groups::this_thread_block());
  array<std::uint32_t const> const words(io, fd);
  unsigned const thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long mine = 0;
  auto const place = [&](unsigned i) {
    return base::mix64(seed + thread * 1000ull + i) % words.size();
  };
  for (unsigned i = 0; i < rounds; ++i) {
    if (ahead != 0) words.prefetch(place(i + ahead));
    mine += words[place(i)];
  }
  atomicAdd(sum, mine);
  if (words.error() != 0) atomicAdd(errors, 1ull);
}

/// Each block reads its pages by gread_async, three under way, and compares the first byte.
__global__ void read_async(fs_ref fs, int fd, std::uint32_t pages, std::byte* room,
                           std::byte const* expected, unsigned long long* wrong) {
  io_context io(fs, cooperative_groups::this_thread_block());
  constexpr unsigned under_way = 3;
  std::byte* const mine = room + std::uint64_t{blockIdx.x} * under_way * page;
  for (std::uint32_t first = blockIdx.x * under_way; first + under_way <= pages;
       first += gridDim.x * under_way) {
    async_read reads[under_way];
    for (unsigned i = 0; i < under_way; ++i)
      reads[i] = gread_async(io, fd, mine + i * page, page, std::int64_t(first + i) * page);
    for (unsigned i = 0; i < under_way; ++i) {
      while (gtest(io, reads[i]) == 0) {
      }
      bool right = gwait(io, reads[i]) == ssize_t(page);
      for (unsigned at = threadIdx.x; at < page; at += blockDim.x)
        right = right && mine[i * page + at] == expected[(first + i) * page + at];
      if (!right) atomicAdd(wrong, 1ull);
      __syncthreads();
    }
  }
}

/// Starts `reads` reads of a page and gives them up, as gwait does for a file that is closed. Their
/// channels stay in quarantine.
__global__ void leave_reads(fs_ref fs, int fd, unsigned reads, std::byte* room) {
  io_context io(fs, cooperative_groups::this_thread_block());
  for (unsigned i = 0; i < reads; ++i) {
    async_read const r = gread_async(io, fd, room, page, std::int64_t(i % 64) * page);
    if (r.requested != 0) io::drop_pages(fs.self, r.requested, r.page);
  }
}

}  // namespace

TEST_CASE("device reads: each layout and block size, by blocks and tiles") {
  std::mt19937_64 random(seed());
  for (unsigned const lba : {512u, 4096u}) {
    for (auto const& shape : member_shapes) {
      for (auto const who : {caller_kind::block, caller_kind::tile}) {
        CAPTURE(lba);
        CAPTURE(shape.members);
        scratch_folder folder;
        auto const files = make_members(folder, shape, 48 * page);
        filesystem fs(small_config(page, 24));
        auto o = files.options;
        o.lba = lba;
        fs.attach("disk", o);
        CHECK(fs.attachment_stats("disk").why_no_device_queues == "");
        read_by_kernels(fs, files, random, 4, who, scaled(100, 20));
        CHECK(fs.detach("disk") == 0);
      }
    }
  }
}

TEST_CASE("device reads: readahead asks for more than a command, a stripe or a list can have") {
  std::mt19937_64 random(seed());
  scratch_folder folder;
  auto const files = make_members(folder, {3, false, 1 << 20}, 12 << 20);
  for (std::uint64_t const page_size : {4096u, 65536u}) {
    CAPTURE(page_size);
    auto c = small_config(page_size, (4 << 20) / page_size);
    c.prefetch_size = 1 << 20;
    c.prefetch_memory = 32 << 20;
    filesystem fs(c);
    fs.attach("disk", files.options);
    int const fd = fs.open("nvme:disk", O_RDONLY);
    REQUIRE(fd > 0);
    read_batch batch;
    for (std::uint64_t at = 0; at < files.size; at += 200'000)
      batch.add(fd, files.whole, std::int64_t(at), 200'000);
    batch.run(fs.ref(), 2, 64);
    CHECK(batch.problems() == "");
    CHECK(fs.stats().prefetch_hits > 0);
    CHECK(fs.attachment_stats("disk").commands == 0);
    CHECK(fs.close(fd) == 0);
    CHECK(fs.detach("disk") == 0);
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE(
    "device reads: elements of arrays, prefetched too, and reads that kernels wait for later") {
  unsigned ahead = 0;
  SUBCASE("not prefetched") { ahead = 0; }
  SUBCASE("prefetched") { ahead = 3; }
  scratch_folder folder;
  auto const files = make_members(folder, {2, false, 4 * page}, 64 * page);
  filesystem fs(small_config(page, 40));
  fs.attach("disk", files.options);
  int const fd = fs.open("nvme:disk", O_RDONLY);
  REQUIRE(fd > 0);
  buffer<unsigned long long> counts(3);
  counts.fill_zero();
  constexpr unsigned rounds = 40, threads = 128;
  launch(sum_elements, 2, threads / 2, fs.ref(), fd, seed(), rounds, ahead, counts.data(),
         counts.data() + 1);
  synchronize();
  auto const bytes = pread_bytes(files.whole, 0, files.size);
  buffer<std::byte> room(2 * 3 * page), expected(bytes.size());
  expected.copy_from_host(bytes.data(), bytes.size());
  launch(read_async, 2, 64, fs.ref(), fd, std::uint32_t(files.size / page), room.data(),
         static_cast<std::byte const*>(expected.data()), counts.data() + 2);
  synchronize();
  unsigned long long got[3];
  counts.copy_to_host(got, 3);
  unsigned long long sum = 0;
  for (unsigned thread = 0; thread < threads; ++thread)
    for (unsigned i = 0; i < rounds; ++i) {
      std::uint32_t word = 0;
      std::memcpy(
          &word, bytes.data() + 4 * (base::mix64(seed() + thread * 1000ull + i) % (files.size / 4)),
          4);
      sum += word;
    }
  CHECK(got[0] == sum);
  CHECK(got[1] == 0);
  CHECK(got[2] == 0);
  CHECK(fs.attachment_stats("disk").commands == 0);
  CHECK(fs.close(fd) == 0);
}

TEST_CASE("device reads: a file that is written is the daemon's, then the kernels' again") {
  std::mt19937_64 random(seed());
  scratch_folder folder;
  auto const files = make_members(folder, {2, true, page}, 32 * page);
  filesystem fs(small_config(page, 8));
  fs.attach("disk", files.options);
  int const reader = fs.open("nvme:disk", O_RDONLY);
  int const writer = fs.open("nvme:disk", O_RDWR);
  REQUIRE(writer > 0);
  auto now = pread_bytes(files.whole, 0, files.size);
  for (unsigned round = 0; round < 10; ++round) {
    op_batch batch;
    std::uint64_t const at = random() % (files.size - 3000);
    auto const what = some_bytes(random(), at, 1 + random() % 3000);
    std::copy(what.begin(), what.end(), now.begin() + std::ptrdiff_t(at));
    auto const put = batch.write(0, writer, std::int64_t(at), what);
    auto const got = batch.read(0, reader, 0, files.size);
    batch.run(fs.ref(), 1, 64);
    CHECK(batch.result(put) == std::int64_t(what.size()));
    CHECK(batch.result(got) == std::int64_t(files.size));
    CHECK(batch.bytes(got) == now);
  }
  CHECK(fs.close(writer) == 0);
  CHECK(fs.close(reader) == 0);
  CHECK(pread_bytes(files.options.members[1], 0, files.size) == now);
  write_bytes(files.whole, now);
  read_by_kernels(fs, files, random, 4, caller_kind::tile, 40);
  CHECK(fs.detach("disk") == 0);
}

TEST_CASE("device reads: each status is one errno, the next read is right") {
  fault_scene s;
  std::uint64_t number = 0;
  for (std::uint16_t const word : final_statuses) {
    CAPTURE(word);
    auto const code = std::uint16_t(word & ~status::do_not_retry);
    s.faults->plan({nvme_controller::fault::kind::status, word});
    CHECK(s.read(number) == nvme::error_of(code, nvme::direction::read));
    s.read_is_right(number++);
  }
  s.faults->plan({nvme_controller::fault::kind::status, status::namespace_not_ready}, 3);
  s.read_is_right(number++);
  s.faults->plan({nvme_controller::fault::kind::status, status::namespace_not_ready}, 4);
  CHECK(s.read(number) == -EIO);
  s.read_is_right(number);
  CHECK(s.fs.attachment_stats("disk").commands == s.host_commands);
}

TEST_CASE("device reads: completions in any order, late, twice, or of nobody") {
  std::mt19937_64 random(seed());
  fault_scene s;
  s.faults->shuffles = true;
  s.faults->plan({nvme_controller::fault::kind::twice, 0}, 20);
  read_batch batch;
  add_random(batch, s.fd, s.path, s.size, random, scaled(200, 40));
  batch.run(s.fs.ref(), 4, 64, caller_kind::tile);
  CHECK(batch.problems() == "");
  s.faults->plan({nvme_controller::fault::kind::foreign, 0}, 20);
  batch.run(s.fs.ref(), 4, 64, caller_kind::block);
  CHECK(batch.problems() == "");
  CHECK(s.fs.attachment_stats("disk").commands == s.host_commands);
}

TEST_CASE("device reads: a lost completion is -ETIMEDOUT, then the daemon reads") {
  auto c = small_config(page, 8);
  c.rpc_timeout_ms = 3000;
  fault_scene s(c);
  s.faults->plan({nvme_controller::fault::kind::lose, 0});
  CHECK(s.read(2) == -ETIMEDOUT);
  // A slow machine may miss the deadline again.
  wait_until([&] { return s.read(2) == std::int64_t(page); }, "a read by the daemon");
  auto const seen = s.fs.attachment_stats("disk");
  CHECK(seen.commands > s.host_commands);
  for (std::uint64_t number = 3; number < 20; ++number)
    wait_until([&] { return s.read(number) == std::int64_t(page); }, "a read by the daemon");
  CHECK(s.fs.attachment_stats("disk").device_commands == seen.device_commands);
}

TEST_CASE("device reads: a reset by the host ends waits with -EIO") {
  fault_scene s;
  s.read_is_right(1);
  s.faults->plan({nvme_controller::fault::kind::lose, 0}, 4);
  op_batch batch;
  std::vector<std::size_t> ops;
  for (unsigned caller = 0; caller < 4; ++caller)
    ops.push_back(batch.read(caller, s.fd, std::int64_t(10 + caller) * page, page));
  batch.start(s.fs.ref(), 4, 64);
  wait_until([&] { return s.faults->planned() == 0; }, "lost completions");
  s.faults->fail = true;
  std::vector<std::byte> room(page);
  wait_until([&] { return s.fs.read(s.fd, room.data(), page, 0) == -EIO; }, "a failed read");
  s.faults->fail = false;
  wait_until([&] { return s.fs.read(s.fd, room.data(), page, 0) == std::int64_t(page); },
             "a read after the reset");
  batch.finish();
  for (auto const op : ops) CHECK(batch.result(op) == -EIO);
  for (std::uint64_t number = 0; number < 20; ++number) s.read_is_right(number);
  CHECK(s.fs.attachment_stats("disk").resets >= 1);
  CHECK(inspect(s.fs.ref()).problems == "");
}

TEST_CASE("device reads: chunks whose completions are owed when the file is detached") {
  auto c = small_config(page, 64);
  c.prefetch_size = 4 * page;
  bool owed = false;
  // Completions of chunks behind page `end` get lost. Which chunks there are is up to readahead.
  for (std::uint64_t end = 16; end < 40 && !owed; ++end) {
    CAPTURE(end);
    fault_scene s(c);
    s.faults->lost_from = end * page / 512;
    op_batch batch;
    for (std::uint64_t number = 0; number < end; ++number)
      batch.read(0, s.fd, std::int64_t(number * page), page);
    batch.run(s.fs.ref(), 1, 64);
    for (std::size_t op = 0; op < batch.size(); ++op) CHECK(batch.result(op) == std::int64_t(page));
    owed = inspect(s.fs.ref()).quarantined > 0;
    CHECK(s.fs.close(s.fd) == 0);
    CHECK(s.fs.detach("disk") == 0);
    CHECK(inspect(s.fs.ref()).problems == "");
    s.attach();
    for (std::uint64_t number = 0; number < 64; ++number) s.read_is_right(number);
    CHECK(s.fs.attachment_stats("disk").commands == s.host_commands);
  }
  CHECK(owed);
}

TEST_CASE("device reads: completions that nobody took before the detachment answer nobody") {
  auto c = small_config(page, 64);
  c.prefetch_size = 4 * page;
  for (unsigned round = 0; round < scaled(10, 3); ++round) {
    fault_scene s(c);
    op_batch batch;
    for (unsigned number = 0; number < 20 + round; ++number)
      batch.read(number % 4, s.fd, std::int64_t(number * page), page);
    batch.run(s.fs.ref(), 4, 64);  // some chunks ahead are complete, and no kernel waits for them
    CHECK(s.fs.close(s.fd) == 0);
    CHECK(s.fs.detach("disk") == 0);
    std::string const path = make_file(s.folder, "ordinary", 100 * page, 9);
    int const fd = s.fs.open(path, O_RDONLY);
    REQUIRE(fd > 0);
    read_batch other;
    for (std::uint64_t at = 0; at < 100; ++at) other.add(fd, path, std::int64_t(at * page), page);
    other.run(s.fs.ref(), 4, 64, caller_kind::tile);
    CHECK(other.problems() == "");
    CHECK(s.fs.stats().timeouts == 0);
    CHECK(s.fs.close(fd) == 0);
    s.attach();
    CHECK(inspect(s.fs.ref()).problems == "");
  }
}

TEST_CASE("device reads: writers find page channels that reads under way have left") {
  auto c = small_config(page, 16);
  fault_scene s(c);
  std::string const path = make_file(s.folder, "written", 64 * page, 9);
  int const fd = s.fs.open(path, O_RDWR);
  REQUIRE(fd > 0);
  buffer<std::byte> room(page);
  s.faults->holds = true;
  launch(leave_reads, 1, 32, s.fs.ref(), s.fd, s.fs.ref().channels.page.count, room.data());
  synchronize();
  CHECK(inspect(s.fs.ref()).quarantined > 0);
  s.faults->holds = false;
  op_batch batch;
  for (unsigned number = 0; number < 60; ++number)
    batch.write(number % 8, fd, std::int64_t(number * page + 7), some_bytes(1, 0, 100));
  batch.run(s.fs.ref(), 8, 64);
  for (std::size_t op = 0; op < batch.size(); ++op) CHECK(batch.result(op) == 100);
  CHECK(s.fs.stats().timeouts == 0);
  CHECK(s.fs.close(fd) == 0);
}

TEST_CASE("device reads: without queue pairs for all channels the daemon reads, and says why") {
  scratch_folder folder;
  auto const files = make_members(folder, {1, false, page}, 16 * page);
  auto c = small_config(page, 8);
  c.staging_size = 32 << 20;  // 8192 channels
  c.nvme_queue_depth = 16;
  filesystem fs(c);
  auto const pinned = fs.pinned_bytes();
  fs.attach("disk", files.options);
  CHECK(fs.pinned_bytes() > pinned);  // doorbells of the controller
  auto const before = fs.attachment_stats("disk");
  CHECK(before.device_queue_pairs == 0);
  // 15 channels a pair.
  std::uint64_t const channels = fs.ref().link.shared.channels;
  auto const wanted = "0 queue pairs for kernels, " + std::to_string((channels + 14) / 15) +
                      " are needed for " + std::to_string(channels) + " channels";
  CHECK(before.why_no_device_queues.find(wanted) != std::string::npos);
  int const fd = fs.open("nvme:disk", O_RDONLY);
  read_batch batch;
  batch.add(fd, files.whole, 0, files.size);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.problems() == "");
  CHECK(fs.attachment_stats("disk").commands > before.commands);
  CHECK(fs.close(fd) == 0);
  CHECK(fs.detach("disk") == 0);
  CHECK(fs.pinned_bytes() == pinned);
}

TEST_CASE("device reads: memory of queues is pinned until the filesystem ends, and counts") {
  scratch_folder folder;
  auto const files = make_members(folder, {2, false, page}, 16 * page);
  auto c = small_config(page, 8);
  c.nvme_queue_depth = 64;
  filesystem fs(c);
  auto const before = fs.pinned_bytes();
  fs.attach("disk", files.options);
  auto const pairs = fs.attachment_stats("disk").device_queue_pairs;
  REQUIRE(pairs > 0);
  // Entries of 64 bytes, and two of 16 bytes.
  auto const queues = pairs * 64 * (64 + 2 * 16);
  CHECK(fs.pinned_bytes() >= before + queues);
  CHECK(fs.detach("disk") == 0);
  CHECK(fs.pinned_bytes() >= before + queues);
}
