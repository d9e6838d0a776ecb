// Elements loaded straight out of file windows: their values, which pages come in and which do not,
// the end of the file, other versions, written files.
#include <gpufs/gpufs.hpp>

#include <test/element/element_loads.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/registered.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10;
constexpr std::uint64_t window = registered_window;

struct triple {
  std::uint32_t word[3];
};
struct alignas(16) sixteen {
  std::uint64_t word[2];
};
struct loose {
  std::uint64_t word[4];
};
struct alignas(32) tight {
  std::uint8_t byte[32];
};
struct too_long {
  std::uint64_t word[6];
};
static_assert(sizeof(triple) == 12 && sizeof(loose) == 32 && sizeof(tight) == 32 &&
              sizeof(too_long) == 48);

/// All warps load random words, and compare them with those of `expected`.
__global__ void load_at_random(fs_ref fs, int fd, std::uint64_t const* expected,
                               std::uint32_t loads, std::uint64_t seed, std::uint64_t* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<std::uint64_t const> const a(io, fd);
  std::uint64_t random = seed + blockIdx.x * 977 + threadIdx.x * 31;
  for (std::uint32_t n = 0; n < loads; ++n) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    // every other load in the first eighth, so that pages come in
    std::uint64_t const i = (random >> 33) % (n % 2 == 0 ? a.size() : a.size() / 8);
    if (a[i] != expected[i]) atomic_ref<std::uint64_t>(*wrong).fetch_add(1, memory_order_relaxed);
  }
  if (a.error() != 0) atomic_ref<std::uint64_t>(*wrong).fetch_add(1, memory_order_relaxed);
}

/// Loads an element of words that were never written here. Then opens the file for writing, writes
/// `words` at byte 8 * `first`, and loads them through the array that it had before.
__global__ void write_behind_array(fs_ref fs, int fd, char const* path, std::uint64_t first,
                                   std::uint64_t const* words, std::uint64_t* before,
                                   std::uint64_t* after, std::int64_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  io_context writing(fs, block);
  array<std::uint64_t const> const a(io, fd);
  if (threadIdx.x == 0) before[0] = a[first];
  block.sync();
  int const fd_w = gopen(writing, path, O_RDWR);
  ssize_t const wrote = gwrite(writing, fd_w, words, 32 * 8, static_cast<std::int64_t>(8 * first));
  block.sync();
  after[threadIdx.x] = a[first + threadIdx.x];
  block.sync();
  array<std::uint64_t> const stored(writing, fd_w);
  if (threadIdx.x == 5) stored[first + 40] = 77;
  block.sync();
  if (threadIdx.x == 7) after[32] = a[first + 40];
  block.sync();
  int const closed = gclose(writing, fd_w);
  if (threadIdx.x == 0) results[0] = fd_w, results[1] = wrote, results[2] = closed;
  if (a.error() != 0) results[3] = a.error();
}

/// Has all windows of the file registered. No page comes into the cache. `before` windows were
/// registered when none of these was.
void register_all(filesystem& fs, int fd, std::uint64_t size, std::uint64_t before) {
  auto const bytes = fs.settings().file_window_size;
  auto const wanted = before + (size + bytes - 1) / bytes;
  wait_until(
      [&] {
        CHECK(fs.advise(fd, 0, 0, advice::willneed) == 0);
        return fs.stats().windows_registered >= wanted;
      },
      "windows that are registered");
}

void register_all(filesystem& fs, int fd, std::uint64_t size) {
  register_all(fs, fd, size, fs.stats().windows_registered);
}

/// `count` random elements of a page.
std::vector<std::uint64_t> elements_of_page(std::mt19937_64& random, std::uint64_t page,
                                            std::uint64_t per_page, std::uint64_t count) {
  std::vector<std::uint64_t> elements(count);
  for (auto& e : elements) e = page * per_page + random() % per_page;
  return elements;
}

