// Bytes that the system has lost after it took them: which calls say so. Linux tells it once.
// Errors of the system that mean something else as results of our calls.
#include <host-daemon/base/request_recorder.hpp>
#include <host-daemon/base/trace_file.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <test/daemon/forwarding_file.hpp>
#include <test/daemon/forwarding_storage.hpp>
#include <test/daemon/harness.hpp>
#include <test/daemon/many_buffers.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/uio.h>

using gpufs::daemon::file_registry;
using gpufs::daemon::request_recorder;
using gpufs::daemon::trace_file;
using gpufs::daemon::write_back;
using gpufs::test::many_buffers;
using gpufs::test::scratch_folder;
using gpufs::test::wait_until;

namespace {

// Ordinary files. `sync_answer` and `end_answer` are given once instead of what the file says, and
// `write_answer` as often as `refusals` says. `named` is called when a trace asks for the file's
// name.
struct lossy_storage final : gpufs::test::forwarding_storage {
  struct file final : gpufs::test::forwarding_file {
    lossy_storage& storage;
    file(std::shared_ptr<stored_file const> f, lossy_storage& s)
        : forwarding_file{std::move(f)}, storage{s} {}
    std::int64_t write(std::span<::iovec const> parts,
                       std::uint64_t offset) const noexcept override {
      if (storage.refusals == 0) return below->write(parts, offset);
      --storage.refusals;
      return storage.write_answer;
    }
    int sync() const noexcept override {
      ++storage.syncs;
      if (storage.syncing) storage.syncing();
      int const answer = storage.sync_answer.exchange(0);
      return answer != 0 ? answer : below->sync();
    }
    int end_writes() const noexcept override {
      int const answer = storage.end_answer.exchange(0);
      return answer != 0 ? answer : below->end_writes();
    }
    std::string_view traced_name() const noexcept override {
      if (storage.named) storage.named();
      return "\"file\"";
    }
  };
  std::atomic<int> sync_answer{0}, end_answer{0}, write_answer{0};
  std::atomic<unsigned> refusals{0};
  std::atomic<unsigned> syncs{0};
  std::function<void()> syncing, named;

  std::shared_ptr<gpufs::daemon::stored_file const> wrap(
      std::shared_ptr<gpufs::daemon::stored_file const> f) override {
    return std::make_shared<file const>(std::move(f), *this);
  }
};

// Write-back of such files, with a trace.
struct lossy_files {
  scratch_folder folder;
  std::string no_trace;
  many_buffers memory;
  std::shared_ptr<lossy_storage> const storage = std::make_shared<lossy_storage>();
  request_recorder requests{trace_file::open(folder / "trace", no_trace)};
  write_back writes{memory.region.writes, nullptr, &requests};
  file_registry files{memory.region, {.storage = storage}, &writes};

  [[nodiscard]] std::int32_t open(int flags = O_RDWR) {
    auto const fd = files.open(folder / "file", flags | O_CREAT, 0644);
    REQUIRE(fd > 0);
    return fd;
  }
};

}  // namespace

TEST_CASE("write loss: of two syncs at once both say that bytes are lost") {
  lossy_files t;
  REQUIRE(t.no_trace.empty());
  auto const fd = t.open();
  std::atomic<bool> fails{false}, other_is_over{false};
  // The first sync has its error, and records it. The other one is begun then. It may wait for the
  // first, so the first goes on after a while.
  t.storage->named = [&] {
    if (fails.exchange(true)) return;
    fails.notify_all();
    auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds{50};
    while (!other_is_over && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  };
  t.storage->sync_answer = -EIO;
  std::thread first{[&] { CHECK(t.files.sync(fd) == -EIO); }};
  fails.wait(false);
  CHECK(t.files.sync(fd) == -EIO);
  other_is_over = true;
  first.join();
  CHECK(t.files.sync(fd) == -EIO);
  CHECK(t.files.close(fd) == 0);
}

TEST_CASE("write loss: syncs that come during another one share a second one") {
  constexpr unsigned others = 6;
  lossy_files t;
  auto const fd = t.open();
  std::atomic<unsigned> begun{0};
  std::atomic<bool> go_on{false};
  t.storage->syncing = [&] {
    if (t.storage->syncs == 1) go_on.wait(false);
  };
  auto const sync = [&] {
    ++begun;
    CHECK(t.files.sync(fd) == 0);
  };
  auto const shared = [&] {
    begun = t.storage->syncs = 0;
    go_on = false;
    std::vector<std::thread> threads;
    threads.emplace_back(sync);
    wait_until([&] { return t.storage->syncs == 1; }, "the first sync");
    t.memory.dirty(0, t.memory.version(fd), 0);
    for (unsigned i = 0; i < others; ++i) threads.emplace_back(sync);
    wait_until([&] { return begun == 1 + others; }, "the others");
    go_on = true;
    go_on.notify_all();
    for (auto& thread : threads) thread.join();
    // The first one may lack the bytes that came during it.
    CHECK(t.storage->syncs >= 2);
    return t.storage->syncs < 1 + others;
  };
  wait_until(shared, "others that came before the first one was over");
  CHECK(t.files.close(fd) == 0);
}

TEST_CASE("write loss: what the end of a writer says of lost bytes is said by every later sync") {
  lossy_files t;
  auto const fd = t.open(), other = t.open(O_WRONLY);
  t.storage->end_answer = -EIO;
  CHECK(t.files.close(other) == -EIO);
  CHECK(t.files.sync(fd) == -EIO);
  CHECK(t.files.sync(fd) == -EIO);
  CHECK(t.files.close(fd) == 0);
  auto const again = t.open();
  CHECK(t.files.sync(again) == 0);
  CHECK(t.files.close(again) == 0);
}

// As results of calls, -ETIMEDOUT and -EAGAIN say that nothing was reported.
TEST_CASE("write loss: a server's ETIMEDOUT or EAGAIN is reported as EIO") {
  for (int const error : {ETIMEDOUT, EAGAIN}) {
    CAPTURE(error);
    lossy_files t;
    auto const fd = t.open();
    t.memory.dirty(0, t.memory.version(fd), 0);
    t.storage->write_answer = -error;
    t.storage->refusals = ~0u;
    CHECK(t.writes.flush(nullptr) == -EIO);
    CHECK(t.files.sync(fd) == -EIO);
    CHECK(t.files.sync(fd) == -EIO);
    auto const refused = [](gpufs::daemon::stored_file const&) { return true; };
    CHECK(t.files.write(fd, refused) == -EIO);
    t.storage->refusals = 0;
    CHECK(t.files.sync(fd) == -EIO);  // of the write
    CHECK(t.files.sync(fd) == 0);
    t.storage->end_answer = -error;
    CHECK(t.files.close(fd) == -EIO);
    auto const again = t.open();
    t.storage->sync_answer = -error;
    CHECK(t.files.sync(again) == -EIO);
    CHECK(t.files.sync(again) == -EIO);
    CHECK(t.files.close(again) == 0);
    auto const reader = t.open(O_RDONLY);
    t.storage->sync_answer = -error;
    CHECK(t.files.sync(reader) == -EIO);
    CHECK(t.files.close(reader) == 0);
  }
}

TEST_CASE("write loss: a write that signals interrupt hundreds of times is made again") {
  lossy_files t;
  auto const fd = t.open();
  t.memory.dirty(0, t.memory.version(fd), 0);
  t.storage->write_answer = -EINTR;
  t.storage->refusals = 900;
  CHECK(t.files.sync(fd) == 0);
  CHECK(gpufs::test::text_of(t.folder / "file") == "x");
  CHECK(t.files.close(fd) == 0);
}
