// Dirty pages that the host cannot write: which call reports the error, once; what stays dirty;
// what is given up, and when.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>

using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t page = 4096;

/// Fails writes that touch [begin, end) of the file as long as `error` is not 0.
struct failing_range {
  std::atomic<int> error{0};
  std::uint64_t begin = 0, end = ~0ull;
};

std::shared_ptr<scripted_faults> faults_of(std::shared_ptr<failing_range> const& range) {
  auto faults = std::make_shared<scripted_faults>();
  faults->on_write = [range](std::uint64_t offset, std::uint64_t length) {
    bool const touches = offset < range->end && offset + length > range->begin;
    return touches && range->error != 0 ? fault_action::fail(range->error) : fault_action::pass();
  };
  return faults;
}

/// A file of four pages, open, whose write-back fails as `range` says.
struct failing_file {
  scratch_folder folder;
  std::string path = make_file(folder, "file", 4 * page);
  std::shared_ptr<failing_range> range = std::make_shared<failing_range>();
  testing::filesystem fs{small_config(page, 8), faults_of(range)};
  int fd = fs.open(path, O_RDWR);
};

std::int64_t write_in_kernel(filesystem& fs, int fd, std::uint64_t offset,
                             std::vector<std::byte> const& bytes) {
  op_batch batch;
  batch.write(0, fd, std::int64_t(offset), bytes);
  batch.run(fs.ref(), 1, 64);
  return batch.result(0);
}

std::int64_t sync_in_kernel(filesystem& fs, int fd) {
  op_batch batch;
  batch.sync(0, fd);
  batch.run(fs.ref(), 1, 64);
  return batch.result(0);
}

/// Whether the daemon has answered the requests that destroy bytes and that callers gave up.
bool late_answers_are_there(filesystem const& fs) {
  auto const shared = fs.ref().link.shared;
  for (std::uint64_t i = 0; i < shared.channels; ++i) {
    auto& words = shared.completions[i];
    auto const given_up = std::atomic_ref<std::uint64_t>{words.given_up}.load();
    auto const answer = std::atomic_ref<std::uint64_t>{words.word}.load(std::memory_order_acquire);
    if (given_up != 0 && rpc::completion_sequence(answer) < given_up) return false;
  }
  return true;
}

}  // namespace

TEST_CASE(
    "a failed write-back is reported by gfsync once, keeps the page, and the next gfsync writes "
    "it") {
  for (int const error : {EIO, ENOSPC, EDQUOT, EFBIG, EROFS}) {
    scratch_folder folder;
    auto const path = make_file(folder, "file", 4 * page);
    auto expected = pread_bytes(path, 0, ~0ull);
    auto const range = std::make_shared<failing_range>();
    range->begin = page, range->end = 2 * page;
    testing::filesystem fs(small_config(page, 8), faults_of(range));
    int const fd = fs.open(path, O_RDWR);
    range->error = error;
    auto const bytes = some_bytes(1, 0, 100);
    std::copy(bytes.begin(), bytes.end(), expected.begin() + page);
    CAPTURE(error);
    CHECK(write_in_kernel(fs, fd, page, bytes) == 100);
    CHECK(sync_in_kernel(fs, fd) == -error);
    CHECK(fs.unwritten().size() == 1);
    CHECK(fs.unwritten()[0] == path + ": bytes 4096..4195");
    range->error = 0;
    CHECK(write_in_kernel(fs, fd, 3 * page, bytes) == 100);  // the error has been reported
    std::copy(bytes.begin(), bytes.end(), expected.begin() + 3 * page);
    CHECK(sync_in_kernel(fs, fd) == 0);
    CHECK(fs.unwritten().empty());
    CHECK(pread_bytes(path, 0, ~0ull) == expected);
    CHECK(inspect(fs.ref()).problems == "");
    CHECK(fs.close(fd) == 0);
  }
}

