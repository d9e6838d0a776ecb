// The choice of reads that go past the OS page cache, by io_path and by the contents of the cache.
#include <host-daemon/base/os_page_cache.hpp>
#include <host-daemon/engine/path_choice.hpp>

#include <test/daemon/paths.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <fstream>
#include <vector>

#include <unistd.h>

using namespace gpufs::daemon;
using namespace gpufs::test;
using gpufs::io_backend;
using gpufs::io_path;

TEST_CASE("cachestat: a range's pages are those that it has a byte of") {
  auto const page = std::uint64_t(::sysconf(_SC_PAGESIZE));
  auto const two = [](int, std::uint64_t, std::uint64_t, std::uint64_t& cached) {
    cached = 2;
    return 0;
  };
  auto const pages = [&](std::uint64_t offset, std::uint64_t length) {
    auto const found = ask_cachestat(two, -1, offset, length);
    return found && found->cached == 2 ? found->pages : 0;
  };
  CHECK(pages(0, 1) == 1);
  CHECK(pages(0, page) == 1);
  CHECK(pages(0, page + 1) == 2);
  CHECK(pages(page - 1, 1) == 1);
  CHECK(pages(page - 1, 2) == 2);
  CHECK(pages(page, 3 * page) == 3);
  auto const refuse = [](int, std::uint64_t, std::uint64_t, std::uint64_t&) { return -1; };
  CHECK_FALSE(ask_cachestat(refuse, -1, 0, 1).has_value());
}

TEST_CASE("path pull: a cold file is read through the OS page cache") {
  scratch_folder folder;
  write_range(folder / "a", 0, 1 << 20);
  make_cold(folder / "a");
  running_daemon s{with(io_backend::automatic, io_path::pull)};
  auto const fd = s.callers[0].open(folder / "a");
  CHECK(s.callers[0].read(fd, 0, 65536) == 65536);
  CHECK(s.server.statistics().bytes_direct == 0);
}

TEST_CASE(
    "path auto: each request goes the way that the samples of its range say, and samples of a warm "
    "file become rare") {
  scratch_folder folder;
  write_range(folder / "a", 0, 1 << 20);
  if (!has_direct(folder / "a")) return;
  with_each_engine([&](io_backend backend) {
    std::atomic<std::uint64_t> warm_from{0}, samples{0};
    auto settings = with(backend, io_path::automatic);
    settings.views = false;  // they ask, too
    settings.hooks.cachestat = [&](int, std::uint64_t offset, std::uint64_t length,
                                   std::uint64_t& cached) {
      ++samples;
      cached = offset >= warm_from ? (length + 4095) / 4096 : 0;
      return 0;
    };
    running_daemon s{settings};
    auto& c = s.callers[0];
    auto const fd = c.open(folder / "a");
    auto const direct_bytes = [&](std::uint64_t offset) {
      auto const before = s.server.statistics().bytes_direct;
      CHECK(c.read(fd, offset, 8192) == 8192);
      CHECK(wrong_bytes(c.data(), offset, 8192) == 0);
      return s.server.statistics().bytes_direct - before;
    };
    for (int i = 0; i < 1000; ++i) CHECK(direct_bytes(std::uint64_t(i) % 100 * 8192) == 0);
    CHECK(samples >= 1000 / path_choice::rarest);
    CHECK(samples <= 1000 / path_choice::rarest + 5);
    // The first part becomes cold. That is noticed within `rarest` requests, and every request is
    // sampled after that.
    warm_from = 65536;
    int noticed = 0;
    while (direct_bytes(8192) == 0) REQUIRE(++noticed <= int(path_choice::rarest));
    samples = 0;
    for (int i = 0; i < 20; ++i) CHECK(direct_bytes(0) == 8192);
    CHECK(samples == 20);
    CHECK(direct_bytes(65536) == 0);
  });
}

TEST_CASE("path auto: what lies behind the end of a file does not make it cold") {
  scratch_folder folder;
  write_range(folder / "a", 0, 5000);  // two pages
  if (!has_direct(folder / "a")) return;
  auto settings = with(io_backend::automatic, io_path::automatic);
  settings.views = false;
  settings.hooks.cachestat = [](int, std::uint64_t offset, std::uint64_t length,
                                std::uint64_t& cached) {
    cached = 0;
    for (auto page = offset / 4096; page * 4096 < offset + length; ++page) cached += page < 2;
    return 0;
  };
  running_daemon s{settings};
  auto& c = s.callers[0];
  auto const fd = c.open(folder / "a");
  for (std::uint64_t const offset : {0, 4096, 8192})
    CHECK(c.read(fd, offset, 65536) == std::int32_t(offset < 5000 ? 5000 - offset : 0));
  CHECK(s.server.statistics().bytes_direct == 0);
}

TEST_CASE(
    "path auto: a file is read directly from the first request on while it is cold, and through "
    "the cache once it is warm") {
  scratch_folder folder;
  auto const path = folder / "a";
  for (bool const refuse_cachestat : {false, true}) {
    CAPTURE(refuse_cachestat);
    write_range(path, 0, 1 << 20);
    if (!has_direct(path) || !make_cold(path)) return;
    auto settings = with(io_backend::automatic, io_path::automatic);
    if (refuse_cachestat)
      settings.hooks.cachestat = [](int, std::uint64_t, std::uint64_t, std::uint64_t&) {
        return -EPERM;
      };
    running_daemon s{settings};
    auto& c = s.callers[0];
    auto const fd = c.open(path);
    for (std::uint64_t at = 0; at < 1 << 20; at += 65536) {
      CHECK(c.read(fd, at, 65536) == 65536);
      CHECK(wrong_bytes(c.data(), at, 65536) == 0);
    }
    CHECK(s.server.statistics().bytes_direct == 1 << 20);
    std::ifstream in{path};
    std::vector<char> all(1 << 20);
    in.read(all.data(), 1 << 20);
    for (unsigned i = 0; i < path_choice::rarest; ++i) CHECK(c.read(fd, 65536, 65536) == 65536);
    auto const before = s.server.statistics().bytes_direct;
    CHECK(c.read(fd, 0, 65536) == 65536);
    CHECK(s.server.statistics().bytes_direct == before);
  }
}
