// gread_async, gtest, gwait: many reads under way, waited for in any order, beside other reads and
// writes.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr unsigned under_way = 6;

struct read_op {
  std::int32_t fd;
  std::uint32_t place;  ///< where its buffer starts
  std::uint64_t count;
  std::int64_t offset;
  std::int64_t result;
};

/// Each caller begins its next few reads, reads something else meanwhile, and waits for them
/// backwards.
template <class Group>
__device__ void carry_out(fs_ref const& fs, Group const& group, read_op* ops, std::uint32_t count,
                          std::byte* out, std::uint32_t caller, std::uint32_t callers,
                          bool beside) {
  io_context<Group> io(fs, group);
  for (std::uint32_t from = caller * under_way; from < count; from += callers * under_way) {
    async_read reads[under_way];
    for (unsigned i = 0; i < under_way && from + i < count; ++i) {
      read_op const& op = ops[from + i];
      reads[i] = gread_async(io, op.fd, out + op.place, op.count, op.offset);
    }
    if (beside) {
      read_op& op = ops[from];
      static_cast<void>(gread(io, op.fd, out + op.place, op.count, op.offset));
    }
    for (unsigned i = under_way; i-- > 0;) {
      if (from + i >= count) continue;
      ssize_t const n = gwait(io, reads[i]);
      if (group.thread_rank() == 0) ops[from + i].result = n;
    }
  }
}

__global__ void by_block(fs_ref fs, read_op* ops, std::uint32_t count, std::byte* out,
                         bool beside) {
  carry_out(fs, cg::this_thread_block(), ops, count, out, blockIdx.x, gridDim.x, beside);
}
__global__ void by_tile(fs_ref fs, read_op* ops, std::uint32_t count, std::byte* out, bool beside) {
  auto const tile = cg::tiled_partition<32>(cg::this_thread_block());
  std::uint32_t const per_block = blockDim.x / 32;
  carry_out(fs, tile, ops, count, out, blockIdx.x * per_block + threadIdx.x / 32,
            gridDim.x * per_block, beside);
}

/// Begins two reads, says so, and looks: the second is answered while the first is held.
__global__ void look_without_waiting(fs_ref fs, int fd, std::uint64_t page, std::byte* out,
                                     std::uint32_t* begun, std::int64_t* told) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  async_read held = gread_async(io, fd, out, page, 0);
  async_read free = gread_async(io, fd, out + page, page, std::int64_t(page));
  while (gtest(io, free) == 0) {
  }
  int const still = gtest(io, held);
  ssize_t const second = gwait(io, free);
  if (threadIdx.x == 0) {
    told[0] = still;
    told[1] = second;
    atomic_ref<std::uint32_t, scope::system>(*begun).store(1, memory_order_release);
  }
  ssize_t const first = gwait(io, held);
  if (threadIdx.x == 0) told[2] = first;
}

/// Begins a read, overwrites what it reads, has it leave the cache, and waits: the new bytes must
/// come.
__global__ void overtake(fs_ref fs, int fd, std::uint64_t page, std::uint64_t pages,
                         std::byte const* fresh, std::byte* out, std::byte* other,
                         std::int64_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  async_read r = gread_async(io, fd, out, page, 0);
  ssize_t const written = gwrite(io, fd, fresh, page, 0);
  int const synced = gfsync(io, fd);
  std::int64_t bad = 0;
  for (std::uint64_t i = 1; i < pages; ++i) {
    if (gread(io, fd, other, page, std::int64_t(i * page)) != ssize_t(page)) ++bad;
    if (gwrite(io, fd, other, 1, std::int64_t(i * page)) != 1) ++bad;
  }
  ssize_t const n = gwait(io, r);
  if (threadIdx.x == 0) {
    results[0] = written;
    results[1] = synced;
    results[2] = bad;
    results[3] = n;
  }
}

__global__ void wait_for_errors(fs_ref fs, int fd, int closed, std::byte* out,
                                std::int64_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  struct {
    int fd;
    void* buf;
    std::uint64_t count;
    std::int64_t offset;
  } const calls[] = {{-1, out, 10, 0},     {closed, out, 10, 0}, {fd, out, 10, -1},
                     {fd, nullptr, 10, 0}, {fd, out, 0, 0},      {fd, out, 10, 1 << 30}};
  unsigned n = 0;
  for (auto const& c : calls) {
    async_read r = gread_async(io, c.fd, c.buf, c.count, c.offset);
    int const ready = gtest(io, r);
    ssize_t const result = gwait(io, r);
    if (threadIdx.x == 0) results[n] = ready == 1 ? result : 1;
    ++n;
  }
}

/// Each read gave what pread gives, up to `most` bytes of it.
void require_reads(std::string const& path, std::vector<read_op> const& done,
                   std::vector<std::byte> const& bytes, std::uint64_t most = ~0ull) {
  for (auto const& op : done) {
    auto const expected = pread_bytes(path, std::uint64_t(op.offset), std::min(op.count, most));
    REQUIRE(op.result == std::int64_t(expected.size()));
    CHECK(std::equal(expected.begin(), expected.end(), bytes.begin() + op.place));
  }
}

/// The file gets its bytes while the read is under way.
__global__ void grow_under_read(fs_ref fs, int fd, std::byte* bytes, std::uint64_t count,
                                std::int64_t* results) {
  io_context io(fs, cg::this_thread_block());
  async_read read = gread_async(io, fd, bytes, count, 0);
  ssize_t const written = gwrite(io, fd, bytes, count, 0);
  ssize_t const got = gwait(io, read);
  if (threadIdx.x == 0) results[0] = written, results[1] = got;
}

}  // namespace