TEST_CASE(
    "gfsync of several blocks and a host thread's write on a full disk: none of them says that all "
    "is written, and each says why it is not") {
  constexpr unsigned blocks = scaled(8, 4);
  for (unsigned round = 0; round < scaled(10, 3); ++round) {
    CAPTURE(round);
    scratch_folder folder;
    auto const range = std::make_shared<failing_range>();
    testing::filesystem fs(small_config(page, 64), faults_of(range));
    int const fd = fs.open(make_file(folder, "file", blocks * page), O_RDWR);
    range->error = ENOSPC;
    op_batch batch;
    std::vector<std::size_t> writes, syncs;
    for (unsigned b = 0; b < blocks; ++b) {
      writes.push_back(batch.write(b, fd, b * std::int64_t(page), some_bytes(b, 0, 100)));
      syncs.push_back(batch.sync(b, fd));
    }
    std::atomic<bool> ended{false};
    std::vector<std::int64_t> host_writes;
    std::thread host([&] {
      std::byte const byte{1};
      do host_writes.push_back(fs.write(fd, &byte, 1, page / 2));
      while (!ended);
    });
    batch.run(fs.ref(), blocks, 64);
    ended = true;
    host.join();
    for (auto const result : host_writes) CHECK((result == 1 || result == -ENOSPC));
    for (unsigned b = 0; b < blocks; ++b) {
      // A gwrite may meet an error that no call has reported yet.
      auto const wrote = batch.result(writes[b]);
      CHECK((wrote == 100 || wrote == -ENOSPC));
      if (wrote == 100) CHECK(batch.result(syncs[b]) == -ENOSPC);
    }
    CHECK_FALSE(fs.unwritten().empty());
    range->error = 0;
    CHECK(fs.sync(fd) <= 0);
    CHECK(fs.unwritten().empty());
    CHECK(fs.close(fd) == 0);
  }
}

TEST_CASE("a gwrite that fails in part returns the bytes before the first page that failed") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 4 * page);
  auto const old = pread_bytes(path, 0, 4 * page);
  std::atomic<std::uint64_t> fails_at{~0ull};
  std::atomic<bool> holds{false};
  auto const gate = std::make_shared<testing::gate>();
  auto const faults = read_faults([&](std::uint64_t offset, std::uint64_t) {
    if (offset == 0 && holds) return fault_action::hold(gate);
    if (offset != fails_at) return fault_action::pass();
    gate->release();
    return fault_action::fail(EIO);
  });
  testing::filesystem fs(small_config(page, 8), faults);
  int const fd = fs.open(path, O_RDWR);
  SUBCASE("the first page") {
    fails_at = 0;
    CHECK(write_in_kernel(fs, fd, 100, some_bytes(1, 0, 2 * page)) == -EIO);
    CHECK(fs.sync(fd) == 0);
    CHECK(pread_bytes(path, 0, page) == std::vector(old.begin(), old.begin() + page));
  }
  SUBCASE("the last page") {
    fails_at = 2 * page;
    auto const bytes = some_bytes(2, 0, 2 * page + 100);
    CHECK(write_in_kernel(fs, fd, 0, bytes) == 2 * page);
    CHECK(fs.sync(fd) == 0);
    auto expected = old;
    std::copy(bytes.begin(), bytes.begin() + 2 * page, expected.begin());
    CHECK(pread_bytes(path, 0, ~0ull) == expected);
  }
  SUBCASE("a page behind one that waits for another caller's read") {
    fails_at = page;
    holds = true;
    std::thread reads([&] {
      op_batch batch;
      auto const read = batch.read(0, fd, 0, 10);
      batch.run(fs.ref(), 1, 64);
      CHECK(batch.result(read) == 10);
    });
    wait_until([&] { return gate->arrivals() != 0; }, "the read of the first page");
    auto const bytes = some_bytes(3, 0, page + 100);
    CHECK(write_in_kernel(fs, fd, 0, bytes) == page);
    reads.join();
    CHECK(fs.sync(fd) == 0);
    auto expected = old;
    std::copy(bytes.begin(), bytes.begin() + page, expected.begin());
    CHECK(pread_bytes(path, 0, ~0ull) == expected);
  }
  CHECK(inspect(fs.ref()).problems == "");
  CHECK(fs.close(fd) == 0);
}