template <class T>
void check_type(std::uint64_t page, bool is_straight) {
  CAPTURE(page);
  CAPTURE(sizeof(T));
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  scratch_folder folder;
  constexpr std::uint64_t pages = 96;
  std::uint64_t const size = pages * page + 3 * sizeof(T);
  auto const path = make_file(folder, "a", size, 1);
  filesystem fs(registered_config(page, 16));
  int const fd = fs.open(path, O_RDONLY);
  register_all(fs, fd, size);
  // Each lane in a page of its own, all over the page. No page gets more than two loads. Elements
  // that cross the end of a page are left out: they bring their pages in.
  std::vector<std::uint64_t> at;
  for (std::uint64_t n = 0; n < 2 * pages; ++n) {
    std::uint64_t const in_page = n % pages;
    std::uint64_t const first = (in_page * page + sizeof(T) - 1) / sizeof(T);
    std::uint64_t const end = (in_page + 1) * page / sizeof(T);
    bool const is_last = in_page == pages - 1;
    at.push_back(is_last ? size / sizeof(T) - 1 : first + random() % (end - first));
  }
  auto const before = fs.stats();
  auto const got = load<T>(fs, fd, at);
  auto const done = fs.stats() - before;
  CHECK(got.error == 0);
  CHECK(differing(got.values, at, pread_bytes(path, 0, size)) == 0);
  CHECK(done.errors == 0);
  CHECK(done.requests == 0);
  if (is_straight) {
    CHECK(done.elements_straight == at.size());
    CHECK(done.bytes_registered == at.size() * sizeof(T));
    CHECK(done.misses + done.hits + done.waits + done.evictions == 0);
    CHECK(inspect(fs.ref()).ready == 0);
  } else {
    CHECK(done.elements_straight == 0);
    CHECK(done.misses > 0);
  }
}

}  // namespace

TEST_CASE(
    "straight: elements of up to 32 bytes come without a page, a frame or a request, and are the "
    "file's; longer ones bring their pages in") {
  if (!device_registers()) return;
  for (std::uint64_t const page : {4 * kibi, 64 * kibi}) {
    check_type<std::uint8_t>(page, true);
    check_type<std::uint16_t>(page, true);
    check_type<float>(page, true);
    check_type<std::uint64_t>(page, true);
    check_type<triple>(page, true);
    check_type<sixteen>(page, true);
    check_type<loose>(page, true);
    check_type<tight>(page, true);
    check_type<too_long>(page, false);
  }
}

TEST_CASE(
    "straight: a page comes in when it is wanted again and again, stays without a trace of its "
    "loads, and has to be wanted as often when it comes back") {
  if (!device_registers()) return;
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (std::uint64_t const page : {std::uint64_t(512), 4 * kibi, 64 * kibi}) {
    CAPTURE(page);
    scratch_folder folder;
    constexpr std::uint64_t frames = 8;
    std::uint64_t const size = std::max(3 * frames * page, 2 * window);
    std::uint64_t const per_page = page / 4;
    auto const path = make_file(folder, "a", size, 1);
    auto const bytes = pread_bytes(path, 0, size);
    filesystem fs(registered_config(page, frames));
    int const fd = fs.open(path, O_RDONLY);
    register_all(fs, fd, size);
    auto const straight = fs.ref().windows.straight_loads;
    CHECK(straight >= 2);
    CHECK(straight <= 32);
    for (int pass = 0; pass < 2; ++pass) {
      CAPTURE(pass);
      auto const few = elements_of_page(random, 1, per_page, straight);
      auto before = fs.stats();
      // also where the lanes are not the same
      for (std::size_t n = 0; n < few.size(); ++n) {
        auto const at = by_one_lane({few[n]}, unsigned(random() % 32));
        CHECK(differing(load<float>(fs, fd, at).values, at, bytes) == 0);
      }
      auto done = fs.stats() - before;
      CHECK(done.elements_straight == straight);
      CHECK(done.misses == 0);
      CHECK(inspect(fs.ref()).pages.count(1) == 0);

      before = fs.stats();
      auto const more = by_one_lane(elements_of_page(random, 1, per_page, 100), 3);
      CHECK(differing(load<float>(fs, fd, more).values, more, bytes) == 0);
      done = fs.stats() - before;
      CHECK(done.elements_straight == 0);
      CHECK(done.misses == 1);
      CHECK(done.requests == 0);
      CHECK(inspect(fs.ref()).pages.count(1) == 1);

      read_batch others;  // throw the page out
      for (std::uint64_t p = 2; p < 2 + 2 * frames; ++p)
        others.add(fd, path, std::int64_t(p * page), page, 0);
      others.run(fs.ref(), 1, 64, caller_kind::block);
      CHECK(others.problems() == "");
      REQUIRE(inspect(fs.ref()).pages.count(1) == 0);
    }
  }
}