TEST_CASE(
    "gread_async: reads under way at once, waited for backwards, with a gread between, give what "
    "pread gives") {
  scratch_folder folder;
  constexpr std::uint64_t size = 150'000;
  auto const path = make_file(folder, "file", size);
  std::mt19937_64 random(seed());
  for (std::uint64_t const page : {512u, 4096u}) {
    for (auto* const kernel : {by_block, by_tile}) {
      for (bool const beside : {false, true}) {
        filesystem fs(small_config(page, random() % 2 == 0 ? 8 : 64));
        int const fd = fs.open(path, O_RDONLY);
        std::vector<read_op> ops;
        std::uint32_t place = 0;
        for (unsigned i = 0; i < scaled(120, 40); ++i) {
          std::uint64_t const count = random() % (random() % 3 == 0 ? 9000 : 700) + 1;
          ops.push_back({fd, place, count, std::int64_t(random() % (size + 100)), 0});
          place += std::uint32_t(count);
        }
        auto device = filled(ops);
        auto out = zeroed<std::byte>(place);
        launch(kernel, 3, 64, fs.ref(), device.data(), std::uint32_t(ops.size()), out.data(),
               beside);
        auto const done = result_in(device);
        require_reads(path, done, contents(out));
        CHECK(inspect(fs.ref()).problems == "");
      }
    }
  }
}

TEST_CASE(
    "gread_async: more reads under way than there are channels, and longer ones than 32 pages, are "
    "read all the same") {
  scratch_folder folder;
  constexpr std::uint64_t page = 512;
  auto const path = make_file(folder, "file", 400 * page);
  auto settings = small_config(page, 16);
  settings.staging_size = 32 * 4096;
  filesystem fs(settings);
  int const fd = fs.open(path, O_RDONLY);
  std::vector<read_op> ops;
  for (std::uint32_t i = 0; i < 12; ++i)
    ops.push_back(
        {fd, std::uint32_t(i * 40 * page), 40 * page, std::int64_t(i * 33 * page + 100), 0});
  auto device = filled(ops);
  auto out = zeroed<std::byte>(12 * 40 * page);
  launch(by_block, 2, 64, fs.ref(), device.data(), std::uint32_t(ops.size()), out.data(), true);
  auto const done = result_in(device);
  require_reads(path, done, contents(out), 32 * page - 100);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("gread_async: reads complete out of order, and gtest says which have") {
  scratch_folder folder;
  constexpr std::uint64_t page = 4096;
  auto const path = make_file(folder, "file", 2 * page);
  auto const gate = std::make_shared<testing::gate>();
  testing::filesystem fs(
      small_config(page, 8), read_faults([&](std::uint64_t offset, std::uint64_t) {
        return offset == 0 ? testing::fault_action::hold(gate) : testing::fault_action::pass();
      }));
  int const fd = fs.open(path, O_RDONLY);
  auto out = zeroed<std::byte>(2 * page);
  auto told = zeroed<std::int64_t>(3);
  pinned_buffer<std::uint32_t> begun(1);
  begun.fill_zero();
  launch(look_without_waiting, 1, 64, fs.ref(), fd, page, out.data(), begun.data(), told.data());
  wait_until(
      [&] { return std::atomic_ref<std::uint32_t>(begun[0]).load(std::memory_order_acquire) == 1; },
      "the second read is over");
  gate->release();
  CHECK(result_in(told) == std::vector<std::int64_t>{0, page, page});
  CHECK(contents(out) == pread_bytes(path, 0, 2 * page));
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "gread_async: bytes that were written after they were asked for come from the write, also when "
    "it has left the cache") {
  scratch_folder folder;
  constexpr std::uint64_t page = 512;
  constexpr std::uint64_t pages = 30;
  auto const path = make_file(folder, "file", pages * page);
  filesystem fs(small_config(page, 8));
  int const fd = fs.open(path, O_RDWR);
  std::vector<std::byte> const fresh(page, std::byte{77});
  auto from = filled(fresh);
  auto out = zeroed<std::byte>(page);
  auto other = zeroed<std::byte>(page);
  auto results = zeroed<std::int64_t>(4);
  launch(overtake, 1, 64, fs.ref(), fd, page, pages, from.data(), out.data(), other.data(),
         results.data());
  CHECK(result_in(results) == std::vector<std::int64_t>{page, 0, 0, page});
  CHECK(contents(out) == fresh);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("gread_async: a read has at most 32 pages, also if it begins behind the end") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 0);
  filesystem fs(small_config(512, 64));
  int const fd = fs.open(path, O_RDWR);
  auto out = zeroed<std::byte>(40 * 512);
  auto results = zeroed<std::int64_t>(2);
  launch(grow_under_read, 1, 64, fs.ref(), fd, out.data(), std::uint64_t(40 * 512), results.data());
  CHECK(result_in(results) == std::vector<std::int64_t>{40 * 512, 32 * 512});
}

TEST_CASE("gread_async: gwait reports what gread would") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 3000);
  filesystem fs(small_config(512, 8));
  int const closed = fs.open(make_file(folder, "other", 10), O_RDONLY);
  int const fd = fs.open(path, O_RDONLY);
  CHECK(fs.close(closed) == 0);
  auto out = zeroed<std::byte>(64);
  auto results = zeroed<std::int64_t>(6);
  launch(wait_for_errors, 1, 64, fs.ref(), fd, closed, out.data(), results.data());
  CHECK(result_in(results) == std::vector<std::int64_t>{-EBADF, -EBADF, -EINVAL, -EFAULT, 0, 0});
  CHECK(inspect(fs.ref()).problems == "");
}