TEST_CASE(
    "an error that gfsync has not reported fails the next gwrite, and host calls report it as "
    "well") {
  failing_file file;
  auto& [folder, path, range, fs, fd] = file;
  range->error = ENOSPC;
  auto const bytes = some_bytes(1, 0, 100);
  CHECK(write_in_kernel(fs, fd, 0, bytes) == 100);
  CHECK(fs.sync() == -EIO);  // of all files: some stay dirty
  CHECK(write_in_kernel(fs, fd, page, bytes) == -ENOSPC);
  CHECK(fs.sync(fd) == -ENOSPC);
  CHECK(write_in_kernel(fs, fd, page, bytes) == 100);
  CHECK(fs.close(fd) == -ENOSPC);
  CHECK(fs.unwritten().size() == 2);
  // The pages live on: the next open of the file reads them and can write them.
  range->error = 0;
  int const again = fs.open(path, O_RDWR);
  op_batch batch;
  auto const read = batch.read(0, again, 0, 100);
  // Write-back that began before may tell its error here, once.
  auto const first = batch.sync(0, again);
  auto const synced = batch.sync(0, again);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.bytes(read) == bytes);
  CHECK((batch.result(first) == 0 || batch.result(first) == -ENOSPC));
  CHECK(batch.result(synced) == 0);
  CHECK(fs.unwritten().empty());
  CHECK(pread_bytes(path, 0, 100) == bytes);
  CHECK(pread_bytes(path, page, 100) == bytes);
  CHECK(fs.close(again) == 0);
}

TEST_CASE(
    "the host does not write to a file whose dirty pages cannot be written, and they stay "
    "readable") {
  failing_file file;
  auto& [folder, path, range, fs, fd] = file;
  range->error = ENOSPC;
  auto const bytes = some_bytes(1, 0, 100);
  CHECK(write_in_kernel(fs, fd, 4 * page, bytes) == 100);
  auto const others = some_bytes(2, 0, 10);
  CHECK(fs.write(fd, others.data(), others.size(), 0) == -ENOSPC);
  CHECK(pread_bytes(path, 0, 10) != others);
  op_batch batch;
  auto const read = batch.read(0, fd, 4 * page, 100);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.bytes(read) == bytes);
  range->error = 0;
  CHECK(fs.write(fd, others.data(), others.size(), 0) == 10);
  CHECK(pread_bytes(path, 0, 10) == others);
  CHECK(pread_bytes(path, 4 * page, 100) == bytes);
  CHECK(fs.close(fd) == -ENOSPC);  // nobody has been told
}

TEST_CASE(
    "errors of a closed file's pages do not show in a file that is opened for writing later") {
  failing_file file;
  auto& [folder, path, range, fs, fd] = file;
  range->begin = 3 * page;  // of the first file alone
  range->error = ENOSPC;
  auto const bytes = some_bytes(1, 0, 100);
  int const once = fs.open(path, O_WRONLY | O_GWRONCE);
  CHECK(fs.close(fd) == 0);
  CHECK(write_in_kernel(fs, once, 3 * page, bytes) == 100);
  CHECK(fs.close(once) == -ENOSPC);
  CHECK(fs.unwritten().size() == 1);
  auto const other_path = make_file(folder, "other", page);
  for (int const flags : {O_RDWR, O_WRONLY | O_GWRONCE}) {
    int const other = fs.open(other_path, flags);
    CHECK(fs.sync() == -EIO);  // the closed file's page fails again
    CHECK(write_in_kernel(fs, other, 0, bytes) == 100);
    CHECK(sync_in_kernel(fs, other) == 0);
    CHECK(fs.close(other) == 0);
  }
  CHECK(pread_bytes(other_path, 0, 100) == bytes);
  range->error = 0;
  CHECK(fs.sync() == 0);
  CHECK(fs.unwritten().empty());
  CHECK(pread_bytes(path, 3 * page, 100) == bytes);
}

