// Elements requested without their page, where no file window has them: their values, which pages
// come in, the end of the file, other versions, written files, failures.
#include <gpufs/gpufs.hpp>
#include <gpufs/testing/filesystem.hpp>

#include <test/element/element_loads.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 4096, pages = 64, size = pages * page;
constexpr std::uint64_t words_per_page = page / 8;

struct odd {
  std::uint32_t word[3];
};

/// Far more requests than these tests make are needed before a window is registered.
config without_windows(std::uint64_t frames = 16) {
  auto c = small_config(page, frames);
  c.file_window_size = 64 << 20;
  return c;
}

/// A file, and a filesystem that opens it for reading.
struct scene {
  scratch_folder folder;
  std::string path = make_file(folder, "a", size, 1);
  filesystem fs;
  int fd;

  explicit scene(std::uint64_t frames = 16)
      : fs(without_windows(frames)), fd(fs.open(path, O_RDONLY)) {}

  /// What is wrong with the values of words, by what pread gives.
  [[nodiscard]] std::uint64_t wrong(loaded<std::uint64_t> const& got,
                                    std::vector<std::uint64_t> const& at) const {
    return differing(got.values, at, pread_bytes(path, 0, size));
  }
};

/// A random word of every second page, from page 1 on: no page before is ever there.
std::vector<std::uint64_t> scattered(std::mt19937_64& random) {
  std::vector<std::uint64_t> at;
  for (std::uint64_t p = 1; p < pages; p += 2)
    at.push_back(p * words_per_page + random() % words_per_page);
  return at;
}

}  // namespace

TEST_CASE("alone: the first access of a lane to a page asks for its element only") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  scene file;
  auto& [folder, path, fs, fd] = file;
  REQUIRE(fs.ref().windows.entries != nullptr);
  auto const first = by_one_lane(scattered(random), unsigned(random() % 32));
  auto got = load<std::uint64_t>(fs, fd, first);
  CHECK(got.error == 0);
  CHECK(file.wrong(got, first) == 0);
  auto s = fs.stats();
  CHECK(s.elements_alone == pages / 2);
  CHECK(s.read_requests == pages / 2);
  CHECK(s.bytes_pulled == pages / 2 * 8);
  CHECK(s.host_bytes == pages / 2 * 8);
  CHECK(s.misses + s.evictions == 0);
  CHECK(inspect(fs.ref()).ready == 0);

  // The next one brings the page in, as far as its word of the filter is not another page's.
  auto const again =
      by_one_lane({5 * words_per_page, 5 * words_per_page + 7, 5 * words_per_page + 9});
  got = load<std::uint64_t>(fs, fd, again);
  CHECK(file.wrong(got, again) == 0);
  s = fs.stats() - s;
  CHECK(s.elements_alone <= 2);
  CHECK(s.misses == 1);
}

TEST_CASE("alone: a lane that walks through the file brings its pages in") {
  scene file;
  std::vector<std::uint64_t> every;
  for (std::uint64_t i = 0; i < size / 8; i += 64) every.push_back(i);
  auto const at = by_one_lane(every, 9);
  CHECK(file.wrong(load<std::uint64_t>(file.fs, file.fd, at), at) == 0);
  auto const s = file.fs.stats();
  CHECK(s.elements_alone == 1);
  CHECK(s.misses == pages);
}

TEST_CASE("alone: lanes that come together bring their pages in") {
  scene file(64);
  std::vector<std::uint64_t> at(32);
  for (std::uint64_t lane = 0; lane < 32; ++lane) at[lane] = (2 * lane + 1) * words_per_page + lane;
  CHECK(file.wrong(load<std::uint64_t>(file.fs, file.fd, at), at) == 0);
  // On the emulated device some lanes may come alone, whatever the code says.
  auto const s = file.fs.stats();
  CHECK(s.elements_alone + s.misses == 32);
  CHECK(s.elements_alone < 32);
}

TEST_CASE("alone: elements of every size come right, and those that cross pages bring both in") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  scratch_folder folder;
  auto const path = make_file(folder, "a", size, 1);
  auto const bytes = pread_bytes(path, 0, size);
  auto const check = [&]<class T>(T) {
    filesystem fs(without_windows());
    int const fd = fs.open(path, O_RDONLY);
    std::vector<std::uint64_t> elements;
    for (unsigned n = 0; n < 100; ++n) elements.push_back(random() % (size / sizeof(T)));
    auto const at = by_one_lane(elements);
    auto const got = load<T>(fs, fd, at);
    CHECK(got.error == 0);
    CHECK(differing(got.values, at, bytes) == 0);
    CHECK(fs.stats().elements_alone > 0);
  };
  check(std::uint8_t{});
  check(std::uint16_t{});
  check(float{});
  check(std::uint64_t{});
  check(odd{});
}

TEST_CASE("alone: a file that has become shorter gives -EIO, a new version its own bytes") {
  scene file;
  auto& [folder, path, fs, fd] = file;
  std::filesystem::resize_file(path, size / 2);
  auto const gone = by_one_lane({size / 8 - 3});
  CHECK(load<std::uint64_t>(fs, fd, gone).error == -EIO);
  CHECK(fs.close(fd) == 0);

  make_file(folder, "a", size, 2);
  int const again = fs.open(path, O_RDONLY);
  auto const at = by_one_lane({3 * words_per_page, 9 * words_per_page + 5});
  auto const got = load<std::uint64_t>(fs, again, at);
  CHECK(got.error == 0);
  CHECK(file.wrong(got, at) == 0);
}

TEST_CASE("alone: elements of a file that is written here come by pages") {
  scene file;
  auto& [folder, path, fs, fd] = file;
  int const fd_w = fs.open(path, O_RDWR);
  std::uint64_t const word = 0x0102030405060708;
  std::vector<std::uint64_t> elements;
  for (std::uint64_t p = 1; p < pages; p += 4) elements.push_back(p * words_per_page + 3);
  for (auto const i : elements) REQUIRE(fs.write(fd_w, &word, 8, std::int64_t(8 * i)) == 8);
  auto const at = by_one_lane(elements);
  for (int const through : {fd, fd_w}) {
    auto const got = load<std::uint64_t>(fs, through, at);
    CHECK(got.error == 0);
    for (std::size_t n = 0; n < at.size(); ++n) CHECK((at[n] == no_load || got.values[n] == word));
  }
  CHECK(fs.stats().elements_alone == 0);
}

TEST_CASE("alone: an error of the host's read reaches the lane, and the next access tries again") {
  scratch_folder folder;
  auto const path = make_file(folder, "a", size, 1);
  std::atomic<bool> fails{true};
  auto const faults = read_faults([&](std::uint64_t, std::uint64_t) {
    return fails.load() ? testing::fault_action::fail(ENODEV) : testing::fault_action::pass();
  });
  testing::filesystem fs(without_windows(), faults);
  int const fd = fs.open(path, O_RDONLY);
  auto const at = by_one_lane({7 * words_per_page});
  CHECK(load<std::uint64_t>(fs, fd, at).error == -ENODEV);
  fails = false;
  auto const got = load<std::uint64_t>(fs, fd, at);
  CHECK(got.error == 0);
  CHECK(differing(got.values, at, pread_bytes(path, 0, size)) == 0);
}
