// Views of files: which bytes are copied out of them, and when they are not used.
#include <host-daemon/base/file_view.hpp>
#include <host-daemon/base/os_page_cache.hpp>

#include <test/daemon/paths.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

using namespace gpufs::daemon;
using namespace gpufs::test;
using gpufs::io_backend;
using gpufs::io_path;

namespace {

constexpr std::uint64_t mebi = 1 << 20;

// A file and its view.
struct viewed_file {
  explicit viewed_file(std::uint64_t size) : path{folder / "a"} {
    write_range(path, 0, size);
    fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    view = std::make_unique<file_view>(fd);
  }
  ~viewed_file() {
    view.reset();
    ::close(fd);
  }
  viewed_file(viewed_file const&) = delete;
  viewed_file& operator=(viewed_file const&) = delete;

  bool copy(std::uint64_t offset, std::uint64_t length, std::uint64_t version = 1) {
    to.assign(length, std::byte{0xee});
    return view->copy(to, offset, version, asked);
  }
  // Reads until the part of `offset` has been asked about. Returns whether it is used.
  bool warm_up(std::uint64_t offset, std::uint64_t version = 1) {
    for (std::uint32_t i = 0; i < file_view::reads_before_mapping + 8; ++i)
      if (copy(offset, 1, version)) return true;
    return false;
  }
  void cut(std::uint64_t size) const { REQUIRE(::ftruncate(fd, ::off_t(size)) == 0); }

  scratch_folder folder;
  std::string path;
  int fd = -1;
  std::unique_ptr<file_view> view;
  std::vector<std::byte> to;
  cachestat_function asked;
};

// Answers of cachestat(2), for files that may not be cached wholly.
cachestat_function cached_pages(std::atomic<int>& calls,
                                std::atomic<std::uint64_t> const& missing) {
  return [&](int, std::uint64_t, std::uint64_t length, std::uint64_t& cached) {
    ++calls;
    cached = (length + 4095) / 4096 - missing;
    return 0;
  };
}

}  // namespace

TEST_CASE("after its first reads a warm file is copied out of its view, byte for byte") {
  viewed_file file{5 * mebi + 100};
  for (std::uint32_t i = 0; i < file_view::reads_before_mapping; ++i) CHECK_FALSE(file.copy(0, 16));
  REQUIRE(file.warm_up(0));
  std::mt19937_64 random{seed()};
  int copied = 0;
  for (int i = 0; i < 4000; ++i) {
    auto const length = 1 + random() % 65536;
    auto const offset = random() % (5 * mebi + 100);
    bool const is_done = file.copy(offset, length);
    if (is_done) CHECK(wrong_bytes(file.to.data(), offset, length) == 0);
    bool const crosses = offset / (2 * mebi) != (offset + length - 1) / (2 * mebi);
    bool const is_beyond = offset + length > 5 * mebi + 100;
    if (crosses || is_beyond) CHECK_FALSE(is_done);
    copied += is_done ? 1 : 0;
  }
  CHECK(copied > 3000);
}

TEST_CASE("a part with a page that is not cached is not copied, and is asked about again") {
  viewed_file file{4 * mebi};
  std::atomic<int> calls{0};
  std::atomic<std::uint64_t> missing{1};
  file.asked = cached_pages(calls, missing);
  CHECK_FALSE(file.warm_up(0));
  CHECK(calls == 1);
  missing = 0;
  std::uint32_t reads = 0;
  while (!file.copy(0, 4096) && reads < 10000) ++reads;
  CHECK(reads <= file_view::reads_while_not);
  CHECK(calls == 2);
  missing = 1;
  reads = 0;
  while (file.copy(0, 4096) && reads < 10000) ++reads;
  CHECK(reads <= file_view::reads_while_cached);
  CHECK(calls == 3);
}

TEST_CASE("where cachestat is refused, the view asks for some bytes") {
  viewed_file file{4 * mebi};
  file.asked = [](int, std::uint64_t, std::uint64_t, std::uint64_t&) { return -1; };
  CHECK(file.warm_up(0));
  CHECK(wrong_bytes(file.to.data(), 0, 1) == 0);
}