TEST_CASE("what is being written is listed as unwritten, since it may yet fail") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", page);
  std::atomic<int> under_way{0};
  std::atomic<bool> go_on{false};
  auto const faults = std::make_shared<scripted_faults>();
  faults->on_write = [&](std::uint64_t, std::uint64_t) {
    ++under_way;
    go_on.wait(false);
    return fault_action::fail(EIO);
  };
  testing::filesystem fs(small_config(page, 8), faults);
  struct release_at_end {
    std::atomic<bool>& flag;
    ~release_at_end() {
      flag = true;
      flag.notify_all();
    }
  } const released{go_on};  // before fs ends, whose threads may wait for it
  int const fd = fs.open(path, O_RDWR);
  CHECK(write_in_kernel(fs, fd, 0, some_bytes(1, 0, 100)) == 100);
  wait_until([&] { return under_way != 0; }, "a write in the background");
  std::atomic<bool> asking{false};
  std::vector<std::string> lines;
  std::thread asks([&] {
    asking = true;
    asking.notify_one();
    lines = fs.unwritten();
  });
  asking.wait(false);
  go_on = true;
  go_on.notify_all();
  asks.join();
  CHECK(lines == std::vector{path + ": bytes 0..99"});
  CHECK(fs.discard(fd) == 0);
  CHECK(fs.unwritten().empty());
  CHECK(fs.close(fd) == 0);
}

TEST_CASE(
    "of several errors the first is the one that is reported; the size counts bytes that could not "
    "be written") {
  scratch_folder folder;
  auto const path = folder / "file";
  auto const range = std::make_shared<failing_range>();
  testing::filesystem fs(small_config(page, 8), faults_of(range));
  int const fd = fs.open(path, O_RDWR | O_CREAT);
  range->error = EIO;
  auto const bytes = some_bytes(1, 0, 100);
  CHECK(write_in_kernel(fs, fd, 3 * page, bytes) == 100);
  CHECK(fs.sync() == -EIO);  // of all files
  range->error = ENOSPC;
  CHECK(fs.sync() == -EIO);
  CHECK(fs.sync(fd) == -EIO);
  CHECK(fs.sync(fd) == -ENOSPC);
  file_status status{};
  CHECK(fs.stat(fd, status) == 0);
  CHECK(status.size == 3 * page + 100);
  CHECK(pread_bytes(path, 0, ~0ull).empty());
  range->error = 0;
  CHECK(fs.close(fd) == 0);
  CHECK(pread_bytes(path, 3 * page, ~0ull) == bytes);
}

TEST_CASE("short writes are continued") {
  scratch_folder folder;
  auto const path = folder / "file";
  auto faults = std::make_shared<scripted_faults>();
  std::atomic<unsigned> calls{0};
  faults->on_write = [&calls](std::uint64_t, std::uint64_t) {
    return ++calls, fault_action::shorten(100);
  };
  testing::filesystem fs(small_config(page, 8), faults);
  int const fd = fs.open(path, O_RDWR | O_CREAT);
  auto const bytes = some_bytes(1, 0, 2 * page + 50);
  CHECK(write_in_kernel(fs, fd, 3, bytes) == std::int64_t(bytes.size()));
  CHECK(fs.close(fd) == 0);
  CHECK(calls > bytes.size() / 100);
  CHECK(pread_bytes(path, 3, ~0ull) == bytes);
}

