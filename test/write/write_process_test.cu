// Writing among processes: a writer that is killed in the middle, and one that opens after us and
// before us.
#include <gpufs/gpufs.hpp>

#include <test/support/child.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/wait.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t pages = 24;
constexpr unsigned storm_blocks = 4;

/// In round r every byte of the file becomes r + 1, in pieces that are no pages. Goes on for ever.
__global__ void storm(fs_ref fs, int fd, std::byte* pieces, std::uint64_t piece,
                      std::uint64_t bytes, std::uint32_t* rounds) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::byte* const mine = pieces + blockIdx.x * piece;
  for (std::uint32_t round = 0;; ++round) {
    for (std::uint64_t i = threadIdx.x; i < piece; i += blockDim.x)
      mine[i] = static_cast<std::byte>(round % 200 + 1);
    for (std::uint64_t at = blockIdx.x * piece; at < bytes; at += gridDim.x * piece) {
      ssize_t const n =
          gwrite(io, fd, mine, bytes - at < piece ? bytes - at : piece, std::int64_t(at));
      if (n < 0) return;
    }
    if (threadIdx.x == 0)
      atomic_ref<std::uint32_t, scope::system>(rounds[blockIdx.x])
          .store(round + 1, memory_order_release);
  }
}

}  // namespace

TEST_CASE("child: storm") {
  if (!is_part("storm")) return;
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(given_path(), O_RDWR);
  REQUIRE(fd > 0);
  constexpr std::uint64_t piece = 5000;
  buffer<std::byte> pieces(storm_blocks * piece);
  pinned_buffer<std::uint32_t> rounds(storm_blocks);
  rounds.fill_zero();
  launch(storm, storm_blocks, 64, fs.ref(), fd, pieces.data(), piece, std::uint64_t(pages * page),
         rounds.data());
  // Tells the parent with an empty file that everything has been written at least twice.
  wait_until(
      [&] {
        for (auto& r : rounds)
          if (atomic_ref<std::uint32_t, scope::system>(r).load(memory_order_acquire) < 2)
            return false;
        return true;
      },
      "two rounds of writing");
  set_size(given_path() + ".going", 0);
  this_thread_stream().synchronize();  // never
}

TEST_CASE("child: append") {
  if (!is_part("append")) return;
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(given_path(), O_RDWR | O_APPEND);
  REQUIRE(fd > 0);
  file_status status{};
  REQUIRE(fs.stat(fd, status) == 0);
  op_batch batch;
  auto const seen = batch.read(0, fd, 0, status.size);
  batch.write(0, fd, 0, some_bytes(2, 0, 1000));
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.bytes(seen) == some_bytes(1, 0, status.size));  // what the parent wrote
  CHECK(fs.close(fd) == 0);
}

TEST_CASE(
    "a process that is killed while it writes leaves in every byte the old value or one that was "
    "written") {
  for (unsigned again = 0; again < scaled(4, 1); ++again) {
    scratch_folder folder;
    auto const path = folder / "file";
    set_size(path, 0);
    {
      std::vector<std::byte> const old(pages * page, std::byte{255});
      filesystem fs(small_config(page, 64));
      int const fd = fs.open(path, O_WRONLY);
      CHECK(fs.write(fd, old.data(), old.size(), 0) == std::int64_t(old.size()));
      CHECK(fs.close(fd) == 0);
    }
    child writer("storm", path);
    wait_until([&] { return std::filesystem::exists(path + ".going") || !writer.running(); },
               "the child has written");
    REQUIRE(std::filesystem::exists(path + ".going"));
    writer.kill(SIGKILL);
    CHECK(WIFSIGNALED(writer.wait()));
    auto const left = pread_bytes(path, 0, ~0ull);
    REQUIRE(left.size() == pages * page);
    std::size_t neither = 0, changed = 0;
    for (auto const b : left) {
      auto const value = std::to_integer<unsigned>(b);
      neither += value == 0 || (value > 200 && value != 255) ? 1 : 0;
      changed += value != 255 ? 1 : 0;
    }
    CHECK(neither == 0);
    CHECK(changed > 0);  // with a cache smaller than the file much must have been written back
  }
}

TEST_CASE("close-to-open with another process: it sees what we closed, we see what it closed") {
  scratch_folder folder;
  auto const path = folder / "file";
  filesystem fs(small_config(page, 16));
  auto const ours = some_bytes(1, 0, 3 * page + 17);
  int const fd = fs.open(path, O_RDWR | O_CREAT);
  op_batch batch;
  batch.write(0, fd, 0, ours);
  batch.close(0, fd);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.result(1) == 0);
  child other("append", path);
  CHECK(other.succeeds());
  auto expected = ours;
  auto const theirs = some_bytes(2, 0, 1000);
  expected.insert(expected.end(), theirs.begin(), theirs.end());
  int const again = fs.open(path, O_RDONLY);
  op_batch after;
  auto const read = after.read(0, again, 0, 10 * page);
  after.run(fs.ref(), 1, 64);
  CHECK(after.bytes(read) == expected);
  CHECK(fs.close(again) == 0);
}
