// Write-back in the background: the order in which pages are written, and when they go on to the
// disk.
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <test/daemon/forwarding_file.hpp>
#include <test/daemon/forwarding_storage.hpp>
#include <test/daemon/harness.hpp>
#include <test/daemon/many_buffers.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

using gpufs::daemon::file_registry;
using gpufs::daemon::write_back;
using gpufs::test::many_buffers;
using gpufs::test::scratch_folder;
using gpufs::test::wait_until;

namespace {

constexpr std::uint64_t page_bytes = 1 << many_buffers::page_shift;

// Ordinary files. `begin` is called instead of begin_sync(). The next write gives `refusal`, unless
// that is 0, and ends of writing give `last_word`.
struct watched_storage final : gpufs::test::forwarding_storage {
  struct file final : gpufs::test::forwarding_file {
    watched_storage& storage;
    file(std::shared_ptr<stored_file const> f, watched_storage& s)
        : forwarding_file{std::move(f)}, storage{s} {}
    std::int64_t write(std::span<::iovec const> parts,
                       std::uint64_t offset) const noexcept override {
      int const refused = storage.refusal.exchange(0);
      return refused != 0 ? refused : below->write(parts, offset);
    }
    int end_writes() const noexcept override { return storage.last_word; }
    int begin_sync(std::uint64_t offset, std::uint64_t length) const noexcept override {
      return storage.begin(offset, length);
    }
  };
  std::function<int(std::uint64_t offset, std::uint64_t length)> begin;
  std::atomic<int> refusal{0}, last_word{0};

  std::shared_ptr<gpufs::daemon::stored_file const> wrap(
      std::shared_ptr<gpufs::daemon::stored_file const> f) override {
    return std::make_shared<file const>(std::move(f), *this);
  }
};

// Write-back of ordinary files. `begins` counts the calls of begin_sync(), which `begin` answers.
struct watched_files {
  using sending = std::function<int(std::uint64_t offset, std::uint64_t length)>;
  scratch_folder folder;
  many_buffers memory;
  std::shared_ptr<watched_storage> const storage = std::make_shared<watched_storage>();
  std::atomic<unsigned> begins{0};
  write_back writes;
  file_registry files;

  explicit watched_files(
      std::uint64_t write_behind = 0,
      sending const& begin = [](std::uint64_t, std::uint64_t) { return 0; })
      : writes{memory.region.writes, nullptr, nullptr, write_behind},
        files{memory.region, {.storage = storage}, &writes} {
    storage->begin = [this, begin](std::uint64_t offset, std::uint64_t length) {
      begins.fetch_add(1);
      return begin(offset, length);
    };
  }

