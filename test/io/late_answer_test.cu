// Answers that come after their caller has given up. They harm no other caller, and their channels
// and frames come back.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/numbered_reads.hpp>
#include <test/support/opens.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>

using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;
namespace cg = cooperative_groups;

namespace {

constexpr std::uint64_t page = numbered_page;

/// Holds the reads of the file's first `pages` pages, as long as it is in force.
struct page_hold {
  std::shared_ptr<testing::gate> gate = std::make_shared<testing::gate>();
  std::atomic<std::uint64_t> pages{0};

  fault_action operator()(std::uint64_t offset) const {
    return offset / page < pages ? fault_action::hold(gate) : fault_action::pass();
  }
};

std::shared_ptr<scripted_faults> faults_of(std::shared_ptr<page_hold> const& hold) {
  return read_faults([hold](std::uint64_t offset, std::uint64_t) { return (*hold)(offset); });
}

/// Holds opens of `path` by kernels, and lets others pass.
std::shared_ptr<scripted_faults> held_opens(std::string const& path,
                                            std::shared_ptr<testing::gate> const& gate) {
  auto faults = std::make_shared<scripted_faults>();
  faults->on_open = [path, gate](std::string_view p) {
    return p == path ? fault_action::hold(gate) : fault_action::pass();
  };
  return faults;
}

__global__ void sync_file(fs_ref fs, int fd, int* result) {
  io_context io(fs, cg::this_thread_block());
  int const got = gfsync(io, fd);
  if (threadIdx.x == 0) *result = got;
}
int sync_in_kernel(filesystem& fs, int fd) {
  pinned_buffer<int> result(1);
  launch(sync_file, 1, 32, fs.ref(), fd, result.data());
  this_thread_stream().synchronize();
  return result[0];
}

/// Two files, and a gate for opens of the first one.
struct held_open {
  scratch_folder folder;
  std::string path = make_file(folder, "file", 1000);
  std::string other = make_file(folder, "other", 1000, 2);
  std::shared_ptr<testing::gate> gate = std::make_shared<testing::gate>();
};

/// How many descriptors of this process are of the file.
unsigned descriptors_of(std::string const& path) {
  auto const target = std::filesystem::canonical(path);
  unsigned n = 0;
  std::error_code gone;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    n += std::filesystem::read_symlink(entry.path(), gone) == target ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE(
    "late answers: no answer gives -ETIMEDOUT, and an answer that comes in the next kernel harms "
    "nobody") {
  CAPTURE(seed());
  constexpr unsigned pages = 200, held = 10;
  scratch_folder folder;
  auto const path = make_numbered(folder, pages);
  auto const hold = std::make_shared<page_hold>();
  testing::filesystem fs(impatient(8), faults_of(hold));
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

  // All channels have come back into use: as many reads as there are channels, at once, find one
  // each.
  read_batch after;
  for (unsigned p = 0; p < pages; ++p) after.add(fd, path, p * page, page);
  CHECK(after.run_patiently(fs.ref(), 8, 64) == "");
}

TEST_CASE(
    "late answers: even with every channel waiting for one, calls come back, and the channels do "
    "too") {
  constexpr unsigned pages = 64, channels = 16;
  scratch_folder folder;
  auto const path = make_numbered(folder, pages);
  auto const hold = std::make_shared<page_hold>();
  testing::filesystem fs(impatient(64), faults_of(hold));
  int const fd = fs.open(path, O_RDONLY);
  hold->pages = pages;
  read_batch batch;
  for (unsigned p = 0; p < 20; ++p) batch.add_failing(fd, p * page, page, -ETIMEDOUT);
  batch.run(fs.ref(), 4, 64);
  CHECK(batch.problems() == "");
  CHECK(inspect(fs.ref()).quarantined == channels);
  CHECK(inspect(fs.ref()).problems == "");
  wait_until([&] { return hold->gate->arrivals() >= channels; }, "all requests at the gate");
  CHECK(hold->gate->arrivals() == channels);
  hold->gate->release();
  reading_kernel next(fs, fd, pages, 4, 20);
  CHECK(next.finish() == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "late answers: a page that several warps share is given up and comes back like any other") {
  constexpr std::uint64_t large = 65536;
  constexpr unsigned held = 3;
  scratch_folder folder;
  auto const path = make_file(folder, "file", 8 * large);
  auto const gate = std::make_shared<testing::gate>();
  auto c = small_config(large, 8);
  c.rpc_timeout_ms = impatient_ms;
  c.staging_size = 8 * large;
  testing::filesystem fs(c, read_faults([gate](std::uint64_t offset, std::uint64_t) {
                           return offset < held * large ? fault_action::hold(gate)
                                                        : fault_action::pass();
                         }));
  int const fd = fs.open(path, O_RDONLY);
  read_batch late;
  for (unsigned p = 0; p < held; ++p)
    late.add_failing(fd, std::int64_t(p * large), large, -ETIMEDOUT);
  late.run(fs.ref(), held, 128);
  CHECK(late.problems() == "");
  auto const state = inspect(fs.ref());
  CHECK(state.problems == "");
  CHECK(state.quarantined == held);
  gate->release();
  read_batch after;
  for (unsigned p = 0; p < 8; ++p) after.add(fd, path, std::int64_t(p * large), large, p);
  CHECK(after.run_patiently(fs.ref(), 4, 128) == "");
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "late answers: an open that is answered too late gives -ETIMEDOUT, and the next one the "
    "descriptor") {
  held_open const files;
  auto const &path = files.path, &other = files.other;
  testing::filesystem fs(impatient(8), held_opens(path, files.gate));
  CHECK(open_in_kernel(fs, path) == -ETIMEDOUT);
  int const unconcerned = open_patiently(fs, other);
  CHECK(unconcerned > 0);
  files.gate->release();
  int const fd = open_patiently(fs, path);
  REQUIRE(fd > 0);
  CHECK(fd != unconcerned);
  file_status status{};
  CHECK(fs.stat(fd, status) == 0);
  CHECK(status.size == 1000);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("late answers: opens that hang keep no other caller from the free channels") {
  held_open const files;
  auto const &path = files.path, &other = files.other;
  testing::filesystem fs(impatient(8), held_opens(path, files.gate));
  constexpr unsigned hanging = 12;  // more than there are groups of 32 channels
  for (unsigned i = 0; i < hanging; ++i) CHECK(open_in_kernel(fs, path) == -ETIMEDOUT);
  CHECK(inspect(fs.ref()).quarantined == hanging);
  CHECK(open_patiently(fs, other) > 0);
  files.gate->release();
  CHECK(open_patiently(fs, path) > 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("late answers: a close and a sync that no request can be sent for change nothing") {
  held_open const files;
  auto const &path = files.path, &other = files.other;
  testing::filesystem fs(impatient(8), held_opens(path, files.gate));
  int const fd = fs.open(other, O_RDWR);
  REQUIRE(fd > 0);
  auto const all = fs.ref().channels.control.count;
  for (unsigned tries = 0; tries < 20 && inspect(fs.ref()).quarantined < all; ++tries) {
    auto const opened = open_in_kernel(fs, std::vector<std::string>(all, path), O_RDONLY, 32);
    CHECK(std::ranges::count(opened, -ETIMEDOUT) == all);
  }
  CHECK(inspect(fs.ref()).quarantined == all);
  auto const before = fs.stats().timeouts;
  CHECK(sync_in_kernel(fs, fd) == -EAGAIN);
  CHECK(close_in_kernel(fs, {fd}) == std::vector{-EAGAIN});
  CHECK(fs.stats().timeouts == before + 2);
  files.gate->release();
  read_batch after;
  after.add(fd, other, 0, 1000, 2);
  CHECK(after.run_patiently(fs.ref(), 1, 64) == "");
  int closed = -EAGAIN;
  for (unsigned tries = 0; tries < 20 && closed == -EAGAIN; ++tries)
    closed = close_in_kernel(fs, {fd})[0];
  CHECK((closed == 0 || closed == -ETIMEDOUT));
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("late answers: a descriptor that nobody waited for is closed, whoever calls next") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 1000);
  std::vector<std::string> paths(7, make_file(folder, "other", 1000, 2));
  paths.push_back(path);  // opened by the last of eight blocks
  for (int const flags : {O_RDWR, O_RDWR | O_TRUNC, O_RDONLY}) {
    CAPTURE(flags);
    auto const gate = std::make_shared<testing::gate>();
    auto settings = impatient(8);
    settings.host_threads = 1;
    testing::filesystem fs(settings, held_opens(path, gate));
    CHECK(open_in_kernel(fs, paths, flags, 8).back() == -ETIMEDOUT);
    gate->release();
    auto const opened = [&] {
      return fs.stats().times[std::size_t(host_request::open)].requests() == 8;
    };
    wait_until(opened, "the late open");
    wait_until([&] { return descriptors_of(path) == 0; }, "the end of its descriptor");
    CHECK(std::filesystem::file_size(path) == 1000);
    int const fd = fs.open(path, O_RDWR | O_TRUNC | O_EXCL | O_CREAT);
    CHECK(fd == -EEXIST);  // as it is open nowhere
    CHECK(inspect(fs.ref()).problems == "");
  }
}