TEST_CASE(
    "pages that cannot be written use up the write buffers: then -ENOMEM in bounded time, until "
    "they are discarded") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 64 * page);
  auto const other_path = make_file(folder, "other", 64 * page, 2);
  auto const before = pread_bytes(path, 0, ~0ull);
  auto const range = std::make_shared<failing_range>();
  auto c = small_config(page, 16);  // 8 write buffers
  c.rpc_timeout_ms = 2000;
  testing::filesystem fs(c, faults_of(range));
  int const fd = fs.open(path, O_RDWR);
  int const other = fs.open(other_path, O_RDWR);
  range->error = EIO;
  auto const bytes = some_bytes(1, 0, page);
  std::int64_t result = 0;
  unsigned written = 0;
  for (; written < 64; ++written) {
    result = write_in_kernel(fs, fd, written * page, bytes);
    if (result == -EIO) {  // one has failed in the background: report it, go on
      CHECK(fs.sync(fd) == -EIO);
      result = write_in_kernel(fs, fd, written * page, bytes);
    }
    if (result != std::int64_t(page)) break;
  }
  CHECK(written == 8);
  CHECK((result == -ENOMEM || result == -EIO));
  CHECK(write_in_kernel(fs, other, 0, bytes) == -ENOMEM);
  CHECK(fs.unwritten().size() == 8);
  op_batch reads;  // reads have frames left
  auto const read = reads.read(0, other, 0, 64 * page);
  auto const dirty = reads.read(1, fd, 0, 64 * page);
  reads.run(fs.ref(), 2, 64);
  CHECK(reads.bytes(read) == pread_bytes(other_path, 0, ~0ull));
  CHECK(reads.result(dirty) == std::int64_t(64 * page));
  CHECK(fs.discard(fd) == 0);
  CHECK(fs.unwritten().empty());
  range->error = 0;
  CHECK(write_in_kernel(fs, other, 0, bytes) == std::int64_t(page));
  op_batch after;
  auto const reread = after.read(0, fd, 0, 64 * page);
  after.run(fs.ref(), 1, 64);
  CHECK(after.bytes(reread) == before);
  CHECK(fs.close(fd) == 0);
  CHECK(fs.close(other) == 0);
  CHECK(pread_bytes(path, 0, ~0ull) == before);
  CHECK(pread_bytes(other_path, 0, page) == bytes);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("a file size limit of the process gives -EFBIG, and no signal") {
  scratch_folder folder;
  auto const path = folder / "file";
  filesystem fs(small_config(page, 8));
  int const fd = fs.open(path, O_RDWR | O_CREAT);
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto low = before;
  low.rlim_cur = 2 * page;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &low) == 0);
  auto const bytes = some_bytes(1, 0, 4 * page);
  auto const written = write_in_kernel(fs, fd, 0, bytes);
  int const first = fs.sync(fd);
  int const second = fs.sync(fd);
  // Host threads' own writes beyond the limit do not end the process either.
  auto const by_host = fs.discard(fd) == 0 ? fs.write(fd, bytes.data(), 10, 3 * page) : 0;
  auto const rewritten = write_in_kernel(fs, fd, 0, bytes);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(by_host == -EFBIG);
  CHECK(rewritten == std::int64_t(bytes.size()));
  CHECK(written == std::int64_t(bytes.size()));
  CHECK(first == -EFBIG);
  CHECK(second == -EFBIG);         // tried again, failed again
  static_cast<void>(fs.sync(fd));  // perhaps the background's try of the second gwrite
  CHECK(fs.sync(fd) == 0);
  CHECK(pread_bytes(path, 0, ~0ull) == bytes);
  CHECK(fs.close(fd) == 0);
}

