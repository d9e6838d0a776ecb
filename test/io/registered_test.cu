// io_path=registered from kernel to file: kernels read registered windows without requests; the
// life of windows and files.
#include <gpufs/gpufs.hpp>
#include <gpufs/testing/faults.hpp>
#include <gpufs/testing/filesystem.hpp>

#include <test/support/advice.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/registered.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t kibi = 1 << 10;
constexpr std::uint64_t window = registered_window;

config auto_config(std::uint64_t page, std::uint64_t frames, std::uint64_t window_bytes) {
  auto c = registered_config(page, frames);
  c.path = io_path::automatic;
  c.file_window_size = window_bytes;
  return c;
}

std::uint64_t windows_of(std::uint64_t size, config const& c) {
  return (size + c.file_window_size - 1) / c.file_window_size;
}

struct scripted_device final : testing::fault_injector {
  std::function<fault_action(std::uint64_t offset)> on_map;
  fault_action before_map(std::uint64_t offset, std::uint64_t) override { return on_map(offset); }
};

std::shared_ptr<scripted_device> device_that(std::function<fault_action(std::uint64_t)> on_map) {
  auto faults = std::make_shared<scripted_device>();
  faults->on_map = std::move(on_map);
  return faults;
}

/// Each page of the file by one of 4 blocks, all bytes as pread has them.
void read_all(filesystem& fs, int fd, std::string const& path, std::uint64_t size) {
  auto const page = fs.settings().page_size;
  read_batch batch;
  for (std::uint64_t at = 0; at < size; at += page) batch.add(fd, path, std::int64_t(at), page, 0);
  batch.run(fs.ref(), 4, 64, caller_kind::block);
  CHECK(batch.problems() == "");
  CHECK(inspect(fs.ref()).problems == "");
}

/// Reads the file, which the cache cannot hold, until `windows` more of it are registered.
void read_until_registered(filesystem& fs, int fd, std::string const& path, std::uint64_t size,
                           std::uint64_t windows) {
  auto const before = fs.stats().windows_registered;
  wait_until(
      [&] {
        read_all(fs, fd, path, size);
        return fs.stats().windows_registered - before >= windows;
      },
      "windows that are registered");
}

/// Waits until the window thread has taken all offers so far. It takes them in turn, and the one
/// window of another file comes after them. Only one call per filesystem.
void wait_for_all_offers(filesystem& fs, scratch_folder const& folder) {
  auto const size = fs.settings().file_window_size;
  auto const path = make_file(folder, "the last offer", size);
  int const fd = fs.open(path, O_RDONLY);
  auto const before = fs.stats().windows_registered;
  CHECK(fs.advise(fd, 0, 0, advice::random) == 0);
  CHECK(fs.advise(fd, 0, 0, advice::willneed) == 0);
  wait_until([&] { return fs.stats().windows_registered > before; }, "the last window");
  CHECK(fs.close(fd) == 0);
}

void add_random_reads(read_batch& batch, std::mt19937_64& random, int fd, std::string const& path,
                      std::uint64_t size, std::uint64_t page, unsigned reads) {
  for (unsigned i = 0; i < reads; ++i)
    batch.add(fd, path, std::int64_t(random() % (size + page)),
              random() % 2 == 0 ? random() % 300 : random() % (3 * page), unsigned(random() % 64));
}

}  // namespace

