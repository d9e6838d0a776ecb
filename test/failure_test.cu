// Bounded waits: answers that come late or never, a daemon that stops, no frame to be had, a device that is busy elsewhere.
#include <doctest/doctest.h>

#include <gpufs/gpufs.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;
using daemon::fault_action;

namespace {

constexpr std::uint64_t page = 512;

// A timeout that is short enough for a test and that no wait for an honest answer should reach; those that do are repeated.
constexpr std::uint32_t short_timeout_ms = 300;

__global__ void pin_frames(fs_ref fs, std::uint32_t count, bool undo) {
  for (std::uint32_t i = threadIdx.x; i < count; i += blockDim.x)
    undo ? unpin(fs.cache.headers[i]) : (void)pin(fs.cache.headers[i]);
}

void pin_all_but(filesystem& fs, std::uint32_t spared, bool undo = false) {
  auto const ref = fs.ref();
  launch(pin_frames, 1, 32, ref, ref.cache.frame_count - spared, undo);
  this_thread_stream().synchronize();
}

// Reads random pages, each as often as it takes to get an answer in time, until `enough` is set and at least `rounds` were read. Page
// p of the file consists of bytes p.
__global__ void read_until_told(fs_ref fs, int fd, std::uint32_t pages, std::uint32_t rounds, std::uint64_t seed,
                                std::uint32_t* begun, std::uint32_t* enough, std::byte* out, std::uint64_t* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::byte* const mine = out + blockIdx.x * 3 * page;
  std::uint64_t bad = 0;
  for (std::uint32_t i = 0;; ++i) {
    std::uint32_t const first = static_cast<std::uint32_t>(mix64(seed + (std::uint64_t(blockIdx.x) << 32 | i)) % (pages - 2));
    ssize_t n = 0;
    do n = gread(io, fd, mine, 3 * page, std::int64_t(first) * page);
    while (n == -ETIMEDOUT);
    if (n <= 0 || n % page != 0) ++bad;
    for (ssize_t b = threadIdx.x; b < n; b += blockDim.x) bad += mine[b] != static_cast<std::byte>(first + b / page) ? 1 : 0;
    bool done = false;
    if (threadIdx.x == 0) {
      atomic_ref<std::uint32_t, scope::system>(begun[blockIdx.x]).store(1, memory_order_release);
      done = i >= rounds && atomic_ref<std::uint32_t, scope::system>(*enough).load(memory_order_acquire) != 0;
    }
    if (__syncthreads_or(done) != 0) break;
  }
  atomic_ref<std::uint64_t>(*wrong).fetch_add(bad, memory_order_relaxed);
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

/// A file whose page p consists of bytes p.
std::string make_numbered(scratch_folder const& folder, unsigned pages) {
  auto const path = make_file(folder, "numbered", 0);
  int const fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  for (unsigned p = 0; p < pages; ++p) {
    std::vector<unsigned char> const bytes(page, static_cast<unsigned char>(p));
    REQUIRE(::pwrite(fd, bytes.data(), page, off_t(p * page)) == ssize_t(page));
  }
  ::close(fd);
  return path;
}

/// read_until_told under way.
class reading_kernel {
 public:
  reading_kernel(filesystem& fs, int fd, std::uint32_t pages, unsigned blocks, std::uint32_t rounds)
      : flags_(blocks + 1), out_(blocks * 3 * page), wrong_(zeroed<std::uint64_t>(1)), blocks_(blocks) {
    flags_.fill_zero();
    launch(read_until_told, blocks, 64, fs.ref(), fd, pages, rounds, seed(), flags_.data(), &flags_[blocks], out_.data(),
           wrong_.data());
  }
  void wait_until_begun() {
    wait_until(
        [&] {
          unsigned begun = 0;
          // Pairs with the release in the kernel.
          for (unsigned b = 0; b < blocks_; ++b) {
            begun += atomic_ref<std::uint32_t, scope::system>(flags_[b]).load(memory_order_acquire);
          }
          return begun == blocks_;
        },
        "every block has read once");
  }
  /// Lets the kernel end; returns how much was wrong.
  std::uint64_t finish() {
    atomic_ref<std::uint32_t, scope::system>(flags_[blocks_]).store(1, memory_order_release);
    this_thread_stream().synchronize();
    return contents(wrong_)[0];
  }

 private:
  pinned_buffer<std::uint32_t> flags_;
  buffer<std::byte> out_;
  buffer<std::uint64_t> wrong_;
  unsigned blocks_;
};

/// Holds the reads of the file's first `pages` pages, as long as it is in force.
struct page_hold {
  std::shared_ptr<daemon::gate> gate = std::make_shared<daemon::gate>();
  std::atomic<std::uint64_t> pages{0};

  fault_action operator()(std::uint64_t offset) const {
    return offset / page < pages ? fault_action::hold(gate) : fault_action::pass();
  }
};

std::shared_ptr<scripted_faults> faults_of(std::shared_ptr<page_hold> const& hold) {
  return read_faults([hold](std::uint64_t offset, std::uint64_t) { return (*hold)(offset); });
}

config impatient(std::uint64_t frames) {
  auto c = small_config(page, frames);
  c.rpc_timeout_ms = short_timeout_ms;
  c.staging_size = 64 << 10;  // 16 page channels
  return c;
}

}  // namespace

TEST_CASE("late answers: no answer gives -ETIMEDOUT, and an answer that comes in the next kernel harms nobody") {
  CAPTURE(seed());
  constexpr unsigned pages = 200, held = 10;
  scratch_folder folder;
  auto const path = make_numbered(folder, pages);
  auto const hold = std::make_shared<page_hold>();
  filesystem fs(impatient(8), faults_of(hold));
  int const fd = fs.open(path, O_RDONLY);
  hold->pages = held;
  read_batch late;
  for (unsigned p = 0; p < held; ++p) late.add_failing(fd, p * page, page, -ETIMEDOUT);
  late.run(fs.ref(), 5, 64);
  CHECK(late.problems() == "");
  auto const state = inspect(fs.ref());
  CHECK(state.problems == "");
  CHECK(state.quarantined == held);
  CHECK(fs.stats().timeouts == held);

  // The next kernel makes do with the other 6 channels; in its middle the late answers arrive.
  hold->pages = 0;
  reading_kernel next(fs, fd, pages, 6, 60);
  next.wait_until_begun();
  hold->gate->release();
  CHECK(next.finish() == 0);
  CHECK(inspect(fs.ref()).problems == "");

  // All channels have come back into use: as many reads as there are channels, at once, find one each.
  read_batch after;
  for (unsigned p = 0; p < pages; ++p) after.add(fd, path, p * page, page);
  std::string problems = "not run";
  for (int tries = 0; tries < 20 && problems != ""; ++tries) {  // a wait that was too short for a slow machine is no error here
    after.run(fs.ref(), 8, 64);
    problems = after.problems();
  }
  CHECK(problems == "");
}

TEST_CASE("late answers: even with every channel waiting for one, calls come back, and the channels do too") {
  constexpr unsigned pages = 64, channels = 16;
  scratch_folder folder;
  auto const path = make_numbered(folder, pages);
  auto const hold = std::make_shared<page_hold>();
  filesystem fs(impatient(64), faults_of(hold));
  int const fd = fs.open(path, O_RDONLY);
  hold->pages = pages;
  read_batch batch;
  for (unsigned p = 0; p < 20; ++p) batch.add_failing(fd, p * page, page, -ETIMEDOUT);
  batch.run(fs.ref(), 4, 64);
  CHECK(batch.problems() == "");
  CHECK(inspect(fs.ref()).quarantined == channels);
  CHECK(inspect(fs.ref()).problems == "");
  CHECK(hold->gate->arrivals() == channels);
  hold->gate->release();
  reading_kernel next(fs, fd, pages, 4, 20);
  CHECK(next.finish() == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("late answers: a page that several warps share is given up and comes back like any other") {
  constexpr std::uint64_t large = 65536;
  constexpr unsigned held = 3;
  scratch_folder folder;
  auto const path = make_file(folder, "file", 8 * large);
  auto const gate = std::make_shared<daemon::gate>();
  auto c = small_config(large, 8);
  c.rpc_timeout_ms = short_timeout_ms;
  c.staging_size = 8 * large;
  filesystem fs(c, read_faults([gate](std::uint64_t offset, std::uint64_t) {
                  return offset < held * large ? fault_action::hold(gate) : fault_action::pass();
                }));
  int const fd = fs.open(path, O_RDONLY);
  read_batch late;
  for (unsigned p = 0; p < held; ++p) late.add_failing(fd, std::int64_t(p * large), large, -ETIMEDOUT);
  late.run(fs.ref(), held, 128);
  CHECK(late.problems() == "");
  auto const state = inspect(fs.ref());
  CHECK(state.problems == "");
  CHECK(state.quarantined == held);
  gate->release();
  read_batch after;
  for (unsigned p = 0; p < 8; ++p) after.add(fd, path, std::int64_t(p * large), large, p);
  std::string problems = "not run";
  for (int tries = 0; tries < 20 && problems != ""; ++tries) {  // as above
    after.run(fs.ref(), 4, 128);
    problems = after.problems();
  }
  CHECK(problems == "");
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("late answers: an open that is answered too late gives -ETIMEDOUT, and the next one the descriptor") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 1000);
  auto const other = make_file(folder, "other", 1000, 2);
  auto const gate = std::make_shared<daemon::gate>();
  auto const faults = std::make_shared<scripted_faults>();
  faults->on_open = [&](std::string_view p) { return p == path ? fault_action::hold(gate) : fault_action::pass(); };
  filesystem fs(impatient(8), faults);
  CHECK(open_in_kernel(fs, path) == -ETIMEDOUT);
  auto const patiently = [&](std::string const& p) {
    int fd = -ETIMEDOUT;
    for (int tries = 0; tries < 20 && fd == -ETIMEDOUT; ++tries) fd = open_in_kernel(fs, p);
    return fd;
  };
  int const unconcerned = patiently(other);
  CHECK(unconcerned > 0);
  gate->release();
  int const fd = patiently(path);
  REQUIRE(fd > 0);
  CHECK(fd != unconcerned);
  file_status status{};
  CHECK(fs.stat(fd, status) == 0);
  CHECK(status.size == 1000);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("a daemon that stops under a running kernel ends its waits with -EIO, and those of the next kernel") {
  scratch_folder folder;
  for (std::uint64_t const size : {std::uint64_t{512}, std::uint64_t{65536}}) {
    auto const path = make_file(folder, std::to_string(size), 40 * size, size);
    auto const gate = std::make_shared<daemon::gate>();
    filesystem fs(small_config(size, 128), read_faults([gate, size](std::uint64_t offset, std::uint64_t) {
                    return offset < 4 * size ? fault_action::pass() : fault_action::hold(gate);
                  }));
    int const fd = fs.open(path, O_RDONLY);
    read_batch warm;
    warm.add(fd, path, 0, 4 * size);
    warm.run(fs.ref(), 1, 64);
    CHECK(warm.problems() == "");

    read_batch cold;
    for (unsigned p = 4; p < 40; ++p) cold.add_failing(fd, std::int64_t(p / 2 * 2 * size), size, -EIO);
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

TEST_CASE("frames: with all of them pinned gread gives -ENOMEM in bounded time, and works again when they are not") {
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
    fill.run(fs.ref(), 1, 32);
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
    again.run(fs.ref(), 1, 64);
    CHECK(again.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");
  }
}

TEST_CASE("frames: one that is not pinned suffices for any number of callers, however many pages each wants") {
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
      for (unsigned i = 0; i < 8; ++i) batch.add(fd, path, std::int64_t(i * 3 * size + i), 6 * size, i);
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

TEST_CASE("a host thread that allocates and frees device memory all the time does not stop a kernel that reads") {
  scratch_folder folder;
  constexpr unsigned pages = 250;
  auto const path = make_numbered(folder, pages);
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(path, O_RDONLY);
  std::atomic<bool> stop{false};
  std::atomic<unsigned> allocations{0};
  reading_kernel kernel(fs, fd, pages, 8, scaled(200, 50));
  kernel.wait_until_begun();
  // On a GPU the free waits for the kernel, and calls of other threads may queue behind it: the kernel must get its pages all the same.
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
