// Bulk I/O with host memory: many ranges, short files, holes, errors, concurrent callers, O_DIRECT.
#include <host-daemon/bulk/bulk_io.hpp>
#include <host-daemon/bulk/bulk_lane.hpp>
#include <host-daemon/serve/server.hpp>

#include <test/daemon/forwarding_file.hpp>
#include <test/daemon/forwarding_storage.hpp>
#include <test/daemon/harness.hpp>
#include <test/daemon/paths.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/uio.h>
#include <unistd.h>

using namespace gpufs::daemon;
using gpufs::io_backend;
using gpufs::io_path;
using gpufs::test::expected_byte;
using gpufs::test::make_cold;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::write_range;
using gpufs::test::wrong_bytes;

namespace {

// Ordinary files whose reads and writes fail at chosen offsets. With `most_at_once`, a write moves
// no more bytes than that, and every third is interrupted.
struct failing_storage final : gpufs::test::forwarding_storage {
  struct file final : gpufs::test::forwarding_file {
    failing_storage& storage;
    file(std::shared_ptr<stored_file const> f, failing_storage& s)
        : forwarding_file{std::move(f)}, storage{s} {}

    std::int64_t read(std::span<std::byte> to, std::uint64_t offset) const noexcept override {
      auto const bad = storage.bad_read.load();
      if (offset <= bad && bad < offset + to.size()) {
        if (offset == bad) return -EIO;
        return below->read(to.first(bad - offset), offset);
      }
      return below->read(to, offset);
    }
    std::int64_t write(std::span<::iovec const> parts,
                       std::uint64_t offset) const noexcept override {
      ::iovec part = parts[0];
      auto const full = storage.full_from.load();
      if (offset >= full) return -ENOSPC;
      auto const most = storage.most_at_once.load();
      if (most != ~0ull && storage.writes++ % 3 == 1) return -EINTR;
      part.iov_len = std::min<std::size_t>({part.iov_len, full - offset, most});
      return below->write({&part, 1}, offset);
    }
  };

  std::atomic<std::uint64_t> bad_read{~0ull}, full_from{~0ull}, most_at_once{~0ull};
  std::atomic<unsigned> writes{0};

  std::shared_ptr<stored_file const> wrap(std::shared_ptr<stored_file const> f) override {
    return std::make_shared<file const>(std::move(f), *this);
  }
};

struct setup {
  explicit setup(io_backend backend = io_backend::automatic, io_path path = io_path::pull,
                 std::shared_ptr<storage_backend> storage = nullptr)
      : server{memory.region, settings(backend, path, std::move(storage))} {}
  static server_settings settings(io_backend backend, io_path path,
                                  std::shared_ptr<storage_backend> storage) {
    auto s = gpufs::test::with(backend, path);
    s.files.storage = std::move(storage);
    return s;
  }
  int open(std::string const& path, int flags = O_RDONLY) {
    int const fd = server.files().open(path, flags);
    REQUIRE(fd > 0);
    return fd;
  }
  scratch_folder folder;
  region_memory memory{16, 16, 1 << 20, 8, 4};
  gpufs::daemon::server server;  // not started: bulk calls need no daemon thread
};

}  // namespace

