// Pieces at a constant distance that come into the page cache before they are wanted: what readers
// get, and what is left behind, when pages fail, the file ends, frames are few, or callers share.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/registered.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t kibi = 1 << 10, page = 4 * kibi;

config reading_ahead(std::uint64_t frames) {
  auto c = small_config(page, frames);
  c.path = io_path::pull;
  c.prefetch_size = prefetch_automatic;
  return c;
}

/// Reads `length` bytes of each of `pieces` places, `distance` apart. That of number `failing`
/// gives `error`.
read_batch series(int fd, std::string const& path, std::uint64_t pieces, std::uint64_t distance,
                  std::uint64_t length, std::uint64_t failing = ~0ull, int error = 0) {
  read_batch batch;
  for (std::uint64_t i = 0; i < pieces; ++i) {
    auto const at = std::int64_t(i * distance);
    if (i == failing)
      batch.add_failing(fd, at, length, error);
    else
      batch.add(fd, path, at, length);
  }
  return batch;
}

}  // namespace

TEST_CASE("pieces ahead: a page that cannot be read fails the read that wants it, and no other") {
  scratch_folder folder;
  constexpr std::uint64_t distance = 12 * kibi, pieces = 200, broken_piece = 77;
  auto const path = make_file(folder, "file", pieces * distance);
  for (auto const who : {caller_kind::block, caller_kind::tile}) {
    std::atomic<bool> broken{true};
    testing::filesystem fs(reading_ahead(1024), read_faults_at(broken_piece * distance, [&] {
                             return broken ? fault_action::fail(EIO) : fault_action::pass();
                           }));
    int const fd = fs.open(path, O_RDONLY);
    read_batch batch = series(fd, path, pieces, distance, 600, broken_piece, -EIO);
    batch.run(fs.ref(), 1, who == caller_kind::block ? 128 : 32, who);
    CHECK(batch.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");
    // It may have been ahead of another piece, too: that read was not concerned.
    CHECK(fs.stats().errors >= 1);
    CHECK(fs.stats().pages_ahead > pieces / 2);
    broken = false;
    read_batch healed;
    healed.add(fd, path, broken_piece * distance, 600);
    healed.run(fs.ref(), 1, 64);
    CHECK(healed.problems() == "");
  }
}

TEST_CASE(
    "pieces ahead: a page whose answer does not come fails the read that wants it, and no other") {
  scratch_folder folder;
  constexpr std::uint64_t distance = 12 * kibi, pieces = 120, held_piece = 100;
  auto const path = make_file(folder, "file", pieces * distance);
  auto const gate = std::make_shared<testing::gate>();
  auto c = reading_ahead(512);
  c.rpc_timeout_ms = 5000;
  testing::filesystem fs(
      c, read_faults_at(held_piece * distance, [gate] { return fault_action::hold(gate); }));
  int const fd = fs.open(path, O_RDONLY);
  read_batch batch = series(fd, path, pieces, distance, 600, held_piece, -ETIMEDOUT);
  batch.run(fs.ref(), 1, 96);
  CHECK(batch.problems() == "");
  CHECK(fs.stats().timeouts >= 1);
  gate->release();
  read_batch healed = series(fd, path, pieces, distance, 600);
  healed.run(fs.ref(), 1, 96);
  CHECK(healed.problems() == "");
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("pieces ahead: reads that come short are completed, and the file's end cuts the last") {
  scratch_folder folder;
  std::mt19937 random(seed());
  for (std::uint64_t const tail : {1ull, 100ull, 4095ull, 4096ull}) {
    constexpr std::uint64_t distance = 20000, pieces = 150;
    auto const path = make_file(folder, "file", pieces * distance + tail);
    std::atomic<std::uint32_t> calls{0};
    testing::filesystem fs(
        reading_ahead(1024), read_faults([&](std::uint64_t, std::uint64_t length) {
          return calls++ % 3 == 0 && length > 1 ? fault_action::shorten(length / 2)
                                                : fault_action::pass();
        }));
    int const fd = fs.open(path, O_RDONLY);
    auto const length = std::uint64_t(random() % page + 1);
    read_batch batch = series(fd, path, pieces + 1, distance, length);
    CAPTURE(tail);
    CAPTURE(length);
    batch.run(fs.ref(), 1, 96);
    CHECK(batch.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");
    CHECK(fs.stats().errors == 0);
    CHECK(fs.stats().pages_ahead > 0);
  }
}

TEST_CASE("pieces ahead: few frames and many callers, no error and no wrong byte") {
  scratch_folder folder;
  constexpr std::uint64_t size = 2 << 20;
  auto const path = make_file(folder, "file", size);
  std::mt19937 random(seed());
  for (std::uint64_t const frames : {8u, 16u, 61u, 300u}) {
    for (auto const who : {caller_kind::block, caller_kind::tile}) {
      filesystem fs(reading_ahead(frames));
      int const fd = fs.open(path, O_RDONLY);
      unsigned const blocks = who == caller_kind::block ? 6 : 3;
      unsigned const callers = who == caller_kind::block ? blocks : blocks * 4;
      read_batch batch;
      // Every caller has a distance, a length and a place of its own, and changes them now and
      // then.
      std::uint64_t at[16] = {}, distance[16] = {}, length[16] = {};
      for (unsigned i = 0; i < scaled(150, 60); ++i) {
        for (unsigned c = 0; c < callers; ++c) {
          if (i % 40 == 0 || at[c] >= size) {
            at[c] = random() % (size / 2);
            distance[c] = 2 * page + random() % (8 * page);
            length[c] = random() % page + 1;
          }
          batch.add(fd, path, std::int64_t(at[c]), length[c]);
          at[c] += distance[c];
        }
      }
      CAPTURE(frames);
      batch.run(fs.ref(), blocks, 128, who);
      CHECK(batch.problems() == "");
      CHECK(inspect(fs.ref()).problems == "");
      CHECK(fs.stats().errors == 0);
      CHECK(fs.stats().timeouts == 0);
    }
  }
}

TEST_CASE("pieces ahead: callers that share pages find those that one of them brought in") {
  scratch_folder folder;
  constexpr std::uint64_t record = 512, pages = 2000;
  auto const path = make_file(folder, "file", pages * page);
  filesystem fs(reading_ahead(4096));
  int const fd = fs.open(path, O_RDONLY);
  read_batch batch;
  // Each of 32 warps reads a record of every 16 KiB.
  for (std::uint64_t at = 0; at < pages * page; at += record)
    batch.add(fd, path, std::int64_t(at), record);
  batch.run(fs.ref(), 4, 256, caller_kind::tile);
  CHECK(batch.problems() == "");
  auto const s = fs.stats();
  CHECK(s.misses == pages);
  CHECK(s.host_bytes == pages * page);
  CHECK(s.pages_ahead >= pages / 4);
}

TEST_CASE("pieces ahead: pieces that were there already do not end a series") {
  scratch_folder folder;
  constexpr std::uint64_t distance = 16 * kibi, pieces = 400;
  auto const path = make_file(folder, "file", pieces * distance);
  filesystem fs(reading_ahead(1024));
  int const fd = fs.open(path, O_RDONLY);
  read_batch before;
  std::mt19937 random(seed());
  std::uint64_t there = 0;
  for (std::uint64_t i = 0; i < pieces; ++i) {
    if (random() % 3 != 0) continue;
    before.add(fd, path, std::int64_t(i * distance), 100);
    ++there;
  }
  before.run(fs.ref(), 8, 64);
  auto const first = fs.stats();
  CHECK(first.misses == there);
  read_batch batch = series(fd, path, pieces, distance, 512);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.problems() == "");
  auto const s = fs.stats() - first;
  CHECK(s.misses == pieces - there);
  CHECK(s.host_bytes == (pieces - there) * page);
  CHECK(s.pages_ahead >= (pieces - there) / 2);
}

TEST_CASE("pieces ahead: out of file windows no request is made") {
  scratch_folder folder;
  if (!device_registers()) return;
  constexpr std::uint64_t distance = 16 * kibi, windows = 40;
  std::uint64_t const size = windows * registered_window;
  auto const path = make_file(folder, "file", size);
  auto c = registered_config(page, 1024);
  c.prefetch_size = prefetch_automatic;
  filesystem fs(c);
  int const fd = fs.open(path, O_RDONLY);
  read_batch touch;
  for (std::uint64_t at = 0; at < size; at += registered_window)
    touch.add(fd, path, std::int64_t(at + page), 1);
  touch.run(fs.ref(), 1, 64);
  wait_until([&] { return fs.stats().windows_registered == windows; }, "all windows");
  auto const before = fs.stats();
  read_batch batch;
  for (std::uint64_t at = 0; at < size; at += distance) batch.add(fd, path, std::int64_t(at), 512);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.problems() == "");
  auto const s = fs.stats() - before;
  CHECK(s.read_requests == 0);
  CHECK(s.pages_ahead > size / distance / 2);
  CHECK(s.bytes_registered == size / distance * page);
}

TEST_CASE("pieces ahead: RANDOM advice and a fixed prefetch_size bring in none") {
  scratch_folder folder;
  constexpr std::uint64_t distance = 16 * kibi, pieces = 100;
  auto const path = make_file(folder, "file", pieces * distance);
  for (bool const random : {false, true}) {
    auto c = reading_ahead(512);
    if (!random) c.prefetch_size = 0;
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    if (random) CHECK(fs.advise(fd, 0, 0, advice::random) == 0);
    read_batch batch = series(fd, path, pieces, distance, 512);
    batch.run(fs.ref(), 1, 64);
    CHECK(batch.problems() == "");
    CHECK(fs.stats().pages_ahead == 0);
    CHECK(fs.stats().host_bytes == pieces * page);
  }
}

TEST_CASE("pieces ahead: where pages cannot be entered ahead, chunks bring the pieces") {
  scratch_folder folder;
  constexpr std::uint64_t distance = 16 * kibi, pieces = 300;
  auto const path = make_file(folder, "file", pieces * distance);
  for (bool const written : {false, true}) {
    auto c = reading_ahead(1024);
    if (!written) c.policy = replacement::fifo;
    filesystem fs(c);
    int const fd = fs.open(path, written ? O_RDWR : O_RDONLY);
    if (written) CHECK(fs.write(fd, "x", 1, std::int64_t(pieces * distance - 1)) == 1);
    read_batch batch = series(fd, path, pieces - 1, distance, 512);
    batch.run(fs.ref(), 1, 64);
    CAPTURE(written);
    CHECK(batch.problems() == "");
    CHECK(fs.stats().pages_ahead == 0);
    CHECK(fs.stats().prefetch_hits > pieces / 2);
  }
}

TEST_CASE("pieces ahead: callers that read the same pieces at once read them from the host once") {
  scratch_folder folder;
  constexpr std::uint64_t distance = 20 * kibi, pieces = 300;
  auto const path = make_file(folder, "file", pieces * distance);
  // The second begins at the end of a page, so that each piece lies in two.
  for (std::uint64_t const begin : {0ull, 4000ull}) {
    filesystem fs(reading_ahead(4096));
    int const fd = fs.open(path, O_RDONLY);
    constexpr unsigned callers = 8;
    read_batch batch;
    for (std::uint64_t i = 0; i < pieces; ++i)
      for (unsigned c = 0; c < callers; ++c)
        batch.add(fd, path, std::int64_t(begin + i * distance), 512);
    batch.run(fs.ref(), 2, callers / 2 * 32, caller_kind::tile);
    CAPTURE(begin);
    CHECK(batch.problems() == "");
    auto const pages = pieces * (begin == 0 ? 1 : 2);
    CHECK(fs.stats().misses == pages);
    fs.stop();  // answers what was still on its way
    CHECK(fs.stats().host_bytes * 10 <= pages * page * 11);
  }
}