  [[nodiscard]] std::int32_t open(std::string const& name) {
    auto const fd = files.open(folder / name, O_RDWR | O_CREAT, 0644);
    REQUIRE(fd > 0);
    return fd;
  }
  [[nodiscard]] bool all_clean(std::uint64_t count) const {
    for (std::uint64_t i = 0; i < count; ++i)  // write_back::unwritten() would lock buffers
      if (memory.marked(i)) return false;
    return true;
  }
  // Returns when the first `count` buffers are clean.
  void await_clean(std::uint64_t count) const {
    wait_until([&] { return all_clean(count); }, "written back");
  }
  // Writes page 0 of the file in full, and returns when that was to go to the disk.
  void send_first_page(std::int32_t fd) {
    writes.start(2);
    memory.dirty(0, memory.version(fd), 0, page_bytes);
    wait_until([&] { return begins.load() != 0; }, "sent to the disk");
    writes.stop();
  }
  // The file consists of so many pages that were written in full.
  void check_pages(std::string const& name, std::uint64_t pages) const {
    CHECK(gpufs::test::pread_bytes(folder / name, 0, ~0ull) ==
          std::vector<std::byte>(pages * page_bytes, std::byte{'x'}));
  }
};

// Has `threads` write `pages` pages in full, which `files` files share in turn. Returns how often
// they asked for bytes to go to the disk. `begin` is what asking does besides.
struct writing {
  unsigned threads = 2;
  std::uint64_t write_behind = 0;
  std::uint64_t pages = 2000;
  std::uint64_t files = 1;
  unsigned expected = 0;  // they have asked so often before they are stopped
};
unsigned begins(writing const& w, std::function<void(watched_files const&)> const& begin = {}) {
  watched_files t{w.write_behind, [&](std::uint64_t, std::uint64_t) {
                    if (begin) begin(t);
                    return 0;
                  }};
  std::vector<std::int32_t> opened;
  for (std::uint64_t f = 0; f < w.files; ++f) opened.push_back(t.open(std::to_string(f)));
  for (std::uint64_t i = 0; i < w.pages; ++i)
    t.memory.dirty(i, t.memory.version(opened[i % w.files]), i / w.files, page_bytes);
  if (w.threads == 0) {
    CHECK(t.writes.flush(nullptr) == 0);
  } else {
    t.writes.start(w.threads);
    t.await_clean(w.pages);
    wait_until([&] { return t.begins.load() >= w.expected; }, "bytes on their way to the disk");
    t.writes.stop();
  }
  auto const result = t.begins.load();
  for (std::uint64_t f = 0; f < w.files; ++f) {
    t.check_pages(std::to_string(f), w.pages / w.files);
    CHECK(t.files.close(opened[f]) == 0);
  }
  return result;
}

// What `call` says on stderr.
template <class Call>
std::string said_by(Call const& call) {
  scratch_folder const folder;
  auto const name = folder / "said";
  int const before = ::dup(2), to = ::open(name.c_str(), O_WRONLY | O_CREAT, 0600);
  ::dup2(to, 2);
  ::close(to);
  call();
  ::dup2(before, 2);
  ::close(before);
  return gpufs::test::text_of(name);
}

}  // namespace

TEST_CASE("background writes: neighbouring pages of many blocks go to the file in long calls") {
  watched_files t;
  auto const fd = t.open("file");
  // Blocks take 16 pages in turn, each in buffers of its own stretch.
  constexpr std::uint64_t blocks = 32, turns = 4, together = 16, stretch = 1000;
  constexpr auto pages = blocks * turns * together;
  for (std::uint64_t b = 0; b < blocks; ++b)
    for (std::uint64_t k = 0; k < turns * together; ++k)
      t.memory.dirty(b * stretch + k, t.memory.version(fd),
                     (k / together * blocks + b) * together + k % together, page_bytes);
  t.writes.start(1);
  t.await_clean(blocks * stretch);
  t.writes.stop();
  t.check_pages("file", pages);
  // A call takes 256 pages. The thread may find some pages a search later than the others.
  CHECK(t.writes.writes(0) >= pages / 256);
  CHECK(t.writes.writes(0) <= pages / 256 * 2);
  CHECK(t.files.close(fd) == 0);
}

TEST_CASE("background writes: what was written is sent to the disk, every write_behind bytes") {
  CHECK(begins({.write_behind = 600 * page_bytes, .expected = 1}) <= 2000 / 600);
  CHECK(begins({.write_behind = 2001 * page_bytes}) == 0);
  CHECK(begins({.write_behind = 0}) == 0);
  // Nobody who waits for pages to be written waits for the disk.
  CHECK(begins({.threads = 0, .write_behind = page_bytes}) == 0);
}

TEST_CASE("background writes: a full queue of the disk holds up one thread, and no page") {
  for (std::uint64_t const files : {1, 3}) {
    CAPTURE(files);
    writing const w{.write_behind = 16 * page_bytes, .pages = 3000, .files = files, .expected = 1};
    // The disk takes nothing until all pages are written.
    CHECK(begins(w, [](watched_files const& t) { t.await_clean(3000); }) >= 1);
  }
  // One thread for jobs leaves the disk alone.
  CHECK(begins({.threads = 1, .write_behind = 16 * page_bytes}) == 0);
}