TEST_CASE("bulk: ranges in any order arrive where they belong; short at the end of the file") {
  CAPTURE(gpufs::test::seed());
  for (auto const backend : {io_backend::pread, io_backend::automatic}) {
    std::mt19937_64 random{gpufs::test::seed()};
    setup s{backend};
    constexpr std::uint64_t size = 3'300'001;
    write_range(s.folder / "a", 0, size);
    int const fd = s.open(s.folder / "a");
    std::vector<bulk_range> ranges;
    std::uint64_t position = 0;
    for (int i = 0; i < 200; ++i) {
      auto const length = i == 100 ? 2'500'000 : random() % 20'000;
      ranges.push_back(
          {.offset = random() % (size + 5000), .length = length, .position = position});
      position += length + 1;
    }
    std::vector<std::byte> to(position, std::byte{0xee});
    CHECK(s.server.bulk().read(fd, ranges, std::span{to}) == 0);
    std::uint64_t wrong = 0;
    for (auto const& r : ranges) {
      auto const there = r.offset >= size ? 0 : std::min(r.length, size - r.offset);
      wrong += std::uint64_t(r.result) != there;
      wrong += wrong_bytes(to.data() + r.position, r.offset, there);
      for (auto i = there; i <= r.length; ++i) wrong += to[r.position + i] != std::byte{0xee};
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("bulk: of a range that ends beyond the file, no more parts are asked for") {
  bulk_range ranges[] = {{.offset = 0, .length = 1ull << 60}, {.offset = 7, .length = 10}};
  bulk_parts parts{ranges, 100};
  auto const first = parts.next(), second = parts.next();
  parts.end(first, 60, 0);
  REQUIRE(parts.more());
  CHECK(parts.is_cut_off(second));
  parts.end(second, 0, 0);
  auto const other = parts.next();
  CHECK(other.range == 1);
  CHECK_FALSE(parts.is_cut_off(other));
  parts.end(other, 10, 0);
  CHECK_FALSE(parts.more());
  CHECK(parts.set_results() == 0);
  CHECK(ranges[0].result == 60);
  CHECK(ranges[1].result == 10);
}

TEST_CASE("bulk: no part lies behind the end of the file") {
  bulk_range ranges[] = {{.offset = 0, .length = 1ull << 60}, {.offset = 150, .length = 10}};
  bulk_parts parts{ranges, 100, 130};
  parts.end(parts.next(), 100, 0);
  auto const last = parts.next();
  CHECK(last.length == 30);
  parts.end(last, 30, 0);
  CHECK_FALSE(parts.more());
  CHECK(parts.set_results() == 0);
  CHECK(ranges[0].result == 130);
  CHECK(ranges[1].result == 0);
}

TEST_CASE("bulk: holes are zeros") {
  setup s;
  write_range(s.folder / "a", 5 << 20, 100);
  std::vector<std::byte> to(6 << 20, std::byte{0xee});
  bulk_range all{.length = to.size()};
  CHECK(s.server.bulk().read(s.open(s.folder / "a"), {&all, 1}, std::span{to}) == 0);
  REQUIRE(all.result == (5 << 20) + 100);
  CHECK(std::all_of(to.begin(), to.begin() + (5 << 20),
                    [](std::byte b) { return b == std::byte{0}; }));
  CHECK(wrong_bytes(to.data() + (5 << 20), 5 << 20, 100) == 0);
  CHECK(to[(5 << 20) + 100] == std::byte{0xee});
}

TEST_CASE("bulk: calls that make no sense move nothing, and every range says so") {
  setup s;
  write_range(s.folder / "a", 0, 1000);
  int const reading = s.open(s.folder / "a"), writing = s.open(s.folder / "a", O_RDWR);
  auto& bulk = s.server.bulk();
  std::vector<std::byte> memory(100, std::byte{0xee});
  auto const huge = ~std::uint64_t{0};
  auto const result = [&](int fd, bulk_range bad, bool write = false) {
    bulk_range ranges[] = {{.length = 10}, bad};
    int const error = write ? bulk.write(fd, ranges, std::span{memory})
                            : bulk.read(fd, ranges, std::span{memory});
    CHECK(ranges[0].result == error);
    CHECK(ranges[1].result == error);
    return error;
  };
  for (bool const write : {false, true}) {
    int const fd = write ? writing : reading;
    CHECK(result(fd, {.length = 101}, write) == -EINVAL);
    CHECK(result(fd, {.length = 1, .position = 100}, write) == -EINVAL);
    CHECK(result(fd, {.length = 2, .position = huge}, write) == -EINVAL);
    CHECK(result(fd + 100, {}, write) == -EBADF);
    CHECK(result(0, {}, write) == -EBADF);
  }
  CHECK(result(reading, {.offset = huge, .length = 1}) == -EINVAL);
  CHECK(result(writing, {.offset = 1ull << 48, .length = 1}, true) == -EFBIG);
  CHECK(result(reading, {}, true) == -EBADF);
  CHECK(std::ranges::count(memory, std::byte{0xee}) == 100);
  CHECK(bulk.read(reading, {}, std::span{memory}) == 0);
}

TEST_CASE("bulk: an error ends its own range only, behind the bytes that came before it") {
  auto const storage = std::make_shared<failing_storage>();
  setup s{io_backend::pread, io_path::pull, storage};
  constexpr std::uint64_t size = 4 << 20;
  write_range(s.folder / "a", 0, size);
  int const fd = s.open(s.folder / "a", O_RDWR);
  std::vector<std::byte> memory(2 * size);
  storage->bad_read = 2'500'000;
  bulk_range ranges[] = {{.offset = 0, .length = 1'000'000},
                         {.offset = 100, .length = 3'000'000, .position = 1'000'000},
                         {.offset = 2'500'000, .length = 10, .position = 4'000'000},
                         {.offset = 3'000'000, .length = 1'000'000, .position = 5'000'000}};
  CHECK(s.server.bulk().read(fd, ranges, std::span{memory}) == -EIO);
  CHECK(ranges[0].result == 1'000'000);
  CHECK(ranges[1].result == 2'499'900);
  CHECK(ranges[2].result == -EIO);
  CHECK(ranges[3].result == 1'000'000);
  for (auto const& r : ranges)
    if (r.result > 0)
      CHECK(wrong_bytes(memory.data() + r.position, r.offset, std::uint64_t(r.result)) == 0);
  storage->full_from = 2'000'000;
  CHECK(s.server.bulk().write(fd, ranges, std::span{memory}) == -ENOSPC);
  CHECK(ranges[0].result == 1'000'000);
  CHECK(ranges[1].result == 1'999'900);
  CHECK(ranges[2].result == -ENOSPC);
}

TEST_CASE("bulk: short and interrupted writes are continued; one that moves nothing is an error") {
  auto const storage = std::make_shared<failing_storage>();
  setup s{io_backend::pread, io_path::pull, storage};
  write_range(s.folder / "a", 0, 20'000);
  int const fd = s.open(s.folder / "a", O_RDWR);
  std::vector<std::byte> const ones(20'000, std::byte{0xff});
  storage->most_at_once = 1000;
  std::vector<std::byte> memory = ones;
  bulk_range range{.offset = 100, .length = 5300, .position = 200};
  CHECK(s.server.bulk().write(fd, {&range, 1}, std::span{memory}) == 0);
  CHECK(range.result == 5300);
  std::vector<std::byte> back(20'000);
  bulk_range all{.length = back.size()};
  CHECK(s.server.bulk().read(fd, {&all, 1}, std::span{back}) == 0);
  CHECK(wrong_bytes(back.data(), 0, 100) == 0);
  CHECK(std::equal(ones.begin(), ones.begin() + 5300, back.begin() + 100));
  CHECK(wrong_bytes(back.data() + 5400, 5400, 20'000 - 5400) == 0);
  storage->most_at_once = 0;
  CHECK(s.server.bulk().write(fd, {&range, 1}, std::span{memory}) == -EIO);
}

TEST_CASE("bulk: a write gives the file its bytes and one new version; written pages come first") {
  setup s;
  write_range(s.folder / "a", 0, 10'000);
  int const fd = s.open(s.folder / "a", O_RDWR);
  auto const version = s.memory.version(fd);
  std::vector<std::byte> memory(50'000);
  for (std::uint64_t i = 0; i < memory.size(); ++i) memory[i] = expected_byte(i);
  std::vector<bulk_range> ranges;
  for (std::uint64_t at = 0; at < memory.size(); at += 1000)
    ranges.push_back({.offset = at, .length = 1000, .position = at});
  CHECK(s.server.bulk().write(fd, ranges, std::span{memory}) == 0);
  for (auto const& r : ranges) CHECK(r.result == 1000);
  CHECK(s.memory.version(fd) == version + 1);
  CHECK(s.memory.size(fd) == 50'000);
  std::vector<std::byte> back(50'000);
  bulk_range all{.length = back.size()};
  CHECK(s.server.bulk().read(fd, {&all, 1}, std::span{back}) == 0);
  CHECK(wrong_bytes(back.data(), 0, 50'000) == 0);
  CHECK(s.server.bulk().write(fd, {}, std::span{memory}) == 0);
  CHECK(s.memory.version(fd) == version + 1);  // nothing was written
}

TEST_CASE("bulk: past the OS page cache, at any alignment of file and memory") {
  CAPTURE(gpufs::test::seed());
  std::mt19937_64 random{gpufs::test::seed()};
  for (auto const backend : {io_backend::pread, io_backend::automatic}) {
    setup s{backend, io_path::direct};
    auto const path = s.folder / "a";
    constexpr std::uint64_t size = 3 * 1'048'576 + 777;
    write_range(path, 0, size);
    if (!gpufs::test::has_direct(path) || !make_cold(path)) return;
    int const fd = s.open(path);
    std::vector<std::byte> memory(8 << 20, std::byte{0xee});
    std::vector<bulk_range> ranges{{.offset = 0, .length = 2 << 20, .position = 1}};
    std::uint64_t position = 3 << 20;
    for (int i = 0; i < 40; ++i) {
      bool const units = i % 3 == 0;
      auto const offset = units ? random() % 500 * 4096 : random() % (size + 100);
      if (units) position = (position + 4095) / 4096 * 4096;
      ranges.push_back({.offset = offset, .length = 1 + random() % 60'000, .position = position});
      position += ranges.back().length + 1;
    }
    CHECK(s.server.bulk().read(fd, ranges, std::span{memory}) == 0);
    std::uint64_t wrong = 0;
    for (auto const& r : ranges) {
      auto const there = r.offset >= size ? 0 : std::min(r.length, size - r.offset);
      wrong += std::uint64_t(r.result) != there;
      wrong += wrong_bytes(memory.data() + r.position, r.offset, there);
      for (auto i = there; i <= r.length; ++i) wrong += memory[r.position + i] != std::byte{0xee};
    }
    CHECK(wrong == 0);
    CHECK(s.server.bulk().notes().empty());
  }
}

TEST_CASE("bulk: the server's notes have what bulk reads could not do, once") {
  if (!std::filesystem::is_directory("/dev/shm")) {
    MESSAGE("skipped: no /dev/shm");
    return;
  }
  auto const path = "/dev/shm/gpufs-bulk-test-" + std::to_string(::getpid());
  struct removed {
    std::string path;
    ~removed() { ::unlink(path.c_str()); }
  } const file{path};
  write_range(path, 0, 10'000);
  gpufs::test::running_daemon s{gpufs::test::with(io_backend::pread, io_path::direct)};
  auto const fd = s.callers[0].open(path);
  REQUIRE(fd > 0);
  std::vector<std::byte> memory(10'000);
  bulk_range all{.length = memory.size()};
  CHECK(s.server.bulk().read(fd, {&all, 1}, std::span{memory}) == 0);
  auto const told = [&] {
    auto const notes = s.server.notes();
    return std::count_if(notes.begin(), notes.end(),
                         [](auto const& n) { return n.find("io_path=direct") != n.npos; });
  };
  CHECK(told() == 1);
  CHECK(s.callers[0].read(fd, 0, 3000) == 3000);
  CHECK(told() == 1);
}

TEST_CASE("bulk: callers do not wait for each other, nor get each other's bytes") {
  setup s;
  constexpr std::uint64_t size = 2 << 20;
  write_range(s.folder / "a", 0, size);
  write_range(s.folder / "b", 0, size);
  int const reading = s.open(s.folder / "a"), writing = s.open(s.folder / "b", O_RDWR);
  std::vector<std::uint64_t> wrong(6);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      std::vector<std::byte> memory(size);
      std::mt19937_64 random{gpufs::test::seed() + t};
      for (int round = 0; round < 12; ++round) {
        std::vector<bulk_range> ranges;
        for (std::uint64_t at = 0; at < 16; ++at)
          ranges.push_back({.offset = random() % (size - 50'000),
                            .length = random() % 50'000,
                            .position = at * 50'000});
        auto& bulk = s.server.bulk();
        wrong[t] += bulk.read(t < 4 ? reading : writing, ranges, std::span{memory}) != 0;
        for (auto const& r : ranges)
          wrong[t] += wrong_bytes(memory.data() + r.position, r.offset, r.length);
        // What is written is what is there.
        if (t >= 4) wrong[t] += bulk.write(writing, ranges, std::span{memory}) != 0;
      }
    });
  for (auto& t : threads) t.join();
  CHECK(std::ranges::count(wrong, 0u) == 6);
}
