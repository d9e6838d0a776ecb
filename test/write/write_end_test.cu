// How programs end while pages are dirty: by exit, by an exception, by a signal, by a kernel that
// fails. What gwrite returned for gets into the file.
#include <gpufs/gpufs.hpp>

#include <test/support/child.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/records.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/wait.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t dirty_bytes = 4 * page + 9;
constexpr std::uint64_t kept_bytes = 3 * page;  // where not all can be written

std::string const lost_prefix = "gpufs: lost, could not be written: ";

/// The message about the rest, from any of the ways to end.
std::vector<std::string> lost_pages(std::string const& path) {
  return {path + ": bytes 12288..16383", path + ": bytes 16384..16392"};
}

/// Until the program ends no page can be written. Only the end of the program tries failed pages
/// again. Then bytes from `room` on fail for good.
struct ending_faults {
  std::atomic<bool> ends{false};
  std::uint64_t room = ~0ull;

  std::shared_ptr<scripted_faults> injector() {
    auto faults = std::make_shared<scripted_faults>();
    faults->on_write = [this](std::uint64_t offset, std::uint64_t length) {
      if (!ends || offset >= room) return fault_action::fail(ENOSPC);
      return offset + length > room ? fault_action::shorten(room - offset) : fault_action::pass();
    };
    return faults;
  }
};
ending_faults faults;

bool write_dirty(filesystem& fs) {
  int const fd = fs.open(given_path(), O_RDWR | O_CREAT);
  op_batch batch;
  batch.write(0, fd, 0, some_bytes(3, 0, dirty_bytes));
  batch.run(fs.ref(), 1, 64);
  // After a failure that was reported no thread tries again until the end.
  return batch.result(0) == std::int64_t(dirty_bytes) &&
         pread_bytes(given_path(), 0, ~0ull).empty() && fs.sync(fd) == -ENOSPC;
}

__global__ void write_and_trap(fs_ref fs, int fd, std::byte const* bytes, std::uint64_t length,
                               std::int64_t* result) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  ssize_t const n = gwrite(io, fd, bytes, length, 0);
  if (threadIdx.x != 0) return;
  atomic_ref<std::int64_t, scope::system>(*result).store(n, memory_order_release);
  __trap();
}

}  // namespace

TEST_CASE("child: exit") {
  if (!is_part("exit")) return;
  // Static, for the leak check: nobody destroys it, and std::exit() leaves no frame that holds it.
  static auto* const fs = new testing::filesystem(small_config(page, 64), faults.injector());
  // Handlers run in reverse order: this one before the filesystem's own.
  std::atexit([] { faults.ends = true; });
  std::exit(write_dirty(*fs) ? 0 : 1);
}

TEST_CASE("a program that exits without destroying its filesystem has written its dirty pages") {
  scratch_folder folder;
  auto const path = folder / "file";
  child other("exit", path);
  CHECK(other.succeeds());
  CHECK(pread_bytes(path, 0, ~0ull) == some_bytes(3, 0, dirty_bytes));
}

TEST_CASE("child: exit beside a destructor") {
  if (!is_part("exit beside a destructor")) return;
  // Registered first, so it runs behind the filesystem's own handler. What the file has by then
  // counts, and not what another thread still writes.
  std::atexit([] { std::_Exit(0); });
  enum phase { full, held, slow };
  static std::atomic<phase> now{full};
  static std::atomic<bool> entered{false};
  auto injected = std::make_shared<scripted_faults>();
  injected->on_write = [](std::uint64_t, std::uint64_t) {
    if (now == full) return fault_action::fail(ENOSPC);
    entered = true;
    entered.notify_all();
    now.wait(held);
    return fault_action::shorten(8);  // many calls
  };
  auto fs = std::make_unique<testing::filesystem>(small_config(page, 64), injected);
  std::atexit([] {
    now = slow;
    now.notify_all();
  });
  if (!write_dirty(*fs)) std::_Exit(1);
  now = held;
  std::thread([&] { fs.reset(); }).detach();
  entered.wait(false);
  std::exit(0);
}

TEST_CASE(
    "a program that exits while another thread destroys the filesystem has written its pages") {
  scratch_folder folder;
  auto const path = folder / "file";
  child other("exit beside a destructor", path);
  CHECK(other.succeeds());
  CHECK(pread_bytes(path, 0, ~0ull) == some_bytes(3, 0, dirty_bytes));
}

