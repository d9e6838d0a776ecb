// The file registry: descriptors, sharing, records, versions.
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <test/daemon/harness.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include <sys/resource.h>
#include <sys/stat.h>

using gpufs::daemon::file_registry;
using gpufs::daemon::registry_settings;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::settled;
using gpufs::test::write_range;
namespace rpc = gpufs::rpc;

namespace {

constexpr std::int64_t second = 1'000'000'000;

}  // namespace

TEST_CASE("registry: opens of one file share a descriptor, which lives until the last close") {
  scratch_folder folder;
  write_range(folder / "a", 0, 100);
  write_range(folder / "b", 0, 50);
  std::filesystem::create_hard_link(folder / "a", folder / "link");
  std::filesystem::create_symlink(folder / "a", folder / "symlink");
  region_memory memory;
  file_registry files{memory.region, settled()};
  auto const fd = files.open(folder / "a", O_RDONLY);
  REQUIRE(fd > 0);
  CHECK(files.open(folder / "a", O_RDONLY) == fd);
  CHECK(files.open(folder / "link", O_RDONLY) == fd);
  CHECK(files.open(folder / "symlink", O_RDONLY | O_CLOEXEC) == fd);
  CHECK(files.open(folder / "b", O_RDONLY) != fd);
  CHECK(files.open_count() == 2);
  CHECK(memory.size(fd) == 100);
  CHECK(memory.version(fd) != 0);
  CHECK(memory.tag(fd) == rpc::descriptor_generation(fd));
  auto const epoch = memory.epoch();
  for (int i = 0; i < 3; ++i) CHECK(files.close(fd) == 0);
  CHECK(files.is_open(fd));
  CHECK(memory.epoch() == epoch);
  CHECK(files.close(fd) == 0);
  CHECK_FALSE(files.is_open(fd));
  CHECK(memory.tag(fd) == 0);
  CHECK(memory.epoch() > epoch);
  CHECK(files.close(fd) == -EBADF);
}

TEST_CASE("registry: a freed place comes back with another generation, after all others") {
  scratch_folder folder;
  write_range(folder / "a", 0, 1);
  region_memory memory{64, 64, 1 << 20, 4};
  file_registry files{memory.region, settled()};
  std::set<std::int32_t> seen;
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 12; ++i) {
    auto const fd = files.open(folder / "a", O_RDONLY);
    REQUIRE(fd > 0);
    CHECK(seen.insert(fd).second);
    order.push_back(rpc::descriptor_index(fd));
    CHECK(files.close(fd) == 0);
  }
  for (std::size_t i = 4; i < order.size(); ++i) CHECK(order[i] == order[i - 4]);
}

TEST_CASE(
    "registry: generations wrap from 32767 to 1, which callers hear of, and descriptors stay "
    "positive") {
  scratch_folder folder;
  write_range(folder / "a", 0, 1);
  region_memory memory{64, 64, 1 << 20, 1};
  file_registry files{memory.region, settled()};
  std::uint32_t first = 0, last = 0;
  for (int i = 0; i < 32768; ++i) {
    auto const fd = files.open(folder / "a", O_RDONLY);
    REQUIRE(fd > 0);
    auto const next = rpc::descriptor_generation(fd);
    if (i == 0) {
      first = next;
    } else {
      REQUIRE(next == last % 32767 + 1);
    }
    last = next;
    REQUIRE(files.close(fd) == 0);
  }
  CHECK(last == first);
  CHECK(memory.region.control->changes == 1);
}