TEST_CASE("a new version is asked about at once: what lies beyond a new end is not copied") {
  viewed_file file{2 * mebi};
  REQUIRE(file.warm_up(0));
  REQUIRE(file.copy(mebi, 8192));
  file.cut(mebi + 100);
  CHECK_FALSE(file.copy(mebi, 8192, 2));
  CHECK_FALSE(file.copy(mebi, 101, 2));
  CHECK(file.copy(mebi, 100, 2));
  CHECK(wrong_bytes(file.to.data(), mebi, 100) == 0);
  file.cut(0);
  CHECK_FALSE(file.copy(0, 1, 3));
  write_range(file.path, 0, 2 * mebi);
  CHECK(file.copy(mebi, 8192, 4));
  CHECK(wrong_bytes(file.to.data(), mebi, 8192) == 0);
}

TEST_CASE("a file that is cut by others: copies end, or give old bytes or zeros") {
  viewed_file file{2 * mebi};
  REQUIRE(file.warm_up(0));
  file.cut(4096);
  CHECK_FALSE(file.copy(mebi, 4096));
  CHECK(file.copy(0, 4096));
  write_range(file.path, 0, 2 * mebi);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, copied{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::vector<std::byte> to(8192);
      for (std::uint64_t i = t; !stop; ++i) {
        auto const offset = i * 4096 % (2 * mebi - 8192);
        if (!file.view->copy(to, offset, 1, {})) continue;
        ++copied;
        for (std::uint64_t b = 0; b < to.size(); ++b)
          if (to[b] != std::byte{0} && to[b] != expected_byte(offset + b)) ++wrong;
      }
    });
  for (unsigned i = 0; i < scaled(300, 40); ++i) {
    file.cut(std::uint64_t(i) % 7 * 100'000);
    write_range(file.path, 0, 2 * mebi);
  }
  stop = true;
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(copied > 0);
}

TEST_CASE("a handler of the program puts views out of use") {
  viewed_file file{2 * mebi};
  REQUIRE(file.warm_up(0));
  struct sigaction ours {};
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  REQUIRE(::sigaction(SIGBUS, &standard, &ours) == 0);
  CHECK_FALSE(file.copy(0, 1, 2));
  REQUIRE(::sigaction(SIGBUS, &ours, nullptr) == 0);
  CHECK(file.copy(0, 1, 3));
  // Of a part that is not asked about anew, few copies are made until it shows.
  REQUIRE(::sigaction(SIGBUS, &standard, nullptr) == 0);
  int copies = 0;
  while (copies < 1000 && file.copy(0, 1, 3)) ++copies;
  CHECK(copies < 16);
  REQUIRE(::sigaction(SIGBUS, &ours, nullptr) == 0);
}

TEST_CASE("pages that were copied can leave the OS page cache while the view is there") {
  viewed_file file{4 * mebi};
  REQUIRE(::fdatasync(file.fd) == 0);
  REQUIRE(file.warm_up(0));
  REQUIRE(file.warm_up(2 * mebi));
  for (std::uint64_t at = 0; at < 4 * mebi; at += 8192) CHECK(file.copy(at, 4096));
  auto const cached = [&] { return ask_cachestat({}, file.fd, 0, 4 * mebi); };
  if (!cached()) return;  // the kernel does not tell
  file.view->let_go(2 * mebi + 5, ~0ull);
  REQUIRE(::posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  auto const left = cached()->cached;
  if (left == 1024) return;  // a file system in memory
  CHECK(left <= 512);        // below the byte from which it let go
  CHECK(file.copy(3 * mebi, 4096));
  CHECK(wrong_bytes(file.to.data(), 3 * mebi, 4096) == 0);
  file.view->let_go(0, 8 * mebi);
  REQUIRE(::posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  CHECK(cached()->cached == 0);
}

TEST_CASE("the daemon copies warm files, unless it is told not to") {
  scratch_folder folder;
  write_range(folder / "a", 0, 4 * mebi);
  with_each_engine([&](io_backend backend) {
    for (bool const views : {true, false}) {
      auto settings = with(backend, io_path::pull);
      settings.views = views;
      running_daemon s{settings};
      auto& c = s.callers[0];
      auto const fd = c.open(folder / "a");
      for (std::uint64_t i = 0; i < 500; ++i) {
        auto const offset = i * 40'960 % (4 * mebi - 8192);
        CHECK(c.read(fd, offset, 8192) == 8192);
        CHECK(wrong_bytes(c.data(), offset, 8192) == 0);
      }
      CHECK(c.read(fd, 4 * mebi - 100, 8192) == 100);
      auto const counted = s.server.statistics();
      if (views)
        CHECK(counted.bytes_viewed > 300 * 8192);
      else
        CHECK(counted.bytes_viewed == 0);
      CHECK(counted.bytes_read == 500 * 8192 + 100);
    }
  });
}