TEST_CASE("child: exception") {
  if (!is_part("exception")) return;
  try {
    testing::filesystem fs(small_config(page, 64), faults.injector());
    struct last {
      ~last() { faults.ends = true; }
    } const before_fs;
    if (write_dirty(fs)) throw std::runtime_error("an error of the program");
  } catch (std::runtime_error const&) {
    std::_Exit(0);
  }
  std::_Exit(1);
}

TEST_CASE("an exception that unwinds the filesystem's scope writes its dirty pages") {
  scratch_folder folder;
  auto const path = folder / "file";
  child other("exception", path);
  CHECK(other.succeeds());
  CHECK(pread_bytes(path, 0, ~0ull) == some_bytes(3, 0, dirty_bytes));
}

TEST_CASE("child: uncaught") {
  if (!is_part("uncaught")) return;
  static std::terminate_handler drain = nullptr;
  testing::filesystem fs(small_config(page, 64), faults.injector());
  faults.room = kept_bytes;
  REQUIRE(write_dirty(fs));
  drain = std::set_terminate([] {
    faults.ends = true;
    drain();
  });
  std::thread([] { throw std::runtime_error("an error that nobody catches"); }).join();
}

TEST_CASE(
    "an exception that nobody catches ends the program after its dirty pages are written, or "
    "listed") {
  scratch_folder folder;
  auto const path = folder / "file";
  child other("uncaught", path, {.output_to = folder / "output"});
  int const status = other.wait();
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  CHECK(pread_bytes(path, 0, ~0ull) == some_bytes(3, 0, kept_bytes));
  auto const output = text_of(folder / "output");
  for (auto const& line : lost_pages(path))
    CHECK(output.find(lost_prefix + line + '\n') != std::string::npos);
  CHECK(output.find("an error that nobody catches") !=
        std::string::npos);  // the handler before ours has run, too
}

TEST_CASE("child: kernel fails") {
  if (!is_part("kernel fails")) return;
  {
    testing::filesystem fs(small_config(page, 64), faults.injector());
    faults.room = kept_bytes;
    int const fd = fs.open(given_path(), O_RDWR | O_CREAT);
    auto const bytes = some_bytes(3, 0, dirty_bytes);
    buffer<std::byte> on_device(dirty_bytes);
    on_device.copy_from_host(bytes.data(), dirty_bytes);
    pinned_buffer<std::int64_t> result(1);
    result.fill_zero();
    launch(write_and_trap, 1, 64, fs.ref(), fd, on_device.data(), dirty_bytes, result.data());
    CHECK_THROWS_AS(this_thread_stream().synchronize(), device_error);
    CHECK(result[0] == std::int64_t(dirty_bytes));
    CHECK(pread_bytes(given_path(), 0, ~0ull).empty());
    // The host still knows what is dirty, and can write it.
    CHECK(fs.unwritten().size() == dirty_bytes / page + 1);
    CHECK(fs.sync(fd) == -ENOSPC);  // no thread tries again before the end
    faults.ends = true;
    CHECK(fs.sync(fd) == -ENOSPC);
    auto left = fs.unwritten();
    std::ranges::sort(left);
    CHECK(left == lost_pages(given_path()));
  }
}

TEST_CASE(
    "after a kernel that fails what gwrite returned for is written, and what cannot be is listed "
    "by file and range") {
  scratch_folder folder;
  auto const path = folder / "file";
  child other("kernel fails", path, {.output_to = folder / "output"});
  bool const succeeded = other.succeeds();
  auto const output = text_of(folder / "output");
  INFO(output);
  CHECK(succeeded);
  CHECK(pread_bytes(path, 0, ~0ull) == some_bytes(3, 0, kept_bytes));
  for (auto const& line : lost_pages(path))
    CHECK(output.find(lost_prefix + line + '\n') != std::string::npos);
}

TEST_CASE("child: signal") {
  if (!is_part("signal")) return;
  held_records records(given_path());
  records.wait_until_dirty();
  ::sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  int which = 0;
  ::sigwait(&set, &which);
  records.drain();
  std::_Exit(0);  // nothing else writes anything
}

TEST_CASE(
    "a program that calls fs.sync when SIGTERM comes, while its kernel goes on, loses nothing that "
    "gwrite returned for") {
  scratch_folder folder;
  auto const path = folder / "file";
  child other("signal", path, {.signals_wait = true});
  wait_until([&] { return held_records::dirty(path) || !other.running(); }, "dirty pages");
  CHECK(pread_bytes(path, 0, ~0ull).empty());
  other.kill(SIGTERM);
  CHECK(other.succeeds());
  CHECK(held_records::problems(path) == "");
}