TEST_CASE("straight: random loads over a file far larger than the cache bring few pages in") {
  if (!device_registers()) return;
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  scratch_folder folder;
  constexpr std::uint64_t page = 4 * kibi, pages = 256, size = pages * page;
  auto const path = make_file(folder, "a", size, 1);
  filesystem fs(registered_config(page, 32));
  int const fd = fs.open(path, O_RDONLY);
  register_all(fs, fd, size);
  std::vector<std::uint64_t> at(32 * 64);
  for (auto& i : at) i = random() % (size / 4);
  auto const before = fs.stats();
  auto const got = load<float>(fs, fd, at);
  auto const done = fs.stats() - before;
  CHECK(differing(got.values, at, pread_bytes(path, 0, size)) == 0);
  // A page per straight_loads would be 128. One per load would be all.
  CHECK(done.misses < 32);
  CHECK(done.elements_straight > at.size() * 3 / 4);
  CHECK(done.requests == 0);
}

TEST_CASE("straight: lanes that stream through the file side by side go by pages") {
  if (!device_registers()) return;
  scratch_folder folder;
  constexpr std::uint64_t page = 4 * kibi, pages = 64, size = pages * page;
  auto const path = make_file(folder, "a", size, 1);
  filesystem fs(registered_config(page, 16));
  int const fd = fs.open(path, O_RDONLY);
  register_all(fs, fd, size);
  std::vector<std::uint64_t> at(size / 4);
  for (std::size_t n = 0; n < at.size(); ++n) at[n] = n;
  auto const before = fs.stats();
  auto const got = load<float>(fs, fd, at);
  auto const done = fs.stats() - before;
  CHECK(got.error == 0);
  CHECK(differing(got.values, at, pread_bytes(path, 0, size)) == 0);
  CHECK(done.misses == pages);
  // Only where few of the lanes came by themselves.
  CHECK(done.elements_straight <= 8 * pages);
  CHECK(done.requests == 0);
}

