// Opens beside closes, truncations and gwrites of the same file: what they see, and who waits.
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <test/daemon/forwarding_storage.hpp>
#include <test/daemon/harness.hpp>
#include <test/daemon/many_buffers.hpp>
#include <test/support/faults.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>

using gpufs::daemon::file_registry;
using gpufs::daemon::write_back;
using gpufs::test::many_buffers;
using gpufs::test::scratch_folder;
using gpufs::test::scripted_faults;
using gpufs::test::wait_until;
using gpufs::testing::fault_action;
namespace rpc = gpufs::rpc;

namespace {

constexpr std::uint64_t page_bytes = 1 << many_buffers::page_shift;

// `between` is called, once, when an open has looked at its file and does not have it yet.
struct files_and_buffers {
  scratch_folder folder;
  many_buffers memory;
  std::function<void()> between;
  scripted_faults faults;
  write_back writes{memory.region.writes, &faults};
  file_registry files{memory.region, {.now_ns = [this] { return look_seen(); }}, &writes};

  std::int64_t look_seen() {
    if (auto const call = std::exchange(between, nullptr)) call();
    return 1'000'000'000'000;
  }
  [[nodiscard]] std::int32_t open(int flags) {
    auto const fd = files.open(folder / "file", flags | O_CREAT, 0644);
    REQUIRE(fd > 0);
    return fd;
  }
  [[nodiscard]] std::uint64_t size(std::int32_t fd) const {
    return memory.region.open_files[rpc::descriptor_index(fd)].size;
  }
  void dirty(std::int32_t fd, std::uint64_t page) const {
    memory.dirty(page, memory.version(fd), page, page_bytes);
  }
};

}  // namespace

TEST_CASE("open races: an open sees what the last close of a writer wrote behind its look") {
  for (int const flags : {O_RDONLY, O_WRONLY | O_APPEND}) {
    for (bool const has_reader : {false, true}) {
      CAPTURE(flags);
      CAPTURE(has_reader);
      files_and_buffers f;
      auto const writer = f.open(O_WRONLY);
      auto const reader = has_reader ? f.open(O_RDONLY) : 0;
      f.dirty(writer, 0);
      f.dirty(writer, 1);
      f.between = [&] { CHECK(f.files.close(writer) == 0); };
      auto const fd = f.open(flags);
      CHECK(f.size(fd) == 2 * page_bytes);
      CHECK(f.files.close(fd) == 0);
      if (has_reader) CHECK(f.files.close(reader) == 0);
    }
  }
}

TEST_CASE("open races: an open sees pages that stayed dirty and were written behind its look") {
  files_and_buffers f;
  auto const writer = f.open(O_WRONLY);
  f.dirty(writer, 0);
  bool is_full = true;
  f.faults.on_write = [&](std::uint64_t, std::uint64_t) {
    return is_full ? fault_action::fail(ENOSPC) : fault_action::pass();
  };
  CHECK(f.files.close(writer) == -ENOSPC);
  CHECK(f.files.open_count() == 0);
  is_full = false;
  f.between = [&] { CHECK(f.files.flush_all() == 0); };
  CHECK(f.size(f.open(O_RDONLY)) == page_bytes);
}

TEST_CASE("open races: O_TRUNC drops kept pages for an open that waits for it, too") {
  for (int round = 0; round < 50; ++round) {
    files_and_buffers f;
    f.faults.on_write = [](std::uint64_t, std::uint64_t) { return fault_action::fail(ENOSPC); };
    auto const writer = f.open(O_WRONLY);
    f.dirty(writer, 0);
    CHECK(f.files.close(writer) == -ENOSPC);  // the page is kept
    auto const path = f.folder / "file";
    std::thread other;
    std::atomic<bool> looks{false};
    auto const cutting = f.files.open(path, O_RDWR | O_TRUNC, 0, [&] {
      f.between = [&] { looks = true; };
      other = std::thread([&] {
        auto const fd = f.files.open(path, O_RDWR, 0);
        CHECK(f.size(fd) == 0);
        CHECK(f.files.close(fd) == 0);
      });
      while (!looks) std::this_thread::yield();
      for (int i = 0; i < round * 10; ++i) std::this_thread::yield();
      return true;
    });
    other.join();
    CHECK(f.size(cutting) == 0);
    CHECK(f.files.close(cutting) == 0);
  }
}

