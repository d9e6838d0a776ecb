// Reads through the daemon, with each I/O engine: alignment, end of file, large offsets, closes.
#include <host-daemon/serve/server.hpp>

#include <test/daemon/daemons.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <mutex>
#include <random>

using namespace gpufs::daemon;
using gpufs::io_backend;
using gpufs::test::caller;
using gpufs::test::running_daemon;
using gpufs::test::scratch_folder;
using gpufs::test::wait_until;
using gpufs::test::with_each_engine;
using gpufs::test::write_range;
using gpufs::test::wrong_bytes;
namespace rpc = gpufs::rpc;

TEST_CASE(
    "daemon: a read at any offset and length gives the file's bytes, short at its end, none "
    "beyond") {
  scratch_folder folder;
  std::uint64_t const size = 100'003;
  write_range(folder / "a", 0, size);
  with_each_engine([&](io_backend backend) {
    running_daemon s{backend};
    auto& c = s.callers[3];
    auto const fd = c.open(folder / "a");
    REQUIRE(fd > 0);
    std::mt19937_64 random{gpufs::test::seed()};
    for (int i = 0; i < 400; ++i) {
      std::uint64_t const offset = i == 0   ? 0
                                   : i == 1 ? size
                                   : i == 2 ? size - 1
                                            : random() % (size + 5000);
      std::uint64_t const length = i % 7 == 0 ? c.capacity() : random() % 20'000;
      std::uint64_t const expected = offset >= size ? 0 : std::min(length, size - offset);
      CAPTURE(offset);
      CAPTURE(length);
      std::memset(c.data(), 0xee, c.capacity());
      REQUIRE(c.read(fd, offset, length) == std::int32_t(expected));
      REQUIRE(wrong_bytes(c.data(), offset, expected) == 0);
      if (expected < c.capacity()) REQUIRE(c.data()[expected] == std::byte{0xee});
    }
    CHECK(c.close(fd) == 0);
    CHECK(c.read(fd, 0, 1) == -EBADF);
  });
}

TEST_CASE("daemon: an empty file reads as its end") {
  scratch_folder folder;
  write_range(folder / "empty", 0, 0);
  with_each_engine([&](io_backend backend) {
    running_daemon s{backend};
    auto const fd = s.callers[0].open(folder / "empty");
    CHECK(s.callers[0].read(fd, 0, 4096) == 0);
    CHECK(s.callers[0].read(fd, 1ull << 40, 4096) == 0);
  });
}

TEST_CASE("daemon: zeros behind the end of a file are not counted as bytes of it") {
  scratch_folder folder;
  write_range(folder / "a", 0, 5000);
  with_each_engine([&](io_backend backend) {
    running_daemon s{backend};
    auto& c = s.callers[0];
    auto const fd = c.open(folder / "a");
    REQUIRE(fd > 0);
    std::memset(c.data(), 0xee, c.capacity());
    CHECK(c.call({.op = rpc::operation::read,
                  .flags = rpc::read_zeros_beyond_end,
                  .file = fd,
                  .offset = 1000,
                  .length = 8192,
                  .staging = c.staging()}) == 8192);
    CHECK(wrong_bytes(c.data(), 1000, 4000) == 0);
    CHECK(std::all_of(c.data() + 4000, c.data() + 8192,
                      [](std::byte b) { return b == std::byte{}; }));
    CHECK(s.server.statistics().bytes_read == 4000);
  });
}

TEST_CASE("daemon: sparse files are read right beyond 4 GiB") {
  scratch_folder folder;
  auto const far = (std::uint64_t(5) << 30) + 12345;
  write_range(folder / "a", far, 10'000);
  with_each_engine([&](io_backend backend) {
    running_daemon s{backend};
    auto& c = s.callers[0];
    auto const fd = c.open(folder / "a");
    REQUIRE(fd > 0);
    CHECK(s.memory.size(fd) == far + 10'000);
    CHECK(c.read(fd, far + 5000, 20'000) == 5000);
    CHECK(wrong_bytes(c.data(), far + 5000, 5000) == 0);
    CHECK(c.read(fd, far - 4096, 8192) == 8192);
    CHECK(std::all_of(c.data(), c.data() + 4096, [](std::byte b) { return b == std::byte{0}; }));
    CHECK(wrong_bytes(c.data() + 4096, far, 4096) == 0);
    CHECK(c.read(fd, far & 0xffffffff, 4096) == 4096);
    CHECK(c.data()[0] == std::byte{0});
  });
}

TEST_CASE("daemon: many callers, few slots: each gets the bytes it asked for") {
  scratch_folder folder;
  std::uint64_t const size = 1 << 20;
  write_range(folder / "a", 0, size);
  write_range(folder / "b", 0, size / 2);
  with_each_engine([&](io_backend backend) {
    running_daemon s{backend, nullptr, 3};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < s.callers.size(); ++i) {
      threads.emplace_back([&, i] {
        std::mt19937_64 random{gpufs::test::seed() + i};
        auto& c = s.callers[i];
        for (int n = 0; n < 40; ++n) {
          bool const a = random() % 2;
          auto const fd = c.open(folder / (a ? "a" : "b"));
          for (int k = 0; k < 3; ++k) {
            auto const offset = random() % (size / 2 - 70'000), length = 1 + random() % 65'536;
            if (c.read(fd, offset, length) != std::int32_t(length) ||
                wrong_bytes(c.data(), offset, length) != 0)
              ++wrong;
          }
          if (c.close(fd) != 0) ++wrong;
        }
      });
    }
    for (auto& t : threads) t.join();
    CHECK(wrong == 0);
    CHECK(s.server.files().open_count() == 0);
    CHECK(s.server.statistics().requests == s.callers.size() * 40 * 5);
    CHECK(s.server.statistics().failed == 0);
  });
}

TEST_CASE(
    "daemon: a file is closed indeed soon after its last descriptor, however often each thread has "
    "read it") {
  scratch_folder folder;
  auto const path = folder / "a";
  write_range(path, 0, 10'000);
  // The kernel grants a write lease only if no other process has the file open.
  int const own = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(own >= 0);
  auto const alone = [&] { return ::fcntl(own, F_SETLEASE, F_WRLCK) == 0; };
  if (!alone()) {
    MESSAGE("skipped: no leases on this file system");
    ::close(own);
    return;
  }
  with_each_engine([&](io_backend backend) {
    ::fcntl(own, F_SETLEASE, F_UNLCK);
    running_daemon s{backend, nullptr, 3};
    auto const fd = s.callers[0].open(path);
    REQUIRE(fd > 0);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        for (int n = 0; n < 50; ++n) s.callers[i].read(fd, 0, 1000);
      });
    for (auto& t : threads) t.join();
    CHECK_FALSE(alone());
    CHECK(s.callers[0].close(fd) == 0);
    wait_until(alone, "a write lease, which needs the daemon to have closed the file");
  });
  ::close(own);
}