TEST_CASE("background writes: pages behind those of a full search are written, too") {
  // A thread takes the 4096 that it finds first.
  CHECK(begins({.threads = 1, .pages = 20'000}) == 0);
  CHECK(begins({.threads = 3, .pages = 20'001, .files = 3}) == 0);
}

TEST_CASE("background writes: calls go on where the last one stopped, up to the end of the file") {
  std::uint64_t expected = 0;
  // One thread at a time calls this, and the next one sees what it has stored.
  watched_files t{page_bytes, [&](std::uint64_t offset, std::uint64_t length) {
                    CHECK((offset == expected || offset == 0));
                    CHECK(length != 0);
                    CHECK(length <= 64 << 20);
                    expected = offset + length;
                    return 0;
                  }};
  auto const fd = t.open("file");
  t.writes.start(2);
  // Each page lies 100 MB behind the last one.
  for (std::uint64_t round = 0; round < 20; ++round) {
    t.memory.dirty(round, t.memory.version(fd), round * 200'000, page_bytes);
    t.await_clean(round + 1);
  }
  wait_until([&] { return t.begins.load() >= 1; }, "sent to the disk");
  t.writes.stop();
  CHECK(t.files.close(fd) == 0);
}

TEST_CASE("background writes: an error of sending bytes to the disk shows at the next sync") {
  for (int const error : {EIO, ENOSPC, EDQUOT, EINVAL}) {
    CAPTURE(error);
    watched_files t{page_bytes, [&](std::uint64_t, std::uint64_t) { return -error; }};
    auto const fd = t.open("file");
    t.send_first_page(fd);
    // EINVAL: the storage cannot do that.
    CHECK(t.files.sync(fd) == (error == EINVAL ? 0 : -error));
    static_cast<void>(t.files.close(fd));
  }
}

TEST_CASE("background writes: an error of sending bytes to the disk shows at the last close") {
  for (int const error : {EIO, ENOSPC, EDQUOT}) {
    CAPTURE(error);
    watched_files t{page_bytes, [&](std::uint64_t, std::uint64_t) { return -error; }};
    auto const fd = t.open("file");
    t.send_first_page(fd);
    CHECK(t.files.close(fd) == -error);
  }
}

TEST_CASE("background writes: such an error does not hide later errors of writes from gwrite") {
  watched_files t{page_bytes, [&](std::uint64_t, std::uint64_t) { return -EIO; }};
  auto const fd = t.open("file");
  t.send_first_page(fd);
  auto const shown = [&] {
    auto const* const words = t.memory.region.writes.errors;
    return std::any_of(words, words + 64, [](std::uint64_t word) { return word != 0; });
  };
  CHECK_FALSE(shown());
  t.memory.dirty(1, t.memory.version(fd), 1, page_bytes);
  t.storage->refusal = -ENOSPC;
  CHECK(t.writes.flush(nullptr) == -ENOSPC);
  CHECK(shown());
  CHECK(t.files.close(fd) == -ENOSPC);
}

TEST_CASE("background writes: a close while another one is under way has its bytes in the file") {
  watched_files t;
  auto const fd = t.open("file");
  REQUIRE(t.files.begin_close(fd) == 1);
  REQUIRE(t.open("file") == fd);
  t.memory.dirty(0, t.memory.version(fd), 0, page_bytes);
  CHECK(t.files.close(fd) == 0);
  t.check_pages("file", 1);
  CHECK(t.files.begin_close(fd) == -EBADF);  // a close too many
  CHECK(t.files.is_open(fd));
  CHECK(t.files.finish_close(fd) == 0);
  CHECK_FALSE(t.files.is_open(fd));
}

TEST_CASE("background writes: what close(2) says is kept if nobody is told") {
  for (bool const is_told : {true, false}) {
    CAPTURE(is_told);
    watched_files t;
    auto const fd = t.open("file");
    auto const other = t.files.open(t.folder / "file", O_WRONLY);
    REQUIRE(t.files.begin_close(other) == 1);
    t.storage->last_word = -EDQUOT;
    CHECK(t.files.finish_close(other, [&] { return is_told; }) == (is_told ? -EDQUOT : -ETIMEDOUT));
    t.storage->last_word = 0;
    CHECK(t.files.close(fd) == (is_told ? 0 : -EDQUOT));
  }
}

TEST_CASE("background writes: what close(2) says at the end of a filesystem is said on stderr") {
  std::optional<watched_files> t;
  t.emplace();
  auto const fd = t->open("file");
  t->memory.dirty(0, t->memory.version(fd), 0, page_bytes);
  t->storage->last_word = -EDQUOT;
  CHECK(said_by([&] { t.reset(); }).find("bytes may be lost") != std::string::npos);
}

TEST_CASE(
    "background writes: stderr has the error of a last close that gave up, pages kept or not") {
  watched_files t;
  auto const fd = t.open("file");
  t.memory.dirty(0, t.memory.version(fd), 0, page_bytes);
  t.storage->refusal = -ENOSPC;
  REQUIRE(t.files.begin_close(fd) == 1);
  auto const said = said_by([&] {
    CHECK(t.files.finish_close(fd, [] { return false; }) == -ETIMEDOUT);
    CHECK(t.writes.flush(nullptr) == 0);
  });
  CHECK(said.find("no call has said so: No space left") != std::string::npos);
}

TEST_CASE("background writes: stderr has what close(2) says of pages that were kept and written") {
  watched_files t;
  auto const fd = t.open("file");
  t.memory.dirty(0, t.memory.version(fd), 0, page_bytes);
  t.storage->refusal = -ENOSPC;
  CHECK(t.files.close(fd) == -ENOSPC);
  CHECK(t.writes.flush(nullptr) == 0);
  t.storage->last_word = -EDQUOT;
  auto const said = said_by([&] { static_cast<void>(t.open("other")); });
  t.storage->last_word = 0;
  CHECK(said.find("bytes may be lost: Disk quota exceeded") != std::string::npos);
  CHECK(said.find("no call has said so") == std::string::npos);
}

TEST_CASE("background writes: an error of a write and a loss are told one after the other") {
  watched_files t;
  auto const fd = t.open("file");
  auto const other = t.files.open(t.folder / "file", O_WRONLY);
  t.memory.dirty(0, t.memory.version(fd), 0, page_bytes);
  t.storage->refusal = -ENOSPC;
  t.storage->last_word = -EDQUOT;
  CHECK(t.files.close(other) == -ENOSPC);
  t.storage->last_word = 0;
  CHECK(t.files.sync(fd) == -EDQUOT);
  CHECK(t.files.sync(fd) == -EDQUOT);  // no sync brings these bytes back
  CHECK(t.files.close(fd) == 0);
}

TEST_CASE("background writes: a sync whose caller has given up leaves the error to the next one") {
  watched_files t;
  auto const fd = t.open("file");
  t.memory.dirty(0, t.memory.version(fd), 0, page_bytes);
  t.storage->refusal = -ENOSPC;
  CHECK(t.files.sync(fd, [] { return false; }) == -ETIMEDOUT);
  CHECK(t.files.sync(fd, [] { return true; }) == -ENOSPC);
  CHECK(t.files.sync(fd) == 0);
  CHECK(t.files.close(fd) == 0);
}

TEST_CASE("background writes: a close that nobody waits for leaves errors to other descriptors") {
  for (bool const is_told : {true, false}) {
    CAPTURE(is_told);
    watched_files t;
    auto const fd = t.open("file");
    auto const other = t.files.open(t.folder / "file", O_WRONLY);
    REQUIRE(other > 0);
    t.memory.dirty(0, t.memory.version(fd), 0, page_bytes);
    t.storage->refusal = -ENOSPC;
    CHECK(t.writes.flush(nullptr) == -ENOSPC);
    CHECK(t.writes.flush(nullptr) == 0);
    REQUIRE(t.files.begin_close(other) == 1);
    CHECK(t.files.finish_close(other, [&] { return is_told; }) == (is_told ? -ENOSPC : -ETIMEDOUT));
    CHECK(t.files.sync(fd) == (is_told ? 0 : -ENOSPC));
    CHECK(t.files.close(fd) == 0);
  }
}