TEST_CASE("open races: O_TRUNC of an open for which there is no place changes nothing") {
  scratch_folder const folder;
  many_buffers memory;
  auto const path = gpufs::test::make_file(folder, "file", 5000, 1);
  write_back writes{memory.region.writes, nullptr};
  file_registry files{memory.region, {}, &writes};
  std::int32_t last = 0;
  for (std::uint64_t i = 0; last != -ENFILE; ++i) {
    REQUIRE(i < 100'000);
    last = files.open(folder / std::to_string(i), O_RDONLY | O_CREAT, 0644);
  }
  CHECK(files.open(path, O_RDWR | O_TRUNC, 0) == -ENFILE);
  CHECK(gpufs::test::pread_bytes(path, 0, ~0ull).size() == 5000);
}

TEST_CASE(
    "open races: O_TRUNC without a write index changes nothing, though pages of it are kept") {
  files_and_buffers f;
  f.faults.on_write = [](std::uint64_t, std::uint64_t) { return fault_action::fail(ENOSPC); };
  std::uint64_t page = 0;
  auto const keep = [&](std::string const& path, int flags) {
    auto const fd = f.files.open(path, flags | O_CREAT, 0644);
    if (fd < 0) return fd;
    f.dirty(fd, page++);
    return f.files.close(fd);
  };
  auto const path = gpufs::test::make_file(f.folder, "file", 5000, 1);
  CHECK(keep(path, int(rpc::open_write_once)) == -ENOSPC);  // its index goes back
  std::int32_t last = -ENOSPC;
  for (std::uint64_t i = 0; last == -ENOSPC; ++i) {
    REQUIRE(i < 10'000);
    last = keep(f.folder / std::to_string(i), O_WRONLY);
  }
  CHECK(last == -ENFILE);
  CHECK(f.files.open(path, O_WRONLY | O_TRUNC, 0) == -ENFILE);
  CHECK(gpufs::test::pread_bytes(path, 0, ~0ull).size() == 5000);
  // A file whose kept pages have an index gives it back with them.
  CHECK(f.files.open(f.folder / "0", O_WRONLY | O_TRUNC, 0) > 0);
}

TEST_CASE("open races: no open of a file ends while another one truncates it") {
  files_and_buffers f;
  auto const before = f.open(O_WRONLY);
  f.dirty(before, 0);
  CHECK(f.files.close(before) == 0);
  auto const path = f.folder / "file";
  std::thread other;
  std::atomic<std::int32_t> opened{0};
  std::atomic<bool> looked{false};
  auto const cutting = f.files.open(path, O_RDWR | O_TRUNC, 0, [&] {
    // Callers that must not wait are told so, and other files are open at once.
    CHECK(f.files.try_open(path, O_RDONLY) == 0);
    CHECK(f.files.try_open(f.folder / "other", O_RDWR | O_CREAT, 0644) > 0);
    f.between = [&] { looked = true; };
    other = std::thread{[&] { opened = f.files.open(path, O_WRONLY); }};
    wait_until([&] { return looked.load(); }, "a look of the other open");
    CHECK(opened == 0);
    return true;
  });
  other.join();
  REQUIRE(cutting > 0);
  REQUIRE(opened > 0);
  CHECK(f.size(cutting) == 0);
  CHECK(f.size(opened) == 0);
  f.dirty(opened, 0);
  CHECK(f.files.sync(opened) == 0);
  // Now it is in use, so O_TRUNC has no effect.
  CHECK(f.files.open(path, O_RDWR | O_TRUNC) == cutting);
  rpc::file_status status{};
  CHECK(f.files.stat(cutting, status) == 0);
  CHECK(status.size == page_bytes);
}

TEST_CASE("open races: a file system that hangs at an open with O_TRUNC stops no other file") {
  struct slow_storage final : gpufs::test::forwarding_storage {
    std::atomic<bool> hangs{true}, has_begun{false};
    gpufs::daemon::opened_file open(std::string const& path, int flags, unsigned mode) override {
      if (path.ends_with("slow")) {
        has_begun = true;
        wait_until([&] { return !hangs; }, "end of the hang");
      }
      return forwarding_storage::open(path, flags, mode);
    }
  };
  scratch_folder folder;
  many_buffers memory;
  scripted_faults faults;
  write_back writes{memory.region.writes, &faults};
  auto const storage = std::make_shared<slow_storage>();
  file_registry files{memory.region, {.storage = storage}, &writes};
  std::thread slow(
      [&] { CHECK(files.open(folder / "slow", O_RDWR | O_CREAT | O_TRUNC, 0644) > 0); });
  wait_until([&] { return storage->has_begun.load(); }, "begin of the open");
  CHECK(files.open(folder / "other", O_RDWR | O_CREAT | O_TRUNC, 0644) > 0);
  CHECK(storage->hangs);
  storage->hangs = false;
  slow.join();
}

TEST_CASE("open races: opens that cut, or make a file, say that they would wait") {
  files_and_buffers f;
  auto const path = f.folder / "file";
  CHECK(f.files.try_open(path, O_RDWR | O_CREAT | O_EXCL, 0644) == 0);
  CHECK(f.files.try_open(path, O_RDWR) == -ENOENT);
  auto const fd = f.open(O_RDWR);
  CHECK(f.files.try_open(path, O_RDWR | O_TRUNC) == 0);
  CHECK(f.files.try_open(path, O_RDWR) == fd);
  CHECK(f.files.try_open(path, O_RDONLY | O_TRUNC) == -EINVAL);
}

TEST_CASE("open races: a status for the device waits for no gwrite") {
  files_and_buffers f;
  auto const fd = f.open(O_RDWR);
  f.dirty(fd, 3);
  std::atomic_ref{f.memory.region.writes.posted[3]}.fetch_or(rpc::posted_busy);
  rpc::file_status status{};
  CHECK(f.files.try_stat(fd, status) == 0);
  CHECK(status.size == 0);  // the device knows better
  CHECK(f.files.try_stat(fd + 1, status) == -EBADF);
  // Not of O_GWRONCE.
  auto const once = f.open(int(rpc::open_write_once));
  CHECK(f.files.try_stat(once, status) == 1);
  CHECK(f.files.try_stat(fd, status) == 1);
  std::atomic_ref{f.memory.region.writes.posted[3]}.fetch_and(~std::uint64_t{rpc::posted_busy});
  CHECK(f.files.stat(fd, status) == 0);
  CHECK(status.size == 4 * page_bytes);
}
