// The storage backend: the answers of ordinary files, and a registry with another backend.
#include <host-daemon/backend/host_storage.hpp>
#include <host-daemon/base/trace_file.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <test/daemon/forwarding_file.hpp>
#include <test/daemon/forwarding_storage.hpp>
#include <test/daemon/harness.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

using namespace gpufs::daemon;
using gpufs::test::make_file;
using gpufs::test::region_memory;
using gpufs::test::scratch_folder;
using gpufs::test::text_of;

namespace {

// Ordinary files, but it notes the names that are opened and refuses unlink.
struct noting_storage final : gpufs::test::forwarding_storage {
  std::vector<std::string> opened;

  opened_file open(std::string const& path, int flags, unsigned mode) override {
    opened.push_back(path);
    return below.open(path, flags, mode);
  }
  int unlink(std::string const&) noexcept override { return -EDQUOT; }
};

// An ordinary file on a server that finds out at the end of writing that it has no room.
struct full_server_file final : gpufs::test::forwarding_file {
  using forwarding_file::forwarding_file;
  int end_writes() const noexcept override { return -EDQUOT; }
};

struct full_server final : gpufs::test::forwarding_storage {
  std::shared_ptr<stored_file const> wrap(std::shared_ptr<stored_file const> file) override {
    return std::make_shared<full_server_file const>(std::move(file));
  }
};

}  // namespace

TEST_CASE("storage: parts are written one behind the other, and read, sized and removed") {
  scratch_folder folder;
  host_storage storage;
  auto const path = folder / "a";
  auto const [file, error, opened, is_leased] = storage.open(path, O_RDWR | O_CREAT, 0644);
  REQUIRE(error == 0);
  std::string first = "one", second = "two";
  ::iovec const parts[] = {{first.data(), 3}, {second.data(), 3}};
  CHECK(file->write(parts, 2) == 6);
  CHECK(text_of(path) == std::string(2, '\0') + "onetwo");
  std::vector<std::byte> bytes(10);
  CHECK(file->read(bytes, 5) == 3);
  CHECK(bytes[0] == std::byte{'t'});
  CHECK(file->read(bytes, 8) == 0);
  CHECK(file->sync() == 0);
  CHECK(file->truncate(4) == 0);
  struct ::stat status {};
  CHECK(file->status(status) == 0);
  CHECK(status.st_size == 4);
  CHECK(opened.st_size == 0);  // the status of the moment of the open
  CHECK(opened.st_ino == status.st_ino);
  CHECK(storage.unlink(path) == 0);
  CHECK(storage.unlink(path) == -ENOENT);
  CHECK(storage.status(path, status) == -ENOENT);
  CHECK(file->status(status) == 0);  // an open file outlives its name
}

TEST_CASE("storage: errors are those of the system") {
  scratch_folder folder;
  host_storage storage;
  CHECK(storage.open(folder / "none", O_RDONLY, 0).error == -ENOENT);
  CHECK(storage.open(folder.path(), O_RDONLY, 0).error == -EISDIR);
  CHECK(storage.open("/dev/null", O_RDONLY, 0).error == -EOPNOTSUPP);
  auto const file = storage.open(make_file(folder, "a", 10), O_RDONLY, 0).file;
  REQUIRE(file);
  char byte = 0;
  ::iovec const part{&byte, 1};
  CHECK(file->write({&part, 1}, 0) == -EBADF);
  CHECK(file->truncate(0) == -EINVAL);
}

