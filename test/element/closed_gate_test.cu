// Stores to a file that is being cut: what they return while its gate is closed for longer than
// rpc_timeout.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sched.h>
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
  std::string path = make_file(folder, "file", 1 << 16);
  filesystem fs;
  int fd, once;  ///< the same file; once: -1 or O_GWRONCE
  stream other;
  buffer<std::int64_t> cut_result = zeroed<std::int64_t>(1);
  buffer<std::int64_t> results = zeroed<std::int64_t>(4);
  buffer<std::byte> bytes = zeroed<std::byte>(8);

  explicit held_cut(unsigned timeout_ms, bool with_once = false)
      : fs(settings(timeout_ms)),
        fd(fs.open(path, O_RDWR)),
        once(with_once ? fs.open(path, O_GWRONCE) : -1) {
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

namespace {

/// Time for another thread to do what it must not do yet.
template <class Condition>
void give_a_chance(Condition const& is_done) {
  for (int i = 0; i < 20'000 && !is_done(); ++i) ::sched_yield();
}

std::int64_t written(held_cut& at, int fd, std::int64_t offset,
                     std::vector<std::byte> const& bytes) {
  op_batch batch;
  batch.write(0, fd, offset, bytes);
  batch.run(at.fs.ref(), 1, 64);
  return batch.result(0);
}

}  // namespace

TEST_CASE("closed gate: bytes of a descriptor with O_GWRONCE that is opened meanwhile come later") {
  held_cut under_way(60'000);
  auto const bytes = some_bytes(1, 0, 5 * 4096);
  std::atomic<int> once{0};
  std::thread opens([&] { once = under_way.fs.open(under_way.path, O_GWRONCE); });
  give_a_chance([&] { return once != 0; });
  bool const too_early = once != 0;
  auto const write = [&] {
    CHECK(written(under_way, once, 2 * cut_size, bytes) == std::int64_t(bytes.size()));
    CHECK(under_way.fs.sync(once) == 0);
  };
  if (too_early) write();
  under_way.let_go();
  opens.join();
  if (!too_early) write();
  CHECK(pread_bytes(under_way.path, 2 * cut_size, ~0ull) == bytes);
}

TEST_CASE("closed gate: another file does not get it with the write index") {
  held_cut under_way(2000, true);
  auto const bytes = some_bytes(1, 0, 100);
  auto const other = make_file(under_way.folder, "other", 100);
  std::atomic<int> opened{0};
  std::thread closes([&] {
    CHECK(under_way.fs.close(under_way.once) == 0);
    opened = under_way.fs.open(other, O_RDWR);
  });
  give_a_chance([&] { return opened != 0; });
  if (opened != 0) CHECK(written(under_way, opened, 0, bytes) == 100);
  under_way.let_go();
  closes.join();
  CHECK(written(under_way, opened, 0, bytes) == 100);
  CHECK(result_in(under_way.cut_result)[0] == 0);
}