TEST_CASE(
    "gfsync: every byte is written before the file is made durable; after a failure of that no "
    "gfsync succeeds until the file was closed") {
  scratch_folder folder;
  auto const path = folder / "file";
  std::mutex mutex;
  std::uint64_t written = 0;
  std::vector<std::uint64_t> written_at_sync;
  std::atomic<int> error{0};
  auto faults = std::make_shared<scripted_faults>();
  faults->on_write = [&](std::uint64_t, std::uint64_t length) {
    std::lock_guard const lock(mutex);
    written += length;
    return fault_action::pass();
  };
  faults->on_sync = [&] {
    std::lock_guard const lock(mutex);
    written_at_sync.push_back(written);
    return error != 0 ? fault_action::fail(error.exchange(0)) : fault_action::pass();
  };
  testing::filesystem fs(small_config(page, 32), faults);
  int const fd = fs.open(path, O_RDWR | O_CREAT);
  for (unsigned round = 1; round <= 5; ++round) {
    CHECK(write_in_kernel(fs, fd, round * 10 * page, some_bytes(round, 0, 5 * page + round)) ==
          std::int64_t(5 * page + round));
    CHECK(sync_in_kernel(fs, fd) == 0);
    CHECK(written_at_sync.size() == round);
    CHECK(written_at_sync.back() == round * 5 * page + round * (round + 1) / 2);
  }
  error = EIO;
  // The operating system takes the pages for clean now: another fdatasync would write none of them.
  CHECK(sync_in_kernel(fs, fd) == -EIO);
  CHECK(sync_in_kernel(fs, fd) == -EIO);
  CHECK(write_in_kernel(fs, fd, 0, some_bytes(1, 0, 10)) == 10);
  CHECK(fs.sync(fd) == -EIO);
  CHECK(fs.close(fd) == 0);
  int const again = fs.open(path, O_RDWR);
  CHECK(write_in_kernel(fs, again, 0, some_bytes(2, 0, 10)) == 10);
  CHECK(sync_in_kernel(fs, again) == 0);
  CHECK(fs.close(again) == 0);
}

TEST_CASE("gfsync: a failed sync is forgotten with the last descriptor, though pages stay dirty") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", page);
  std::atomic<bool> fails{true};
  auto faults = std::make_shared<scripted_faults>();
  auto const fault = [&](int error) {
    return fails ? fault_action::fail(error) : fault_action::pass();
  };
  faults->on_write = [&](std::uint64_t, std::uint64_t) { return fault(ENOSPC); };
  faults->on_sync = [&] { return fault(EIO); };
  testing::filesystem fs(small_config(page, 16), faults);
  int const fd = fs.open(path, O_RDWR);
  CHECK(write_in_kernel(fs, fd, 0, some_bytes(1, 0, 10)) == 10);
  CHECK(fs.sync(fd) == -ENOSPC);
  CHECK(fs.close(fd) == -ENOSPC);
  fails = false;
  int const again = fs.open(path, O_RDWR);
  CHECK(fs.sync(again) == 0);
  CHECK(fs.sync(again) == 0);
  CHECK(pread_bytes(path, 0, 10) == some_bytes(1, 0, 10));
}

TEST_CASE("a page that cannot be written keeps none beside it out of the file") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 4 * page);
  auto const before = pread_bytes(path, 0, ~0ull);
  auto faults = std::make_shared<scripted_faults>();
  // A hole of a full disk.
  faults->on_write = [](std::uint64_t offset, std::uint64_t length) {
    if (offset >= 2 * page || offset + length <= page) return fault_action::pass();
    return offset < page ? fault_action::shorten(page - offset) : fault_action::fail(ENOSPC);
  };
  testing::filesystem fs(small_config(page, 32), faults);
  int const fd = fs.open(path, O_RDWR);
  auto expected = some_bytes(1, 0, 4 * page);
  CHECK(write_in_kernel(fs, fd, 0, expected) == std::int64_t(4 * page));
  CHECK(fs.sync(fd) == -ENOSPC);
  CHECK(fs.unwritten().size() == 1);
  std::copy_n(before.begin() + page, page, expected.begin() + page);
  CHECK(pread_bytes(path, 0, ~0ull) == expected);
  CHECK(fs.discard(fd) == 0);
}

TEST_CASE("a filesystem that goes away writes what is dirty") {
  scratch_folder folder;
  auto const path = folder / "file";
  auto const bytes = some_bytes(1, 0, 10 * page + 5);
  for (bool const stopped : {false, true}) {
    filesystem fs(small_config(page, 64));
    int const fd = fs.open(path, O_WRONLY | O_CREAT | O_TRUNC);
    CHECK(write_in_kernel(fs, fd, 0, bytes) == std::int64_t(bytes.size()));
    if (stopped) fs.stop();
  }
  CHECK(pread_bytes(path, 0, ~0ull) == bytes);
}

