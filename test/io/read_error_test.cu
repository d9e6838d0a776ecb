// Reads that fail, come short, or meet a file that has become shorter.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t page = 512;

}  // namespace

TEST_CASE(
    "errors: a page that cannot be read gives -EIO to all who want it, the others are not "
    "concerned, and it heals") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 20 * page);
  std::atomic<bool> broken{true};
  testing::filesystem fs(
      small_config(page, 32), read_faults([&broken](std::uint64_t offset, std::uint64_t length) {
        return broken && offset <= 7 * page && offset + length > 7 * page ? fault_action::fail(EIO)
                                                                          : fault_action::pass();
      }));
  int const fd = fs.open(path, O_RDONLY);
  read_batch batch;
  for (unsigned i = 0; i < 16; ++i) batch.add_failing(fd, 7 * page + i, 40, -EIO);
  for (unsigned p = 0; p < 20; ++p) {
    if (p != 7) batch.add(fd, path, p * page, page, p);
  }
  for (auto const who : {caller_kind::block, caller_kind::tile}) {
    batch.run(fs.ref(), 8, 64, who);
    CHECK(batch.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");
  }
  CHECK(fs.stats().errors > 0);
  broken = false;
  read_batch healed;
  healed.add(fd, path, 0, 20 * page);
  healed.run(fs.ref(), 1, 64);
  CHECK(healed.problems() == "");
}

TEST_CASE("errors: the faults of a filesystem that cannot be made reach no other filesystem") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", page);
  config wrong = small_config(page, 8);
  wrong.page_size = page + 1;
  auto const faults =
      read_faults([](std::uint64_t, std::uint64_t) { return fault_action::fail(EIO); });
  CHECK_THROWS_AS(testing::filesystem(wrong, faults), config_error);
  CHECK(faults.use_count() == 1);
  filesystem fs(small_config(page, 8));
  read_batch batch;
  batch.add(fs.open(path, O_RDONLY), path, 0, page);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.problems() == "");
}

TEST_CASE("errors: every errno of the host arrives as it is") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 20 * page);
  for (int const error : {EIO, ENXIO, ESTALE, EDQUOT}) {
    testing::filesystem fs(
        small_config(page, 8),
        read_faults([error](std::uint64_t, std::uint64_t) { return fault_action::fail(error); }));
    int const fd = fs.open(path, O_RDONLY);
    read_batch batch;
    batch.add_failing(fd, 0, 100, -error);
    batch.add_failing(fd, 1, 20 * page, -error);
    batch.run(fs.ref(), 1, 64);
    CHECK(batch.problems() == "");
  }
}

TEST_CASE("errors: who waits for another's fetch gets its error, too") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 65536);
  for (std::uint64_t const size : {std::uint64_t{512}, std::uint64_t{65536}}) {
    std::atomic<bool> go_on{false};
    std::atomic<unsigned> asked{0};
    constexpr unsigned blocks = 8;
    testing::filesystem fs(small_config(size, 8), read_faults([&](std::uint64_t, std::uint64_t) {
                             asked.fetch_add(1);
                             go_on.wait(false);
                             return fault_action::fail(EIO);
                           }));
    int const fd = fs.open(path, O_RDONLY);
    read_batch batch;
    for (unsigned i = 0; i < blocks; ++i) batch.add_failing(fd, i, 100, -EIO);
    batch.start(fs.ref(), blocks, 64);
    wait_until([&] { return asked.load() > 0; }, "a read of the file");
    go_on = true;
    go_on.notify_all();
    batch.finish();
    CHECK(batch.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");
    CHECK(inspect(fs.ref()).ready == 0);
  }
}

TEST_CASE(
    "errors: a read that fails half-way returns the bytes before the failure, the next call the "
    "error") {
  scratch_folder folder;
  for (std::uint64_t const size : {std::uint64_t{512}, std::uint64_t{4096}, std::uint64_t{65536}}) {
    auto const path = make_file(folder, std::to_string(size), 8 * size, size);
    for (std::uint64_t const bad :
         {3 * size, 3 * size + 1, 3 * size + 100, 4 * size - 1}) {  // this byte cannot be read
      testing::filesystem fs(
          small_config(size, 16), read_faults([bad](std::uint64_t offset, std::uint64_t length) {
            if (offset == bad) return fault_action::fail(EIO);
            return offset < bad && offset + length > bad ? fault_action::shorten(bad - offset)
                                                         : fault_action::pass();
          }));
      int const fd = fs.open(path, O_RDONLY);
      read_batch batch;
      batch.add(fd, path, 0, bad);
      batch.add_failing(fd, std::int64_t(bad), 10, -EIO);
      batch.add(fd, path, std::int64_t(3 * size), bad - 3 * size, 3);
      batch.add_failing(fd, std::int64_t(bad), 3 * size, -EIO);
      batch.add(fd, path, std::int64_t(4 * size), 4 * size, 5);
      batch.run(fs.ref(), 1, 64);
      CHECK(batch.problems() == "");
      // The same with requests that go on beyond the bad byte.
      read_batch beyond;
      std::vector<std::uint64_t> const from{0, 17, 2 * size + 5, 3 * size, bad};
      for (auto const f : from) {
        if (f <= bad) beyond.add(fd, path, std::int64_t(f), 8 * size);
      }
      for (unsigned const threads : {32u, 128u}) {
        beyond.run(fs.ref(), 1, threads);
        auto const got = beyond.results();
        for (std::size_t i = 0; i < got.size(); ++i) {
          CAPTURE(size);
          CAPTURE(bad);
          CAPTURE(from[i]);
          CHECK(got[i] == (from[i] == bad ? -EIO : std::int64_t(bad - from[i])));
        }
      }
      CHECK(inspect(fs.ref()).problems == "");
    }
  }
}

TEST_CASE("short reads of the host are continued, whatever comes at a time") {
  CAPTURE(seed());
  scratch_folder folder;
  for (std::uint64_t const size : {std::uint64_t{512}, std::uint64_t{65536}}) {
    auto const path = make_file(folder, std::to_string(size), 10 * size + 99, size);
    std::atomic<std::uint64_t> calls{seed()};
    testing::filesystem fs(
        small_config(size, 8), read_faults([&calls, size](std::uint64_t, std::uint64_t) {
          std::mt19937_64 random(calls.fetch_add(1));
          return fault_action::shorten(random() % (random() % 2 == 0 ? size : 60) + 1);
        }));
    int const fd = fs.open(path, O_RDONLY);
    read_batch batch;
    for (unsigned i = 0; i < 16; ++i)
      batch.add(fd, path, std::int64_t(i * size / 2 + i), 2 * size, i);
    batch.run(fs.ref(), 4, 64);
    CHECK(batch.problems() == "");
    CHECK(fs.stats().errors == 0);
  }
}

TEST_CASE("a file that became shorter since it was opened ends where it ends now") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 10 * page);
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(path, O_RDONLY);
  set_size(path, 5 * page + 100);
  read_batch batch;
  batch.add(fd, path, 0, 10 * page);
  batch.add(fd, path, 5 * page + 50, 10 * page, 1);
  batch.add(fd, path, 7 * page, 10);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.problems() == "");
  CHECK(inspect(fs.ref()).problems == "");
}