TEST_CASE("storage: a file does not get the number of a standard stream that is closed") {
  scratch_folder folder;
  host_storage storage;
  auto const path = make_file(folder, "a", 10);
  int kept[3] = {};
  for (int stream = 0; stream < 3; ++stream) {
    kept[stream] = ::fcntl(stream, F_DUPFD_CLOEXEC, 3);
    ::close(stream);
  }
  std::string why;
  auto const opened = storage.open(path, O_RDWR, 0);
  auto const trace = trace_file::open(folder / "trace", why);
  ssize_t written = 0;
  for (int stream = 0; stream < 3; ++stream) written += ::write(stream, "printed", 7);
  for (int stream = 0; stream < 3; ++stream) {
    if (kept[stream] < 0) continue;  // it was closed
    ::dup2(kept[stream], stream);
    ::close(kept[stream]);
  }
  REQUIRE(opened.error == 0);
  CHECK(opened.file->read_descriptor() > 2);
  CHECK(trace);
  CHECK(written == -3);
}

TEST_CASE("storage: extents are known in full, in order and without overlap, or not at all") {
  scratch_folder folder;
  host_storage storage;
  constexpr std::uint64_t size = 300'000;
  auto const file = storage.open(make_file(folder, "a", size), O_RDONLY, 0).file;
  REQUIRE(file);
  auto const extents = file->extents(1000, size - 1000);
  if (!extents) return;  // a file system that does not tell
  std::uint64_t at = 1000;
  for (auto const& e : *extents) {
    CHECK(e.offset == at);
    at += e.bytes;
  }
  CHECK(at == size);
}

TEST_CASE("storage: the extents of a file with many holes are all known") {
  scratch_folder folder;
  host_storage storage;
  constexpr std::uint64_t piece = 4096;
  for (std::uint64_t const pieces : {63u, 64u, 65u, 128u, 150u}) {
    CAPTURE(pieces);
    auto const path = folder / ("holes" + std::to_string(pieces));
    int const fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    REQUIRE(fd >= 0);
    std::vector<char> const bytes(piece, 'x');
    for (std::uint64_t i = 0; i < pieces; ++i)
      REQUIRE(::pwrite(fd, bytes.data(), piece, off_t(2 * i * piece)) == ssize_t(piece));
    ::close(fd);
    auto const extents = storage.open(path, O_RDONLY, 0).file->extents(0, 2 * pieces * piece);
    if (!extents) return;  // a file system that does not tell
    std::uint64_t told = 0;
    for (auto const& e : *extents) told += e.bytes;
    CHECK(extents->size() == pieces);
    CHECK(told == pieces * piece);
  }
}

TEST_CASE("storage: the registry opens and removes files by the storage that it is given") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", 100);
  auto const storage = std::make_shared<noting_storage>();
  region_memory memory;
  registry_settings settings;
  settings.storage = storage;
  file_registry files{memory.region, std::move(settings)};
  auto const fd = files.open(path, O_RDONLY);
  REQUIRE(fd > 0);
  CHECK(memory.size(fd) == 100);
  CHECK(storage->opened == std::vector<std::string>{path});
  CHECK(files.unlink(path) == -EDQUOT);
  CHECK(files.unlink(std::string("a\0b", 3)) == -EINVAL);
  CHECK(files.close(fd) == 0);
}

TEST_CASE(
    "storage: the last close of a writer returns what the storage says at the end of writing") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", 100);
  region_memory memory;
  gpufs::rpc::buffer_header header{};
  std::uint64_t posted = 0, written = 0, errors[64] = {}, marks[gpufs::rpc::mark_words(1)] = {};
  std::byte bytes[512] = {};
  auto region = memory.region;
  region.writes = {&header, &posted, &written, marks, bytes, errors, 1, 9};
  write_back writes{region.writes, nullptr};
  registry_settings settings;
  settings.storage = std::make_shared<full_server>();
  file_registry files{region, std::move(settings), &writes};
  auto const reader = files.open(path, O_RDONLY);
  auto const fd = files.open(path, O_RDWR);
  CHECK(files.open(path, O_RDWR) == fd);
  CHECK(files.close(fd) == 0);
  CHECK(files.close(fd) == -EDQUOT);
  CHECK(files.close(fd) == -EBADF);
  CHECK(files.close(reader) == 0);
}