TEST_CASE(
    "registered: after the first touch no request is made, for every page size, and the bytes are "
    "the "
    "file's") {
  if (!device_registers()) return;
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  constexpr std::uint64_t mebi = 1 << 20;
  for (std::uint64_t const page : {std::uint64_t(512), 4 * kibi, 64 * kibi, scaled(4, 1) * mebi}) {
    CAPTURE(page);
    scratch_folder folder;
    auto const c = registered_config(page, 8);
    auto const size = std::max(9 * page, scaled(4, 2) * window) + page / 2 + 77;
    auto const path = make_file(folder, "a", size, page);
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    read_until_registered(fs, fd, path, size, windows_of(size, c));
    for (auto const who : {caller_kind::block, caller_kind::tile}) {
      auto const before = fs.stats();
      read_batch batch;
      for (std::uint64_t at = 0; at < size; at += page)
        batch.add(fd, path, std::int64_t(at), page, 0);
      add_random_reads(batch, random, fd, path, size, page, page >= mebi ? 8 : scaled(200, 40));
      batch.run(fs.ref(), who == caller_kind::block ? 4 : 2, 64, who);
      CHECK(batch.problems() == "");
      auto const done = fs.stats() - before;
      CHECK(done.bytes_delivered == batch.bytes_expected());
      CHECK(done.requests == 0);
      CHECK(done.host_reads == 0);
      CHECK(done.bytes_pulled == 0);
      CHECK(done.bytes_registered > 0);
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
}

TEST_CASE(
    "auto: files that the host or a kernel advised to be read at random are registered as they are "
    "read, and those advised sequential are not") {
  if (!device_registers()) return;
  scratch_folder folder;
  auto const c = auto_config(4 * kibi, 8, window);
  auto const size = 4 * window;
  for (bool const by_kernel : {false, true}) {
    CAPTURE(by_kernel);
    auto const path = make_file(folder, by_kernel ? "a" : "b", size, 1);
    auto const other = make_file(folder, by_kernel ? "c" : "d", size, 2);
    filesystem fs(c);
    auto const advise = [&](int fd, advice what) {
      CHECK((by_kernel ? advise_in_kernel(fs.ref(), fd, 0, 0, what) : fs.advise(fd, 0, 0, what)) ==
            0);
    };
    int const fd = fs.open(path, O_RDONLY), other_fd = fs.open(other, O_RDONLY);
    CHECK(fs.advise(fd, 0, 0, advice::willneed) == 0);  // alone it is not about windows
    advise(fd, advice::random);
    advise(other_fd, advice::sequential);
    CHECK(fs.advise(other_fd, 0, 0, advice::willneed) == 0);
    for (int i = 0; i < 4; ++i) read_all(fs, other_fd, other, size);
    CHECK(fs.stats().windows_registered == 0);
    read_until_registered(fs, fd, path, size, 4);
    auto const before = fs.stats();
    read_all(fs, fd, path, size);
    read_all(fs, other_fd, other, size);
    auto const done = fs.stats() - before;
    CHECK(done.bytes_registered == size);
    CHECK(done.bytes_pulled == size);  // the other's
    CHECK(fs.stats().windows_registered == 4);
    CHECK(fs.notes() == filesystem(c).notes());  // nothing about registering
    // What comes behind willneed need not wait until it is read.
    CHECK(fs.advise(other_fd, 0, 0, advice::random) == 0);
    CHECK(fs.advise(other_fd, 0, 0, advice::willneed) == 0);
    wait_until([&] { return fs.stats().windows_registered == 8; }, "the other file's windows");
    CHECK(fs.close(fd) == 0);
    CHECK(fs.close(other_fd) == 0);
  }
}

TEST_CASE(
    "auto: random reads without advice get windows, for every page size, and then make no "
    "request") {
  if (!device_registers()) return;
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (std::uint64_t const page : {std::uint64_t(512), 4 * kibi, 64 * kibi}) {
    for (std::uint64_t const prefetch : {std::uint64_t(0), prefetch_automatic}) {
      CAPTURE(page);
      CAPTURE(prefetch);
      scratch_folder folder;
      auto c = auto_config(page, 8, std::max(page, window));
      c.prefetch_size = prefetch;
      auto const size = std::max(9 * page, scaled(6, 3) * window) + page / 2 + 77;
      auto const path = make_file(folder, "a", size, page);
      filesystem fs(c);
      int const fd = fs.open(path, O_RDONLY);
      auto const read_at_random = [&] {
        read_batch batch;
        for (unsigned i = 0; i < scaled(200, 60); ++i)
          batch.add(fd, path, std::int64_t(random() % size), 1 + random() % 300);
        batch.run(fs.ref(), 4, 64, caller_kind::block);
        CHECK(batch.problems() == "");
      };
      CHECK(fs.stats().registering_ns == 0);
      wait_until(
          [&] {
            read_at_random();
            return fs.stats().windows_registered == windows_of(size, c);
          },
          "windows that are registered");
      auto const before = fs.stats();
      CHECK(before.registering_ns > 0);
      read_at_random();
      read_batch sweep;  // of more pages than there are frames
      for (std::uint64_t at = 0; at < size; at += page) sweep.add(fd, path, std::int64_t(at), 1);
      sweep.run(fs.ref(), 4, 64, caller_kind::block);
      CHECK(sweep.problems() == "");
      auto const done = fs.stats() - before;
      CHECK(done.requests == 0);
      CHECK(done.host_reads == 0);
      CHECK(done.bytes_registered > 0);
      CHECK(done.registering_ns == 0);
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
}

TEST_CASE("auto: a stream gets no windows, however often it is read, with readahead") {
  if (!device_registers()) return;
  for (std::uint64_t const page : {4 * kibi, 64 * kibi}) {
    for (std::uint64_t const prefetch : {64 * kibi, prefetch_automatic}) {
      CAPTURE(page);
      CAPTURE(prefetch);
      scratch_folder folder;
      auto c = auto_config(page, 16, 16 * window);
      c.prefetch_size = prefetch;
      auto const size = 3 * c.file_window_size + 5000;
      auto const path = make_file(folder, "a", size, 1);
      filesystem fs(c);
      int const fd = fs.open(path, O_RDONLY);
      for (int pass = 0; pass < 4; ++pass) {
        read_batch batch;
        for (std::uint64_t at = 0; at < size; at += 50'000)
          batch.add(fd, path, std::int64_t(at), 50'000, 0);
        batch.run(fs.ref(), 1, 64, caller_kind::block);
        CHECK(batch.problems() == "");
      }
      CHECK(fs.stats().bytes_registered == 0);
      wait_for_all_offers(fs, folder);
      CHECK(fs.stats().windows_registered == 1);
    }
  }
}

TEST_CASE("auto: long pages that are read once get no windows; those that are read again do") {
  if (!device_registers()) return;
  scratch_folder folder;
  auto const c = auto_config(64 * kibi, 8, 16 * window);
  auto const size = 3 * c.file_window_size;
  auto const path = make_file(folder, "a", size, 1);
  filesystem fs(c);
  int const fd = fs.open(path, O_RDONLY);
  read_all(fs, fd, path, size);
  wait_for_all_offers(fs, folder);
  CHECK(fs.stats().windows_registered == 1);
  read_until_registered(fs, fd, path, size, 3);
}

TEST_CASE("auto: files that are or were written here get no windows, advice or not") {
  if (!device_registers()) return;
  scratch_folder folder;
  auto const c = auto_config(4 * kibi, 16, window);
  constexpr std::uint64_t size = 3 * window;
  auto const path = make_file(folder, "w", size, 1);
  filesystem fs(c);
  int const writer = fs.open(path, O_RDWR);
  int const reader = fs.open(path, O_RDONLY);
  auto const bytes = some_bytes(seed(), 0, 5000);
  op_batch ops;
  CHECK(ops.write(0, writer, 3000, bytes) == 0);
  ops.run(fs.ref(), 1, 64);
  auto const read_both = [&] {
    for (int pass = 0; pass < 3; ++pass)
      for (int const fd : {writer, reader}) {
        read_batch batch;
        // The written bytes are not yet in the file.
        for (std::uint64_t at = window; at < size; at += c.page_size)
          batch.add(fd, path, std::int64_t(at), c.page_size, 0);
        batch.run(fs.ref(), 4, 64, caller_kind::block);
        CHECK(batch.problems() == "");
      }
  };
  read_both();
  CHECK(fs.advise(reader, 0, 0, advice::random) == 0);
  read_both();
  wait_for_all_offers(fs, folder);
  CHECK(fs.stats().windows_registered == 1);
  op_batch check;
  auto const read = check.read(0, reader, 3000, 5000);
  check.run(fs.ref(), 1, 64);
  CHECK(check.bytes(read) == bytes);
}

TEST_CASE("auto: a file that was advised sequential gets windows once that advice is taken back") {
  if (!device_registers()) return;
  scratch_folder folder;
  auto const c = auto_config(4 * kibi, 8, window);
  constexpr std::uint64_t size = 3 * window;
  auto const path = make_file(folder, "a", size, 1);
  filesystem fs(c);
  int const fd = fs.open(path, O_RDONLY);
  CHECK(fs.advise(fd, 0, 0, advice::sequential) == 0);
  for (int pass = 0; pass < 4; ++pass) read_all(fs, fd, path, size);
  wait_for_all_offers(fs, folder);
  CHECK(fs.stats().windows_registered == 1);
  CHECK(fs.advise(fd, 0, 0, advice::normal) == 0);
  read_until_registered(fs, fd, path, size, 3);
}

TEST_CASE(
    "registered: a stream with readahead asks for nothing either once its windows are there") {
  if (!device_registers()) return;
  scratch_folder folder;
  for (std::uint64_t const prefetch : {60 * kibi, prefetch_automatic}) {
    auto c = registered_config(4 * kibi, 16);
    c.prefetch_size = prefetch;
    c.prefetch_depth = 2;
    constexpr std::uint64_t size = 8 * window + 5000;
    auto const path = make_file(folder, "a", size, 1);
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    read_until_registered(fs, fd, path, size, windows_of(size, c));
    auto const before = fs.stats();
    read_batch batch;
    for (std::uint64_t at = 0; at < size; at += 10'000)
      batch.add(fd, path, std::int64_t(at), 10'000, 0);
    batch.run(fs.ref(), 1, 64, caller_kind::block);
    CHECK(batch.problems() == "");
    CHECK((fs.stats() - before).requests == 0);
  }
}

TEST_CASE(
    "registered: while windows come, pages arrive in windows, chunks and by themselves, and all "
    "are "
    "right") {
  if (!device_registers()) return;
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (std::uint64_t const prefetch : {std::uint64_t(0), 28 * kibi, prefetch_automatic}) {
    for (auto const policy : {replacement::lra, replacement::clock}) {
      CAPTURE(prefetch);
      scratch_folder folder;
      auto c = registered_config(4 * kibi, 16);
      c.prefetch_size = prefetch;
      c.policy = policy;
      constexpr std::uint64_t size = scaled(24, 10) * window + 1234;
      auto const path = make_file(folder, "a", size, 3);
      filesystem fs(c);
      int const fd = fs.open(path, O_RDONLY);
      for (auto const who : {caller_kind::block, caller_kind::tile}) {
        read_batch batch;
        add_random_reads(batch, random, fd, path, size, c.page_size, scaled(300, 60));
        for (std::uint64_t at = 0; at < size; at += 40'000)
          batch.add(fd, path, std::int64_t(at), 40'000, 0);
        batch.run(fs.ref(), who == caller_kind::block ? 6 : 3, 64, who);
        CHECK(batch.problems() == "");
        CHECK(inspect(fs.ref()).problems == "");
      }
    }
  }
}

TEST_CASE("registered: willneed has a file registered before the first read") {
  if (!device_registers()) return;
  scratch_folder folder;
  auto const c = registered_config(4 * kibi, 8);
  constexpr std::uint64_t size = 100 * window + 10;
  auto const path = make_file(folder, "a", size, 1);
  filesystem fs(c);
  int const fd = fs.open(path, O_RDONLY);
  CHECK(fs.advise(fd, 2 * window, window + 1, advice::willneed) == 0);
  wait_until([&] { return fs.stats().windows_registered == 2; }, "windows that are registered");
  CHECK(fs.advise(fd, 0, 0, advice::willneed) == 0);
  wait_until([&] { return fs.stats().windows_registered == windows_of(size, c); },
             "windows that are registered");
  read_batch batch;
  for (std::uint64_t at = 0; at < size; at += window) batch.add(fd, path, std::int64_t(at), 100, 0);
  batch.run(fs.ref(), 4, 64, caller_kind::block);
  CHECK(batch.problems() == "");
  CHECK(fs.stats().requests == 0);
}

TEST_CASE("registered: files that share the table, and others too short to be worth it") {
  if (!device_registers()) return;
  scratch_folder folder;
  auto const c = registered_config(4 * kibi, 8);
  filesystem fs(c);
  constexpr std::uint64_t size = 2 * window - 100;
  std::vector<std::pair<std::string, int>> files;
  for (int i = 0; i < 12; ++i) {
    auto const path = make_file(folder, std::to_string(i), size, std::uint64_t(i));
    files.emplace_back(path, fs.open(path, O_RDONLY));
  }
  auto const small = make_file(folder, "small", window / 16 - 1, 99);
  int const fd = fs.open(small, O_RDONLY);
  read_all(fs, fd, small, window / 16 - 1);
  for (auto const& [path, file] : files) read_until_registered(fs, file, path, size, 2);
  auto const before = fs.stats();
  CHECK(before.windows_registered == 24);
  for (auto const& [path, file] : files) read_all(fs, file, path, size);
  CHECK((fs.stats() - before).requests == 0);
}

TEST_CASE(
    "registered: a file that is truncated, overwritten or replaced gives old bytes or fewer; the "
    "next "
    "open sees it as it is") {
  if (!device_registers()) return;
  scratch_folder folder;
  auto const c = registered_config(4 * kibi, 8);
  constexpr std::uint64_t size = 4 * window + 999;
  auto const path = make_file(folder, "a", size, 1);
  auto const old = pread_bytes(path, 0, size);
  filesystem fs(c);
  int fd = fs.open(path, O_RDONLY);
  read_until_registered(fs, fd, path, size, windows_of(size, c));

  set_size(path, window + 100);
  {
    op_batch ops;
    std::vector<std::size_t> reads;
    for (std::uint64_t at = 0; at < size; at += 10'000)
      reads.push_back(ops.read(0, fd, std::int64_t(at), 10'000));
    ops.run(fs.ref(), 1, 64);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      auto const n = ops.result(reads[i]);
      REQUIRE(n >= 0);
      auto const bytes = ops.bytes(reads[i]);
      std::uint64_t strange = 0;
      for (std::int64_t b = 0; b < n; ++b)
        strange += bytes[std::size_t(b)] != old[i * 10'000 + std::size_t(b)] &&
                           bytes[std::size_t(b)] != std::byte{0}
                       ? 1
                       : 0;
      CHECK(strange == 0);
    }
  }
  CHECK(fs.open(path, O_RDONLY) == fd);
  read_until_registered(fs, fd, path, window + 100, 2);
  CHECK(fs.stats().windows_retired == windows_of(size, c));

  let_stamps_age(path);
  write_range(path, 2, 0, size);
  CHECK(fs.open(path, O_RDONLY) == fd);
  read_until_registered(fs, fd, path, size, windows_of(size, c));

  auto const other = make_file(folder, "b", size, 3);
  auto const before = pread_bytes(path, 0, size);
  std::filesystem::rename(other, path);
  op_batch ops;
  auto const read = ops.read(0, fd, 0, size);  // the descriptor is of the file that has no name now
  ops.run(fs.ref(), 1, 64);
  CHECK(ops.result(read) == std::int64_t(size));
  CHECK(ops.bytes(read) == before);
  fd = fs.open(path, O_RDONLY);
  read_until_registered(fs, fd, path, size, windows_of(size, c));
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("registered: a file that shrinks just before it is registered does no harm") {
  if (!device_registers()) return;
  scratch_folder folder;
  auto const c = registered_config(4 * kibi, 8);
  constexpr std::uint64_t size = 3 * window;
  for (std::uint64_t const left : {window + 4000, std::uint64_t(0)}) {
    auto const path = make_file(folder, "a", size, 1);
    std::atomic<bool> done{false};
    auto const faults = device_that([&](std::uint64_t) {
      if (!done.exchange(true)) set_size(path, left);
      return fault_action::pass();
    });
    testing::filesystem fs(c, faults);
    int const fd = fs.open(path, O_RDONLY);
    auto const old = pread_bytes(path, 0, size);
    wait_until(
        [&] {
          op_batch ops;
          auto const read = ops.read(0, fd, 0, size);
          ops.run(fs.ref(), 1, 64);
          auto const n = ops.result(read);
          CHECK(n >= 0);
          auto const bytes = ops.bytes(read);
          std::uint64_t strange = 0;
          for (std::int64_t b = 0; b < n; ++b)
            strange += bytes[std::size_t(b)] != old[std::size_t(b)] &&
                               bytes[std::size_t(b)] != std::byte{0}
                           ? 1
                           : 0;
          CHECK(strange == 0);
          return done.load();
        },
        "the file cut off");
    CHECK(fs.open(path, O_RDONLY) == fd);
    read_all(fs, fd, path, left);
    CHECK(fs.notes().size() == filesystem(c).notes().size());
  }
}

TEST_CASE(
    "registered: no more than the budget is registered; the rest is staged; between kernels the "
    "oldest "
    "windows make room") {
  if (!device_registers()) return;
  scratch_folder folder;
  auto c = registered_config(4 * kibi, 8);
  c.registered_memory = 3 * window;
  constexpr std::uint64_t size = 6 * window;
  auto const path = make_file(folder, "a", size, 1);
  filesystem fs(c);
  auto const pinned = fs.pinned_bytes();
  int const fd = fs.open(path, O_RDONLY);
  wait_until(
      [&] {
        read_all(fs, fd, path, size);
        CHECK(fs.pinned_bytes() - pinned <= c.registered_memory);
        return fs.stats().windows_retired > 2 && fs.stats().windows_registered > 5;
      },
      "windows that make room for others");
  auto const s = fs.stats();
  CHECK(s.bytes_registered > 0);
  CHECK(s.bytes_pulled > 0);
  CHECK(s.errors == 0);
}

TEST_CASE("registered: windows retire while kernels pull, and what they pull is right") {
  if (!device_registers()) return;
  CAPTURE(seed());
  scratch_folder folder;
  auto c = registered_config(4 * kibi, 16);
  c.registered_memory = 5 * window;
  c.seats = 2;  // most contexts have none, so that the table's users are not all seen
  constexpr std::uint64_t size = 4 * window + 50;
  std::vector<std::string> const paths{make_file(folder, "a", size, 1),
                                       make_file(folder, "b", size, 2)};
  filesystem fs(c);
  std::vector<int> fds;
  for (auto const& path : paths) fds.push_back(fs.open(path, O_RDONLY));
  std::vector<std::string> problems(2);
  wait_until(
      [&] {
        std::vector<std::thread> callers;
        for (unsigned t = 0; t < 2; ++t) {
          callers.emplace_back([&, t] {
            std::mt19937_64 random(seed() + t);
            for (int kernel = 0; kernel < 8; ++kernel) {
              auto const f = random() % 2;
              read_batch batch;
              add_random_reads(batch, random, fds[f], paths[f], size, c.page_size, 40);
              batch.run(fs.ref(), 3, 64, caller_kind::block);
              if (problems[t].empty()) problems[t] = batch.problems();
            }
          });
        }
        for (auto& t : callers) t.join();
        return fs.stats().windows_retired >= 8;
      },
      "windows that retire");
  for (auto const& p : problems) CHECK(p == "");
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("registered: where the device refuses, everything is staged, and one note says so") {
  scratch_folder folder;
  auto const c = registered_config(4 * kibi, 8);
  constexpr std::uint64_t size = 3 * window + 1;
  auto const path = make_file(folder, "a", size, 1);
  auto const faults = device_that([](std::uint64_t) { return fault_action::fail(EPERM); });
  testing::filesystem fs(c, faults);
  int const fd = fs.open(path, O_RDONLY);
  auto const notes = [&] {
    std::uint64_t n = 0;
    for (auto const& note : fs.notes())
      n += note.find("io_path=registered") != std::string::npos ? 1 : 0;
    return n;
  };
  wait_until(
      [&] {
        read_all(fs, fd, path, size);
        return notes() != 0;
      },
      "a note");
  read_all(fs, fd, path, size);
  CHECK(notes() == 1);
  CHECK(fs.stats().windows_registered == 0);
  CHECK(fs.stats().bytes_registered == 0);
}

TEST_CASE("registered: while registering is stuck nothing waits for it") {
  if (!device_registers()) return;
  scratch_folder folder;
  auto const c = registered_config(4 * kibi, 8);
  constexpr std::uint64_t size = 80 * window;
  auto const path = make_file(folder, "a", size, 1);
  testing::gate shut;
  auto const faults = device_that([&](std::uint64_t) {
    shut.arrive();
    while (!shut.is_open()) std::this_thread::yield();
    return fault_action::pass();
  });
  testing::filesystem fs(c, faults);
  int const fd = fs.open(path, O_RDONLY);
  wait_until(
      [&] {
        read_all(fs, fd, path, 4 * window);
        return shut.arrivals() == 1;
      },
      "a window that is stuck");
  auto const touch_all = [&] {
    read_batch batch;
    for (std::uint64_t at = 0; at < size; at += window)
      batch.add(fd, path, std::int64_t(at), 100, 0);
    batch.run(fs.ref(), 4, 64, caller_kind::block);
    CHECK(batch.problems() == "");
  };
  touch_all();
  CHECK(shut.arrivals() == 1);
  CHECK(fs.stats().windows_registered == 0);
  CHECK(fs.stats().timeouts == 0);
  shut.release();
  wait_until(
      [&] {
        touch_all();
        return fs.stats().windows_registered == windows_of(size, c);
      },
      "windows that are registered");
}

TEST_CASE(
    "registered: files that are written are never registered, and what is written to one that was "
    "is "
    "seen") {
  if (!device_registers()) return;
  scratch_folder folder;
  auto c = registered_config(4 * kibi, 16);
  constexpr std::uint64_t size = 3 * window;
  auto const written = make_file(folder, "w", size, 1);
  auto const read_only = make_file(folder, "r", size, 2);
  filesystem fs(c);
  int const fd_w = fs.open(written, O_RDWR);
  int const fd_also = fs.open(written, O_RDONLY);
  for (int pass = 0; pass < 3; ++pass) {
    read_all(fs, fd_w, written, size);
    read_all(fs, fd_also, written, size);
  }
  int const fd_r = fs.open(read_only, O_RDONLY);
  read_until_registered(fs, fd_r, read_only, size, 3);
  CHECK(fs.stats().windows_registered ==
        3);  // whatever had been asked for before would have been registered before

  int const fd_now = fs.open(read_only, O_RDWR);
  auto const bytes = some_bytes(seed(), 0, 5000);
  op_batch ops;
  CHECK(ops.write(0, fd_now, 3000, bytes) == 0);
  auto const read = ops.read(0, fd_r, 3000, 5000);
  ops.run(fs.ref(), 1, 64);
  CHECK(ops.result(read) == 5000);
  CHECK(ops.bytes(read) == bytes);
  CHECK(fs.close(fd_now) == 0);
  read_all(fs, fd_r, read_only, size);
}

TEST_CASE("registered: with registered_memory 0 the way is auto's") {
  scratch_folder folder;
  auto c = registered_config(4 * kibi, 8);
  c.registered_memory = 0;
  auto const path = make_file(folder, "a", 2 * window, 1);
  filesystem fs(c);
  CHECK(fs.ref().windows.entries == nullptr);
  int const fd = fs.open(path, O_RDONLY);
  for (int pass = 0; pass < 2; ++pass) read_all(fs, fd, path, 2 * window);
  CHECK(fs.stats().windows_registered == 0);
}