TEST_CASE(
    "gftruncate of a file that cannot be written gives the error, truncates nothing, loses no "
    "order") {
  for (unsigned const others : {0, 3}) {
    for (bool const synced : {false, true}) {
      failing_file file;
      auto& [folder, path, range, fs, fd] = file;
      auto const old = pread_bytes(path, 0, ~0ull);
      range->error = ENOSPC;
      auto const first = some_bytes(1, 0, 8), second = some_bytes(2, 0, 8);
      op_batch batch;
      batch.write(0, fd, 0, first);
      for (unsigned i = 0; i < others; ++i)  // they may find the error of the first one
        batch.write(0, fd, std::int64_t((1 + i % 3) * page + 8 * i), first);
      batch.run(fs.ref(), 1, 64);
      if (synced) CHECK(sync_in_kernel(fs, fd) == -ENOSPC);
      op_batch cut;
      auto const longer = cut.truncate(0, fd, 16 * page), shorter = cut.truncate(0, fd, page);
      auto const size = cut.size_of(0, fd), read = cut.read(0, fd, 0, 8);
      cut.run(fs.ref(), 1, 64);
      CAPTURE(others);
      CAPTURE(synced);
      CHECK(cut.result(longer) == -ENOSPC);
      CHECK(cut.result(shorter) == -ENOSPC);
      CHECK(cut.result(size) == 4 * page);
      CHECK(cut.bytes(read) == first);
      CHECK(pread_bytes(path, 0, ~0ull) == old);
      range->error = 0;
      CHECK(sync_in_kernel(fs, fd) == -ENOSPC);  // of the truncations
      CHECK(write_in_kernel(fs, fd, 0, second) == 8);
      CHECK(sync_in_kernel(fs, fd) == 0);
      CHECK(pread_bytes(path, 0, 8) == second);
      op_batch after;
      auto const done = after.truncate(0, fd, page);
      auto const seen = after.read(0, fd, 0, 2 * page);
      after.run(fs.ref(), 1, 64);
      CHECK(after.result(done) == 0);
      CHECK(after.bytes(seen) == pread_bytes(path, 0, ~0ull));
      CHECK(after.bytes(seen).size() == page);
      CHECK(fs.close(fd) == 0);
    }
  }
}

TEST_CASE("gftruncate to less than the pages that cannot be written drops them") {
  failing_file file;
  auto& [folder, path, range, fs, fd] = file;
  range->begin = page;
  range->error = ENOSPC;
  CHECK(write_in_kernel(fs, fd, 2 * page, some_bytes(1, 0, 100)) == 100);
  CHECK(fs.sync(fd) == -ENOSPC);
  op_batch batch;
  auto const done = batch.truncate(0, fd, page);
  auto const size = batch.size_of(0, fd);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.result(done) == 0);
  CHECK(batch.result(size) == page);
  CHECK(fs.unwritten().empty());
  CHECK(fs.close(fd) == 0);
  CHECK(pread_bytes(path, 0, ~0ull).size() == page);
}

TEST_CASE("ranges that a wild store has damaged are not believed: -EIO, and no foreign memory") {
  struct damage {
    std::uint32_t begin, end;
  };
  // Beyond the page, back to front, of no bytes.
  for (auto const wild : {damage{0, 3 * page}, damage{2 * page, 3 * page}, damage{50, 20},
                          damage{~0u, ~0u}, damage{7, 7}}) {
    CAPTURE(wild.begin);
    failing_file file;
    auto& [folder, path, range, fs, fd] = file;
    auto expected = pread_bytes(path, 0, ~0ull);
    range->error = ENOSPC;  // it stays dirty
    CHECK(write_in_kernel(fs, fd, page, some_bytes(1, 0, 100)) == 100);
    CHECK(fs.sync(fd) == -ENOSPC);
    auto const& writes = fs.ref().link.shared.writes;
    std::uint64_t dirty = 0;
    while (writes.posted[dirty] == 0) ++dirty;
    auto& header = writes.headers[dirty];
    header.range[0] = {wild.begin, wild.end};
    range->error = 0;
    CHECK(fs.sync(fd) == -EIO);
    CHECK(pread_bytes(path, 0, ~0ull) == expected);
    // A good range of the page is written all the same.
    header.range[1] = {200, 201};
    header.ranges = 2;
    expected[page + 200] = writes.bytes[(dirty << writes.page_shift) + 200];
    CHECK(fs.sync(fd) == -EIO);
    CHECK(pread_bytes(path, 0, ~0ull) == expected);
    header.ranges = ~0u;
    header.page = ~0ull;
    CHECK(fs.sync(fd) == -EIO);
    CHECK(pread_bytes(path, 0, ~0ull) == expected);
    CHECK(fs.discard(fd) == 0);
    CHECK(fs.unwritten().empty());
    CHECK(fs.close(fd) == 0);
  }
}