TEST_CASE(
    "straight: all warps at once, with pages that come and go meanwhile, and windows that retire") {
  if (!device_registers()) return;
  CAPTURE(seed());
  scratch_folder folder;
  auto c = registered_config(4 * kibi, 32);
  c.registered_memory = 5 * window;
  c.seats = 2;  // most contexts have none, so that the table's users are not all seen
  constexpr std::uint64_t size = 4 * window;
  std::vector<std::string> const paths{make_file(folder, "a", size, 1),
                                       make_file(folder, "b", size, 2)};
  filesystem fs(c);
  std::vector<int> fds;
  std::vector<buffer<std::uint64_t>> expected;
  for (auto const& path : paths) {
    fds.push_back(fs.open(path, O_RDONLY));
    auto const bytes = pread_bytes(path, 0, size);
    std::vector<std::uint64_t> words(size / 8);
    std::memcpy(words.data(), bytes.data(), size);
    expected.push_back(filled(words));
  }
  std::vector<std::uint64_t> wrong(2);
  // Drawn anew in each round: rounds that repeat the first could stay with one file for good.
  std::vector<std::mt19937_64> randoms{std::mt19937_64(seed()), std::mt19937_64(seed() + 1)};
  wait_until(
      [&] {
        std::vector<std::thread> callers;
        for (unsigned t = 0; t < 2; ++t) {
          callers.emplace_back([&, t] {
            auto& random = randoms[t];
            for (int kernel = 0; kernel < 4; ++kernel) {
              auto const f = random() % 2;
              auto found = zeroed<std::uint64_t>(1);
              launch(load_at_random, 3, 64, fs.ref(), fds[f], expected[f].data(), scaled(60, 20),
                     random(), found.data());
              wrong[t] += result_in(found)[0];
            }
          });
        }
        for (auto& t : callers) t.join();
        return fs.stats().windows_retired >= 8;
      },
      "windows that retire");
  CHECK(wrong[0] == 0);
  CHECK(wrong[1] == 0);
  CHECK(fs.stats().elements_straight > 0);
  CHECK(fs.stats().misses > 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE(
    "straight: what a file has lost since it was opened is an error, also an element that crosses "
    "its end") {
  if (!device_registers()) return;
  scratch_folder folder;
  constexpr std::uint64_t size = 3 * window;
  auto const path = make_file(folder, "a", size, 1);
  auto const bytes = pread_bytes(path, 0, size);
  filesystem fs(registered_config(4 * kibi, 16));
  int const fd = fs.open(path, O_RDONLY);
  constexpr std::uint64_t left = window + window / 2 + 100;
  set_size(path, left);
  register_all(fs, fd, left);
  std::vector<std::uint64_t> const there{left / 8 - 1, left / 8 - 100, 7};
  auto before = fs.stats();
  auto const at = by_one_lane(there);
  auto const got = load<std::uint64_t>(fs, fd, at);
  CHECK(got.error == 0);
  CHECK(differing(got.values, at, bytes) == 0);
  CHECK((fs.stats() - before).elements_straight == there.size());
  for (std::uint64_t const gone : {left / 8, left / 8 + 1, size / 8 - 1}) {
    CAPTURE(gone);
    before = fs.stats();
    auto const lost = load<std::uint64_t>(fs, fd, {gone});
    CHECK(lost.error == -EIO);
    CHECK(lost.values[0] == 0);
    CHECK((fs.stats() - before).elements_straight == 0);
  }
  CHECK(load<std::uint64_t>(fs, fd, {size / 8}).error == -ERANGE);
}

TEST_CASE(
    "straight: a file that is truncated behind its windows gives old bytes, zeros or an error; the "
    "next open sees it as it is") {
  if (!device_registers()) return;
  scratch_folder folder;
  constexpr std::uint64_t size = 3 * window, left = window + 5000;
  auto const path = make_file(folder, "a", size, 1);
  auto const old = pread_bytes(path, 0, size);
  filesystem fs(registered_config(4 * kibi, 16));
  int fd = fs.open(path, O_RDONLY);
  register_all(fs, fd, size);
  set_size(path, left);
  std::vector<std::uint64_t> at;
  for (std::uint64_t i = 0; i < size / 8; i += 397) at.push_back(i);
  auto const got = load<std::uint64_t>(fs, fd, at);
  for (std::size_t n = 0; n < at.size(); ++n) {
    std::uint64_t was = 0;
    std::memcpy(&was, old.data() + 8 * at[n], 8);
    bool const is_cut = 8 * at[n] + 8 > left;
    CHECK((got.values[n] == was || (is_cut && got.values[n] == 0)));
  }
  CHECK((got.error == 0 || got.error == -EIO));
  CHECK(fs.open(path, O_RDONLY) == fd);
  CHECK(load<std::uint64_t>(fs, fd, {left / 8}).error == -ERANGE);
  auto const now = load<std::uint64_t>(fs, fd, {left / 8 - 1});
  CHECK(now.error == 0);
  CHECK(differing(now.values, {left / 8 - 1}, old) == 0);
}

TEST_CASE("straight: a file that was opened again with other content gives the new bytes") {
  if (!device_registers()) return;
  scratch_folder folder;
  constexpr std::uint64_t size = 2 * window;
  auto const path = make_file(folder, "a", size, 1);
  filesystem fs(registered_config(4 * kibi, 16));
  int const fd = fs.open(path, O_RDONLY);
  register_all(fs, fd, size);
  std::vector<std::uint64_t> at;
  for (std::uint64_t i = 0; i < size / 8; i += 509) at.push_back(i);
  auto before = fs.stats();
  CHECK(differing(load<std::uint64_t>(fs, fd, at).values, at, pread_bytes(path, 0, size)) == 0);
  CHECK((fs.stats() - before).elements_straight > 0);

  let_stamps_age(path);
  write_range(path, 2, 0, size);
  CHECK(fs.open(path, O_RDONLY) == fd);
  // The windows that are there are of the old content.
  before = fs.stats();
  auto const few = std::vector<std::uint64_t>(at.begin(), at.begin() + 1);
  CHECK(differing(load<std::uint64_t>(fs, fd, few).values, few, pread_bytes(path, 0, size)) == 0);
  CHECK((fs.stats() - before).elements_straight == 0);
  register_all(fs, fd, size, before.windows_registered);
  before = fs.stats();
  CHECK(differing(load<std::uint64_t>(fs, fd, at).values, at, pread_bytes(path, 0, size)) == 0);
  CHECK((fs.stats() - before).elements_straight > 0);
}

TEST_CASE(
    "straight: an array sees what its own kernel writes to a file whose windows were registered "
    "before, and what the host writes") {
  if (!device_registers()) return;
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  scratch_folder folder;
  constexpr std::uint64_t size = 2 * window;
  auto const path = make_file(folder, "a", size, 1);
  auto const old = pread_bytes(path, 0, size);
  filesystem fs(registered_config(4 * kibi, 16));
  int const fd = fs.open(path, O_RDONLY);
  register_all(fs, fd, size);
  auto const first = random() % (size / 8 - 64);
  std::vector<std::uint64_t> words(32);
  for (auto& w : words) w = random();
  auto const device_words = filled(words);
  std::vector<char> const name(path.c_str(), path.c_str() + path.size() + 1);
  auto const device_name = filled(name);
  auto before = zeroed<std::uint64_t>(1), after = zeroed<std::uint64_t>(33);
  auto results = zeroed<std::int64_t>(4);
  launch(write_behind_array, 1, 32, fs.ref(), fd, device_name.data(), first, device_words.data(),
         before.data(), after.data(), results.data());
  auto const result = result_in(results);
  CHECK(result[0] >= 0);
  CHECK(result[1] == 32 * 8);
  CHECK(result[2] == 0);
  CHECK(result[3] == 0);
  CHECK(differing(contents(before), {first}, old) == 0);
  words.push_back(77);
  CHECK(contents(after) == words);
  CHECK(fs.stats().elements_straight == 1);
  CHECK(inspect(fs.ref()).problems == "");

  // Open for writing by the host. Every load goes by pages.
  int const fd_w = fs.open(path, O_RDWR);
  std::vector<std::uint64_t> at;
  for (std::uint64_t i = 3; i < size / 8; i += 509) at.push_back(i);
  auto const all_words = std::uint64_t(0x0102030405060708);
  for (auto const i : at) REQUIRE(fs.write(fd_w, &all_words, 8, std::int64_t(8 * i)) == 8);
  auto const straight = fs.stats().elements_straight;
  for (int const through : {fd, fd_w}) {
    auto const got = load<std::uint64_t>(fs, through, at);
    CHECK(got.error == 0);
    CHECK(std::count(got.values.begin(), got.values.end(), all_words) == std::int64_t(at.size()));
  }
  CHECK(fs.stats().elements_straight == straight);
  CHECK(fs.close(fd_w) == 0);
  CHECK(fs.close(fd) == 0);

  // What was written is in the file now, and comes out of its new windows.
  int const again = fs.open(path, O_RDONLY);
  register_all(fs, again, size);
  auto const got = load<std::uint64_t>(fs, again, at);
  CHECK(got.error == 0);
  CHECK(differing(got.values, at, pread_bytes(path, 0, size)) == 0);
  CHECK(fs.stats().elements_straight > straight);
}

TEST_CASE("straight: where no files are registered nothing is loaded straight") {
  scratch_folder folder;
  auto c = registered_config(4 * kibi, 16);
  c.registered_memory = 0;
  auto const path = make_file(folder, "a", window, 1);
  filesystem fs(c);
  CHECK(fs.ref().windows.element_counts == nullptr);
  std::vector<std::uint64_t> const at{5, 1000, 3000, 8000};
  auto const got = load<std::uint64_t>(fs, fs.open(path, O_RDONLY), at);
  CHECK(got.error == 0);
  CHECK(differing(got.values, at, pread_bytes(path, 0, window)) == 0);
  CHECK(fs.stats().elements_straight == 0);
}
