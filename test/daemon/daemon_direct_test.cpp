// Reads past the OS page cache through the daemon: ends of files, files that change their size,
// file systems without O_DIRECT.
#include <test/daemon/paths.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

using namespace gpufs::daemon;
using namespace gpufs::test;
using gpufs::io_backend;
using gpufs::io_path;
namespace rpc = gpufs::rpc;

namespace {

struct scripted final : fault_injector {
  std::function<fault_action(std::uint64_t offset, std::uint64_t length)> read;
  fault_action before_read(rpc::request const&, std::uint64_t offset,
                           std::uint64_t length) override {
    return read ? read(offset, length) : fault_action::pass();
  }
};

std::uint64_t up(std::uint64_t n, std::uint64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

TEST_CASE(
    "direct: reads at any offset and length give the file's bytes, short at its end, none beyond, "
    "and go past the cache") {
  scratch_folder folder;
  std::uint64_t const size = 700'003;
  write_range(folder / "a", 0, size);
  if (!has_direct(folder / "a")) return;
  with_each_engine([&](io_backend backend) {
    running_daemon s{with(backend, io_path::direct)};
    auto& c = s.callers[3];
    auto const fd = c.open(folder / "a");
    REQUIRE(fd > 0);
    std::mt19937_64 random{gpufs::test::seed()};
    CAPTURE(gpufs::test::seed());
    std::uint64_t within = 0;
    for (int i = 0; i < 300; ++i) {
      std::uint64_t const offset = i == 0   ? 0
                                   : i == 1 ? size
                                   : i == 2 ? size - 1
                                            : random() % (size + 5000);
      std::uint64_t const length = i % 7 == 0   ? c.capacity()
                                   : i % 5 == 0 ? 4096 * (1 + random() % 16)
                                                : random() % 20'000;
      std::uint64_t const from = i % 3 == 0 ? offset / 4096 * 4096 : offset;
      std::uint64_t const expected = from >= size ? 0 : std::min(length, size - from);
      CAPTURE(from);
      CAPTURE(length);
      std::memset(c.data(), 0xee, c.capacity());
      REQUIRE(c.read(fd, from, length) == std::int32_t(expected));
      REQUIRE(wrong_bytes(c.data(), from, expected) == 0);
      if (up(length, 4096) < c.capacity()) REQUIRE(c.data()[up(length, 4096)] == std::byte{0xee});
      within += expected;
    }
    auto const counted = s.server.statistics();
    CHECK(counted.bytes_read == within);
    CHECK(counted.bytes_direct == within);
    if (backend == io_backend::pread) CHECK(s.server.notes().empty());
  });
}

TEST_CASE(
    "direct: what begins and ends at multiples of the alignment, and the file's last piece, take "
    "one read each") {
  scratch_folder folder;
  std::uint64_t const size = 128 * 1024 + 777;
  write_range(folder / "a", 0, size);
  if (!has_direct(folder / "a")) return;
  with_each_engine([&](io_backend backend) {
    running_daemon s{with(backend, io_path::direct)};
    auto& c = s.callers[0];
    auto const fd = c.open(folder / "a");
    CHECK(c.read(fd, 0, 65536) == 65536);
    CHECK(c.read(fd, 65536, 65536) == 65536);
    CHECK(c.read(fd, 131072, 777) == 777);
    CHECK(wrong_bytes(c.data(), 131072, 777) == 0);
    CHECK(s.server.statistics().reads_issued == 3);
  });
}

TEST_CASE(
    "direct: reads that were made short go on where they stopped, however that is aligned; errors "
    "are met as ever") {
  scratch_folder folder;
  write_range(folder / "a", 0, 200'000);
  if (!has_direct(folder / "a")) return;
  with_each_engine([&](io_backend backend) {
    scripted faults;
    std::atomic<int> seen{0};
    faults.read = [&](std::uint64_t offset, std::uint64_t) {
      ++seen;
      return offset >= 150'000 ? fault_action::fail(EIO)
                               : fault_action::shorten(offset % 2 != 0 ? 4096 : 3001);
    };
    running_daemon s{with(backend, io_path::direct), &faults};
    auto& c = s.callers[0];
    auto const fd = c.open(folder / "a");
    for (std::uint64_t const offset : {0u, 4096u, 12'345u, 131'071u}) {
      CHECK(c.read(fd, offset, 18'000) == 18'000);
      CHECK(wrong_bytes(c.data(), offset, 18'000) == 0);
    }
    CHECK(c.read(fd, 149'000, 18'000) > 999);
    CHECK(c.read(fd, 150'000, 10) == -EIO);
    CHECK(seen == int(s.server.statistics().reads_issued) + 2);
    CHECK(s.server.statistics().bytes_direct == s.server.statistics().bytes_read);
  });
}

TEST_CASE(
    "direct: a file that grows or shrinks while a request of it is held is read as it is when the "
    "request goes on") {
  scratch_folder folder;
  auto const path = folder / "a";
  write_range(path, 0, 20'000);
  if (!has_direct(path)) return;
  with_each_engine([&](io_backend backend) {
    REQUIRE(::truncate(path.c_str(), 0) == 0);
    write_range(path, 0, 20'000);
    scripted faults;
    std::shared_ptr<gate> shut;
    faults.read = [&](std::uint64_t offset, std::uint64_t) {
      return offset == 0 ? fault_action::shorten(5'000) : fault_action::hold(shut);
    };
    shut = std::make_shared<gate>();
    running_daemon s{with(backend, io_path::direct), &faults};
    auto& c = s.callers[0];
    auto const fd = c.open(path);
    c.post_read(fd, 0, 40'000);
    wait_until([&] { return shut->arrivals() == 1; }, "a read held behind its first part");
    write_range(path, 20'000, 20'000);
    shut->release();
    CHECK(c.wait() == 40'000);
    CHECK(wrong_bytes(c.data(), 0, 40'000) == 0);

    for (std::uint64_t const length :
         {30'000u, 4'000u}) {  // behind the bytes read so far, and before their end
      write_range(path, 0, 40'000);
      shut = std::make_shared<gate>();
      c.post_read(fd, 0, 40'000);
      wait_until([&] { return shut->arrivals() >= 1; }, "a read held behind its first part");
      REQUIRE(::truncate(path.c_str(), off_t(length)) == 0);
      shut->release();
      CHECK(c.wait() == std::int32_t(std::max<std::uint64_t>(length, 5'000)));
      CHECK(wrong_bytes(c.data(), 0, std::min<std::uint64_t>(length, 5'000)) == 0);
    }
  });
}

TEST_CASE("direct: dirty pages are seen, written before the open or after") {
  scratch_folder folder;
  auto const path = folder / "a";
  write_range(path, 0, 100'000);
  if (!has_direct(path)) return;
  running_daemon s{with(io_backend::automatic, io_path::direct)};
  auto& c = s.callers[0];
  auto const fd = c.open(path);
  for (std::uint64_t at = 0; at < 100'000; at += 10'000) {
    std::vector<char> other(10'000, 'x');
    int const out = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    REQUIRE(::pwrite(out, other.data(), other.size(), off_t(at)) == 10'000);
    CHECK(c.read(fd, at, 10'000) == 10'000);
    CHECK(std::memcmp(c.data(), other.data(), other.size()) == 0);
    write_range(path, at, 10'000);
    ::close(out);
  }
  CHECK(c.read(fd, 0, 100'000) == 100'000);
  CHECK(wrong_bytes(c.data(), 0, 100'000) == 0);
}

TEST_CASE("direct: files in memory are read through the page cache, and the notes say so once") {
  if (!std::filesystem::is_directory("/dev/shm")) {
    MESSAGE("skipped: no /dev/shm");
    return;
  }
  auto const path = "/dev/shm/gpufs-direct-test-" + std::to_string(::getpid());
  struct removed {
    std::string path;
    ~removed() { ::unlink(path.c_str()); }
  } const a{path + "a"}, b{path + "b"};
  write_range(a.path, 0, 10'000);
  write_range(b.path, 0, 10'000);
  running_daemon s{with(io_backend::pread, io_path::direct, 2)};
  for (auto const& file : {a.path, b.path}) {
    auto const fd = s.callers[0].open(file);
    for (std::uint64_t i = 0; i < 16; ++i) {
      CHECK(s.callers[i].read(fd, 100 * i, 3000) == 3000);
      CHECK(wrong_bytes(s.callers[i].data(), 100 * i, 3000) == 0);
    }
  }
  CHECK(s.server.statistics().bytes_direct == 0);
  auto const notes = s.server.notes();
  CHECK(std::count_if(notes.begin(), notes.end(),
                      [&](auto const& n) { return n.find("io_path=direct") != n.npos; }) == 1);
}

TEST_CASE("direct: the second descriptor is closed with the file") {
  scratch_folder folder;
  auto const path = folder / "a";
  write_range(path, 0, 100'000);
  if (!has_direct(path)) return;
  int const own = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  auto const alone = [&] { return ::fcntl(own, F_SETLEASE, F_WRLCK) == 0; };
  if (!alone()) {
    MESSAGE("skipped: no leases on this file system");
    ::close(own);
    return;
  }
  with_each_engine([&](io_backend backend) {
    ::fcntl(own, F_SETLEASE, F_UNLCK);
    running_daemon s{with(backend, io_path::direct, 2)};
    auto const fd = s.callers[0].open(path);
    for (int i = 0; i < 30; ++i) CHECK(s.callers[std::size_t(i % 16)].read(fd, 0, 4096) == 4096);
    CHECK_FALSE(alone());
    s.callers[0].close(fd);
    wait_until(alone, "a write lease, which needs the daemon to have closed both descriptors");
  });
  ::close(own);
}