TEST_CASE("O_TRUNC of a closed file drops the pages that could not be written; O_EXCL refuses it") {
  failing_file file;
  auto& [folder, path, range, fs, fd] = file;
  range->error = ENOSPC;
  CHECK(write_in_kernel(fs, fd, 100, some_bytes(1, 0, 8)) == 8);
  CHECK(fs.close(fd) == -ENOSPC);
  CHECK(fs.unwritten().size() == 1);
  CHECK(fs.open(path, O_RDWR | O_CREAT | O_EXCL | O_TRUNC) == -EEXIST);
  CHECK(fs.unwritten().size() == 1);
  range->error = 0;
  int const again = fs.open(path, O_RDWR | O_CREAT | O_TRUNC);
  CHECK(fs.unwritten().empty());
  auto const bytes = some_bytes(2, 0, 8);
  CHECK(write_in_kernel(fs, again, 0, bytes) == 8);
  CHECK(fs.close(again) == 0);
  CHECK(pread_bytes(path, 0, ~0ull) == bytes);
}

TEST_CASE("a truncation whose caller got -ETIMEDOUT does not come later, over newer bytes") {
  for (bool const by_open : {false, true}) {
    scratch_folder folder;
    auto const path = make_file(folder, "file", 4 * page);
    auto const gate = std::make_shared<testing::gate>();
    std::atomic<bool> held{false};
    auto faults = std::make_shared<scripted_faults>();
    auto const hold_first = [&] {
      return held.exchange(true) ? fault_action::pass() : fault_action::hold(gate);
    };
    if (by_open) {
      faults->on_open = [&](std::string_view) { return hold_first(); };
    } else {
      faults->on_write = [&](std::uint64_t, std::uint64_t) { return hold_first(); };
    }
    auto c = small_config(page, 16);
    c.rpc_timeout_ms = 300;
    testing::filesystem fs(c, faults);
    CAPTURE(by_open);
    auto const bytes = some_bytes(2, 0, page);  // whole pages need no answer of a slow host
    if (by_open) {
      CHECK(open_in_kernel(fs, path, O_RDWR | O_TRUNC) == -ETIMEDOUT);
      int const fd = fs.open(path, O_RDWR);
      CHECK(write_in_kernel(fs, fd, 2 * page, bytes) == std::int64_t(page));
      CHECK(fs.close(fd) == 0);
    } else {
      int const fd = fs.open(path, O_RDWR);
      CHECK(write_in_kernel(fs, fd, 0, bytes) == std::int64_t(page));
      wait_until([&] { return gate->arrivals() > 0; }, "the page is being written back");
      op_batch batch;
      auto const cut = batch.truncate(0, fd, page);
      batch.run(fs.ref(), 1, 64);
      CHECK(batch.result(cut) == -ETIMEDOUT);
      CHECK(open_patiently(fs, path) > 0);  // nobody is cutting the file
      CHECK(write_in_kernel(fs, fd, 2 * page, bytes) == std::int64_t(page));
    }
    gate->release();
    wait_until([&] { return late_answers_are_there(fs); }, "the late answer");
    CHECK(fs.sync() == 0);
    CHECK(pread_bytes(path, 0, ~0ull).size() == 4 * page);  // as it was
    CHECK(pread_bytes(path, 2 * page, page) == bytes);
  }
}
