// Names of attached files, with files that do nothing: opens, and the end of an attachment while
// opens and readers are under way.
#include <host-daemon/backend/attached_files.hpp>
#include <host-daemon/backend/host_storage.hpp>

#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

using namespace gpufs::daemon;
using gpufs::test::make_file;
using gpufs::test::scratch_folder;
using std::chrono::milliseconds;

namespace {

struct idle_file final : stored_file {
  int status_error = 0;
  ::mode_t mode = S_IFBLK | 0660;
  std::shared_ptr<std::atomic<bool>> gone;

  ~idle_file() override {
    if (gone) *gone = true;
  }
  int read_descriptor() const noexcept override { return -1; }
  direct_file const& direct() const override {
    static direct_file const none{-1};
    return none;
  }
  int status(struct ::stat& out) const noexcept override {
    out = {};
    out.st_mode = mode;
    out.st_size = 7;
    return status_error;
  }
  std::int64_t read(std::span<std::byte>, std::uint64_t) const noexcept override { return 0; }
  std::int64_t write(std::span<::iovec const>, std::uint64_t) const noexcept override { return 0; }
  int sync() const noexcept override { return 0; }
  int truncate(std::uint64_t) const noexcept override { return -EINVAL; }
  int advise(std::int64_t, std::int64_t, int) const noexcept override { return 0; }
  std::optional<std::vector<file_extent>> extents(std::uint64_t, std::uint64_t) const override {
    return std::nullopt;
  }
};

struct scene {
  attached_files files{"x:", std::make_shared<host_storage>()};
  std::shared_ptr<std::atomic<bool>> gone = std::make_shared<std::atomic<bool>>(false);

  scene() {
    auto file = std::make_shared<idle_file>();
    file->gone = gone;
    CHECK(files.attach("a", std::move(file)) == 0);
  }
};

bool never() { return false; }
constexpr milliseconds long_wait{120'000};

}  // namespace

TEST_CASE("attached files: names with the prefix are theirs, others are the host's") {
  scene s;
  scratch_folder folder;
  auto const path = make_file(folder, "b", 10);
  CHECK(s.files.open(path, O_RDONLY, 0).error == 0);
  struct ::stat status {};
  CHECK(s.files.status(path, status) == 0);
  CHECK(status.st_size == 10);
  CHECK(s.files.unlink(path) == 0);
  CHECK(s.files.open("x:a", O_RDWR, 0).status.st_size == 7);
  CHECK(s.files.status("x:a", status) == 0);
  CHECK(status.st_size == 7);
  CHECK(s.files.unlink("x:a") == -EINVAL);
  CHECK(s.files.open("x:b", O_RDWR, 0).error == -ENOENT);
  CHECK(s.files.status("x:b", status) == -ENOENT);
  CHECK(s.files.find("b") == nullptr);
  for (int const flag : {O_CREAT, O_TRUNC, O_APPEND})
    CHECK(s.files.open("x:a", O_RDWR | flag, 0600).error == -EINVAL);
  CHECK(s.files.attach("a", std::make_shared<idle_file>()) == -EEXIST);
  CHECK(s.files.detach("b", never, long_wait) == -ENOENT);
}

TEST_CASE("attached files: a file without a status or without writers is not opened so") {
  scene s;
  auto broken = std::make_shared<idle_file>();
  broken->status_error = -EIO;
  auto reading = std::make_shared<idle_file>();
  reading->mode = S_IFBLK | 0440;
  CHECK(s.files.attach("broken", std::move(broken)) == 0);
  CHECK(s.files.attach("reading", std::move(reading)) == 0);
  CHECK(s.files.open("x:broken", O_RDONLY, 0).error == -EIO);
  CHECK(s.files.open("x:reading", O_WRONLY, 0).error == -EROFS);
  CHECK(s.files.open("x:reading", O_RDONLY, 0).error == 0);
  CHECK(s.files.detach("broken", never, long_wait) == 0);  // a failed open leaves nothing behind
}

TEST_CASE("attached files: detach refuses while a descriptor is open, and then works") {
  scene s;
  auto opened = s.files.open("x:a", O_RDONLY, 0);
  CHECK(s.files.detach(
            "a", [] { return true; }, long_wait) == -EBUSY);
  // Nobody says that it is open, but it is not given back in time.
  CHECK(s.files.detach("a", never, milliseconds{1}) == -EBUSY);
  CHECK(s.files.open("x:a", O_RDONLY, 0).error == 0);
  opened.file.reset();
  CHECK_FALSE(*s.gone);
  CHECK(s.files.detach(
            "a", [] { return true; }, long_wait) == 0);
  CHECK(*s.gone);
}

TEST_CASE("attached files: a file is gone when detach returns, whoever gave it back") {
  for (unsigned round = 0; round < 2000; ++round) {
    scene s;
    auto opened = s.files.open("x:a", O_RDONLY, 0);
    std::thread giving_back{[file = std::move(opened.file)]() mutable { file.reset(); }};
    CHECK(s.files.detach("a", never, long_wait) == 0);
    CHECK(*s.gone);
    giving_back.join();
  }
}

TEST_CASE(
    "attached files: detach waits for pointers that are given back late, and no open begins") {
  scene s;
  auto opened = s.files.open("x:a", O_RDONLY, 0);
  std::atomic<bool> asked{false};
  int result = -1;
  std::thread detaching{[&] {
    result = s.files.detach(
        "a",
        [&] {
          asked = true;
          return false;
        },
        long_wait);
  }};
  while (!asked) std::this_thread::yield();
  CHECK(s.files.open("x:a", O_RDONLY, 0).error == -EBUSY);
  CHECK(s.files.detach("a", never, long_wait) == -EBUSY);  // another thread is at it
  opened.file.reset();
  detaching.join();
  CHECK(result == 0);
  CHECK(*s.gone);
  CHECK(s.files.open("x:a", O_RDONLY, 0).error == -ENOENT);
}