TEST_CASE(
    "registry: an unchanged file keeps its version from open to open, a changed one gets a new "
    "one") {
  scratch_folder folder;
  auto const path = folder / "a";
  write_range(path, 0, 100);
  region_memory memory;
  file_registry files{memory.region, settled()};
  auto fd = files.open(path, O_RDONLY);
  auto const version = memory.version(fd);
  files.close(fd);
  fd = files.open(path, O_RDONLY);
  CHECK(memory.version(fd) == version);

  SUBCASE("changed while open: the shared record says so, and the epoch") {
    auto const epoch = memory.epoch();
    write_range(path, 100, 10);
    CHECK(memory.version(fd) == version);
    CHECK(files.open(path, O_RDONLY) == fd);
    CHECK(memory.version(fd) > version);
    CHECK(memory.size(fd) == 110);
    CHECK(memory.epoch() > epoch);
  }
  SUBCASE("changed while closed") {
    files.close(fd);
    write_range(path, 100, 10);
    fd = files.open(path, O_RDONLY);
    CHECK(memory.version(fd) > version);
    CHECK(memory.size(fd) == 110);
  }
  SUBCASE("replaced by another file of the same name while open: another descriptor") {
    write_range(folder / "new", 0, 100);
    std::filesystem::rename(folder / "new", path);
    auto const other = files.open(path, O_RDONLY);
    CHECK(other != fd);
    CHECK(memory.version(other) > version);
    CHECK(memory.version(fd) == version);
  }
}

TEST_CASE(
    "registry: a file changed within the clock's grain before its open is not trusted at the next "
    "open") {
  scratch_folder folder;
  auto const path = folder / "a";
  write_range(path, 0, 100);
  std::int64_t now = 5000 * second;
  std::int64_t stamp = 4000 * second + 1;
  registry_settings settings;
  settings.now_ns = [&] { return now; };
  settings.stat = [&](int fd, struct ::stat& out) {
    auto const result = ::fstat(fd, &out);
    out.st_mtim = out.st_ctim = {.tv_sec = stamp / second, .tv_nsec = stamp % second};
    return result;
  };
  region_memory memory;
  file_registry files{memory.region, settings};
  auto const version_at_open = [&] {
    auto const fd = files.open(path, O_RDONLY);
    REQUIRE(fd > 0);
    return memory.version(fd);
  };
  auto const first = version_at_open();
  CHECK(version_at_open() == first);
  stamp = now - 1;
  auto const changed = version_at_open();
  CHECK(changed > first);
  now += second;
  auto const distrusted = version_at_open();
  CHECK(distrusted > changed);
  CHECK(version_at_open() == distrusted);
}

TEST_CASE(
    "registry: a full table answers ENFILE until something is closed; other opens of open files "
    "still work") {
  scratch_folder folder;
  region_memory memory{64, 64, 1 << 20, 2};
  file_registry files{memory.region, settled()};
  for (auto const* name : {"a", "b", "c"}) write_range(folder / name, 0, 1);
  auto const a = files.open(folder / "a", O_RDONLY);
  auto const b = files.open(folder / "b", O_RDONLY);
  CHECK(files.open(folder / "c", O_RDONLY) == -ENFILE);
  CHECK(files.open(folder / "b", O_RDONLY) == b);
  CHECK(files.close(a) == 0);
  auto const c = files.open(folder / "c", O_RDONLY);
  CHECK(c > 0);
  CHECK(rpc::descriptor_index(c) == rpc::descriptor_index(a));
  CHECK(files.close(a) == -EBADF);
}

TEST_CASE("registry: an open that finds no place makes no file and changes none") {
  scratch_folder folder;
  region_memory memory{64, 64, 1 << 20, 1, 4};
  gpufs::daemon::write_back writes{memory.region.writes, nullptr};
  file_registry files{memory.region, settled(), &writes};
  write_range(folder / "old", 0, 1);
  auto const used = files.open(folder / "used", O_RDWR | O_CREAT, 0644);
  REQUIRE(used > 0);
  for (int const flags : {O_RDWR, O_RDWR | O_EXCL, O_RDONLY, O_RDWR | O_TRUNC}) {
    CHECK(files.open(folder / "new", flags | O_CREAT, 0644) == -ENFILE);
    CHECK_FALSE(std::filesystem::exists(folder / "new"));
  }
  CHECK(files.open(folder / "old", O_RDWR | O_CREAT | O_EXCL, 0644) == -EEXIST);
  CHECK(files.open(folder / "old", O_RDWR | O_CREAT | O_TRUNC, 0644) == -ENFILE);
  CHECK(std::filesystem::file_size(folder / "old") == 1);
  CHECK(files.open(folder / "used", O_RDWR | O_CREAT, 0644) == used);
  for (int i = 0; i < 2; ++i) CHECK(files.close(used) == 0);
  auto const made = files.open(folder / "new", O_RDWR | O_CREAT | O_EXCL, 0644);
  CHECK(made > 0);
  CHECK(files.open_count() == 1);
  CHECK(files.close(made) == 0);
}

