// Stores to a file that is being cut: what they return while its gate is closed for longer than
// rpc_timeout.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr off_t cut_size = 4096;

/// A file system that cuts a file to `cut_size` when the test lets it.
std::atomic<bool> is_held{false}, has_begun{false};

}  // namespace

// The daemon's calls come here, as the program is linked with the library.
extern "C" int ftruncate(int fd, off_t size) noexcept {
  if (size == cut_size) {  // others may call, too
    has_begun = true;
    has_begun.notify_all();
    is_held.wait(true);
  }
  return int(::syscall(SYS_ftruncate, fd, size));
}
extern "C" int ftruncate64(int fd, off64_t size) noexcept { return ftruncate(fd, size); }

namespace {

__global__ void cut(fs_ref fs, int fd, std::int64_t* result) {
  io_context io(fs, cg::this_thread_block());
  int got = -ETIMEDOUT;  // given up before the daemon began
  while (got == -ETIMEDOUT) got = gftruncate(io, fd, cut_size);
  if (threadIdx.x == 0) *result = got;
}

/// Each block changes elements of its own, in a way of its own.
__global__ void change(fs_ref fs, int fd, std::byte* bytes, std::int64_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<unsigned> elements(io, fd);
  auto const element = blockIdx.x * blockDim.x + threadIdx.x;
  std::int64_t result = 0;
  if (blockIdx.x == 0) {
    elements.store(element, 7);
    result = elements.error();
  } else if (blockIdx.x == 1) {
    elements.fetch_add(element, 7);
    result = elements.error();
  } else if (blockIdx.x == 2) {
    auto writer = elements.writer(element);
    writer.store(0, 7);
    result = writer.flush();
    writer.release();
  } else {
    result = gwrite(io, fd, bytes, 8, 512);
  }
  if (threadIdx.x == 0) results[blockIdx.x] = result;
}

/// Kernels that change a file, while another one cuts it and the file system takes its time.
struct held_cut {
  scratch_folder folder;
  filesystem fs;
  int fd;
  stream other;
  buffer<std::int64_t> cut_result = zeroed<std::int64_t>(1);
  buffer<std::int64_t> results = zeroed<std::int64_t>(4);
  buffer<std::byte> bytes = zeroed<std::byte>(8);

  explicit held_cut(unsigned timeout_ms)
      : fs(settings(timeout_ms)), fd(fs.open(make_file(folder, "file", 1 << 16), O_RDWR)) {
    // A GPU loads no kernel, and makes no room for its local memory, while another one runs.
    begin_changes();
    result_in(results);
    is_held = true;
    has_begun = false;
    launch({.grid = 1, .block = 32, .on = &other}, cut, fs.ref(), fd, cut_result.data());
    has_begun.wait(false);
  }
  static config settings(unsigned timeout_ms) {
    auto c = small_config(4096, 64);
    c.rpc_timeout_ms = timeout_ms;
    return c;
  }
  void begin_changes() { launch(change, 4, 32, fs.ref(), fd, bytes.data(), results.data()); }
  ~held_cut() { let_go(); }
  void let_go() {
    is_held = false;
    is_held.notify_all();
    other.synchronize();
  }
};

}  // namespace

TEST_CASE("closed gate: stores, adds, held writers and gwrites give -ETIMEDOUT, and take nothing") {
  held_cut under_way(2000);
  under_way.begin_changes();
  CHECK(result_in(under_way.results) == std::vector<std::int64_t>(4, -ETIMEDOUT));
  under_way.let_go();
  CHECK(result_in(under_way.cut_result)[0] == 0);
  // The file goes on, with all of its buffers.
  under_way.begin_changes();
  CHECK(result_in(under_way.results) == std::vector<std::int64_t>{0, 0, 0, 8});
  CHECK(inspect(under_way.fs.ref()).problems == "");
  CHECK(under_way.fs.unreleased().empty());
}

TEST_CASE("closed gate: when the daemon stops, calls give -EIO, or come after the cut has ended") {
  held_cut under_way(60'000);
  under_way.begin_changes();
  std::thread stops([&] { under_way.fs.stop(); });
  for (auto const result : result_in(under_way.results)) CHECK((result == -EIO || result >= 0));
  under_way.let_go();
  stops.join();
}
