// Reads that the daemon copies out of views of files: what gread gives, and when files have none.
#include <gpufs/gpufs.hpp>

#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>

#include <fcntl.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t size = 6 << 20;

config small_cache() {
  auto c = small_config(4096, 64);
  c.path = io_path::pull;
  return c;
}

// Reads pieces at random and compares them with what pread gives. Returns the bytes that came out
// of views.
std::uint64_t read_at_random(filesystem& fs, int fd, std::string const& path,
                             std::mt19937_64& random) {
  read_batch batch;
  for (int i = 0; i < 400; ++i)
    batch.add(fd, path, std::int64_t(random() % size), 1 + random() % 20'000,
              unsigned(random() % 64));
  auto const before = fs.stats();
  batch.run(fs.ref(), 4, 64, caller_kind::tile);
  CHECK(batch.problems() == "");
  return (fs.stats() - before).host_bytes_viewed;
}

}  // namespace

TEST_CASE("greads of a file that others rewrite, cut and lengthen between its opens") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", size);
  std::mt19937_64 random{seed()};
  filesystem fs{small_cache()};
  for (std::uint64_t round = 0; round < 12; ++round) {
    int const fd = fs.open(path, O_RDONLY);
    REQUIRE(fd > 0);
    CHECK(read_at_random(fs, fd, path, random) > 0);
    CHECK(fs.close(fd) == 0);
    if (round % 3 == 0) set_size(path, size / 2 + random() % (size / 2));
    if (round % 3 == 1) set_size(path, size);
    if (round % 3 == 2) write_range(path, 2 + round, 0, size);
  }
}

TEST_CASE("a file that is open for writing has no view") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", size);
  std::mt19937_64 random{seed()};
  filesystem fs{small_cache()};
  int const fd = fs.open(path, O_RDWR);
  REQUIRE(fd > 0);
  CHECK(read_at_random(fs, fd, path, random) == 0);
  CHECK(fs.close(fd) == 0);
}

TEST_CASE("views can be switched off, and are not used with io_path direct") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", size);
  std::mt19937_64 random{seed()};
  for (bool const direct : {true, false}) {
    auto c = small_cache();
    if (direct)
      c.path = io_path::direct;
    else
      c.views = false;
    filesystem fs{c};
    int const fd = fs.open(path, O_RDONLY);
    REQUIRE(fd > 0);
    CHECK(read_at_random(fs, fd, path, random) == 0);
    CHECK(fs.close(fd) == 0);
  }
}