TEST_CASE("registry: 4096 files are open at once, and the process's limit is raised for them") {
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  if (before.rlim_max < 5000) {
    MESSAGE("skipped: the hard limit of open files is " << before.rlim_max);
    return;
  }
  auto low = before;
  low.rlim_cur = 256;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  {
    scratch_folder folder;
    region_memory memory{64, 64, 1 << 20, 4096};
    file_registry files{memory.region, settled()};
    REQUIRE(files.notes().size() == 1);
    CHECK(files.notes()[0].find("from 256 to") != std::string::npos);
    // Two descriptors for each file, one of them for O_DIRECT, and 256 for the rest of the process.
    ::rlimit raised{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &raised) == 0);
    CHECK(raised.rlim_cur == std::min<rlim_t>(before.rlim_max, 2 * 4096 + 256));
    std::set<std::int32_t> open;
    for (int i = 0; i < 4096; ++i) {
      auto const path = folder / std::to_string(i);
      write_range(path, 0, 1);
      auto const fd = files.open(path, O_RDONLY);
      REQUIRE(fd > 0);
      open.insert(fd);
    }
    CHECK(open.size() == 4096);
    CHECK(files.open_count() == 4096);
    CHECK(files.open("/etc/passwd", O_RDONLY) == -ENFILE);
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("registry: stat tells what the file is now, not what it was when it was opened") {
  scratch_folder folder;
  write_range(folder / "a", 0, 10);
  region_memory memory;
  file_registry files{memory.region, settled()};
  auto const fd = files.open(folder / "a", O_RDONLY);
  write_range(folder / "a", 10, 7);
  struct ::stat expected {};
  REQUIRE(::stat((folder / "a").c_str(), &expected) == 0);
  rpc::file_status status{};
  CHECK(files.stat(fd, status) == 0);
  CHECK(status.size == 17);
  CHECK(memory.size(fd) == 10);
  CHECK(status.inode == expected.st_ino);
  CHECK(status.device == expected.st_dev);
  CHECK(status.mode == expected.st_mode);
  CHECK(status.mtime_ns == expected.st_mtim.tv_sec * second + expected.st_mtim.tv_nsec);
}

TEST_CASE("registry: what stat says goes to the caller, and nothing stays open") {
  scratch_folder folder;
  write_range(folder / "a", 0, 1);
  registry_settings settings;
  settings.stat = [](int, struct ::stat&) { return errno = EIO, -1; };
  region_memory memory;
  file_registry files{memory.region, settings};
  CHECK(files.open(folder / "a", O_RDONLY) == -EIO);
  CHECK(files.open_count() == 0);
}

TEST_CASE("registry: opens and closes race without losing a count") {
  scratch_folder folder;
  for (auto const* name : {"a", "b", "c", "d"}) write_range(folder / name, 0, 10);
  region_memory memory{64, 64, 1 << 20, 3};
  file_registry files{memory.region, settled()};
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        auto const fd = files.open(folder / std::string(1, char('a' + (t + i) % 4)), O_RDONLY);
        if (fd == -ENFILE) continue;
        if (fd <= 0 || !files.is_open(fd) || files.borrow(fd) == nullptr || memory.size(fd) != 10)
          ++wrong;
        if (files.close(fd) != 0) ++wrong;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(files.open_count() == 0);
}
