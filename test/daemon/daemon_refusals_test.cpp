// The file registry: the paths that it does not open, and the descriptors that it does not take.
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <test/daemon/harness.hpp>
#include <test/support/leased_file.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

using gpufs::daemon::file_registry;
using gpufs::daemon::registry_settings;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::settled;
using gpufs::test::write_range;
namespace rpc = gpufs::rpc;

TEST_CASE("registry: the descriptors of another filesystem are bad") {
  scratch_folder folder;
  write_range(folder / "a", 0, 1);
  region_memory memory, others_memory;
  file_registry files{memory.region, settled()};
  file_registry others{others_memory.region, settled()};
  auto const fd = files.open(folder / "a", O_RDONLY);
  auto const other = others.open(folder / "a", O_RDONLY);
  CHECK(fd != other);
  rpc::file_status status{};
  CHECK(files.stat(other, status) == -EBADF);
  CHECK(others.stat(fd, status) == -EBADF);
  CHECK(others.close(fd) == -EBADF);
  CHECK(files.stat(fd, status) == 0);
}

TEST_CASE("registry: what cannot be opened says why") {
  scratch_folder folder;
  write_range(folder / "a", 0, 1);
  region_memory memory;
  file_registry files{memory.region};
  CHECK(files.open(folder / "missing", O_RDONLY) == -ENOENT);
  CHECK(files.open("", O_RDONLY) == -ENOENT);
  CHECK(files.open(folder / "a/below", O_RDONLY) == -ENOTDIR);
  CHECK(files.open(folder / "", O_RDONLY) == -EISDIR);
  CHECK(files.open(folder / "a", O_RDONLY | O_DIRECTORY) == -EINVAL);
  CHECK(files.open("/dev/zero", O_RDONLY) == -EOPNOTSUPP);
  CHECK(files.open(std::string_view{"a\0b", 3}, O_RDONLY) == -EINVAL);
  CHECK(files.open(std::string(4096, 'x'), O_RDONLY) == -ENAMETOOLONG);
  CHECK(files.open(std::string(4095, '/') + "", O_RDONLY) == -EISDIR);
  for (int const flags : {O_WRONLY, O_RDWR, O_RDONLY | O_CREAT, O_RDONLY | O_TRUNC})
    CHECK(files.open(folder / "a", flags) == -EROFS);
  std::filesystem::create_symlink(folder / "a", folder / "symlink");
  CHECK(files.open(folder / "symlink", O_RDONLY | O_NOFOLLOW) == -ELOOP);
  CHECK(files.open_count() == 0);

  SUBCASE("a FIFO without a writer, at once") {
    REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
    CHECK(files.open(folder / "fifo", O_RDONLY) == -EOPNOTSUPP);
  }
  SUBCASE("a socket") {
    int const s = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, (folder / "socket").c_str(), sizeof address.sun_path - 1);
    REQUIRE(::bind(s, reinterpret_cast<::sockaddr*>(&address), sizeof address) == 0);
    CHECK(files.open(folder / "socket", O_RDONLY) == -EOPNOTSUPP);
    ::close(s);
  }
  SUBCASE("no permission") {
    if (::geteuid() == 0) {
      MESSAGE("skipped: root may read everything");
    } else {
      ::chmod((folder / "a").c_str(), 0);
      CHECK(files.open(folder / "a", O_RDONLY) == -EACCES);
    }
  }
}

TEST_CASE("registry: O_EXCL finds everything that has the name, also if there is no place") {
  scratch_folder folder;
  for (unsigned const places : {4u, 1u}) {
    CAPTURE(places);
    region_memory memory{64, 64, 1 << 20, places, 4};
    gpufs::daemon::write_back writes{memory.region.writes, nullptr};
    file_registry files{memory.region, settled(), &writes};
    write_range(folder / "a", 0, 1);
    REQUIRE(files.open(folder / "a", O_RDONLY) > 0);
    for (int const flags : {O_RDWR, O_RDONLY, O_RDWR | O_TRUNC}) {
      CHECK(files.open(folder.path(), flags | O_CREAT | O_EXCL, 0644) == -EEXIST);
      CHECK(files.open("/dev/zero", flags | O_CREAT | O_EXCL, 0644) == -EEXIST);
    }
    CHECK(files.open(folder.path(), O_RDWR | O_CREAT, 0644) == -EISDIR);
    CHECK(files.open("/dev/zero", O_RDWR | O_CREAT, 0644) == -EOPNOTSUPP);
  }
}

TEST_CASE("registry: an open waits for the holder of a lease, until write-back ends") {
  enum class ends { by_holder, by_stop };
  for (auto const how : {ends::by_holder, ends::by_stop}) {
    CAPTURE(int(how));
    gpufs::test::leased_file const leased{1};
    if (!leased.is_leased()) return;
    region_memory memory{64, 64, 1 << 20, 4, 4};
    gpufs::daemon::write_back writes{memory.region.writes, nullptr};
    file_registry files{memory.region, settled(), &writes};
    std::int32_t opened = 0;
    std::jthread opens{[&] { opened = files.open(leased.path(), O_RDWR); }};
    gpufs::test::wait_until([&] { return leased.is_wanted(); }, "the open");
    CHECK(files.try_open(leased.path(), O_RDONLY) == 0);
    CHECK(files.open(leased.path(), O_RDONLY, 0, {}, file_registry::leased::returns) == 0);
    if (how == ends::by_holder) leased.let_go();
    if (how == ends::by_stop) writes.stop();
    opens.join();
    if (how == ends::by_holder)
      CHECK(opened > 0);
    else
      CHECK(opened == -ETIMEDOUT);
    CHECK(files.open_count() == (how == ends::by_holder ? 1 : 0));
  }
}

TEST_CASE("registry: descriptors that were never given out are bad") {
  region_memory memory{64, 64, 1 << 20, 4};
  file_registry files{memory.region};
  rpc::file_status status{};
  for (std::int32_t const fd :
       {-1, 0, 3, 1 << 16, (1 << 16) + 4, 0x7fffffff, std::int32_t(0x80000000)}) {
    CHECK(files.close(fd) == -EBADF);
    CHECK(files.stat(fd, status) == -EBADF);
    CHECK_FALSE(files.is_open(fd));
    CHECK(files.borrow(fd) == nullptr);
  }
}

TEST_CASE("registry: a file of up to 2^48 bytes opens, a larger one is refused") {
  scratch_folder folder;
  write_range(folder / "a", 0, 1);
  std::int64_t size = std::int64_t(1) << 48;
  registry_settings settings;
  settings.stat = [&](int fd, struct ::stat& status) {
    int const result = ::fstat(fd, &status);
    status.st_size = size;
    return result;
  };
  region_memory memory;
  file_registry files{memory.region, settings};
  auto const fd = files.open(folder / "a", O_RDONLY);
  REQUIRE(fd > 0);
  CHECK(files.close(fd) == 0);
  ++size;
  CHECK(files.open(folder / "a", O_RDONLY) == -EFBIG);
  CHECK(files.open_count() == 0);
}
