// array::prefetch: it never waits, the access that misses takes the request over, and whatever is
// requested ahead, elements have the right bytes.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/elements.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

using word = std::uint64_t;
constexpr std::uint64_t page_bytes = 512, per_page = page_bytes / 8;

__host__ __device__ word nth(std::uint64_t i) { return i * 0x9e3779b97f4a7c15ull + 12345; }

std::string words(scratch_folder const& folder, std::uint64_t count) {
  std::vector<std::byte> bytes(count * 8);
  for (std::uint64_t i = 0; i < count; ++i) {
    word const value = nth(i);
    std::memcpy(bytes.data() + i * 8, &value, 8);
  }
  auto path = folder / "words";
  write_bytes(path, bytes);
  return path;
}

/// Each lane of a warp prefetches [i, i + n), then says so.
__global__ void ask(fs_ref fs, int fd, std::uint64_t i, std::uint64_t n, std::int32_t* errors) {
  io_context io(fs, cg::this_thread_block());
  array<word const> const a(io, fd);
  a.prefetch(i, n);
  errors[threadIdx.x] = a.error();
}

enum class access : std::uint32_t { load, pointer, add };

/// One element of each page in [first, first + pages), a page per lane.
__global__ void touch(fs_ref fs, int fd, std::uint64_t first, std::uint64_t pages, access how,
                      word* wrong) {
  io_context io(fs, cg::this_thread_block());
  auto const each = [&](auto const& read) {
    for (std::uint64_t page = first + threadIdx.x; page < first + pages; page += blockDim.x) {
      std::uint64_t const i = page * per_page + threadIdx.x;
      count_if(read(i) != nth(i), wrong);
    }
  };
  if (how == access::add) {
    array<word> const a(io, fd);
    each([&](std::uint64_t i) { return a.fetch_add(i, 0); });
  } else {
    array<word const> const a(io, fd);
    each([&](std::uint64_t i) { return how == access::load ? a[i] : *a.pointer(i); });
  }
}

/// Lanes prefetch anywhere, load from there or elsewhere, and store the same values again.
__global__ void mix(fs_ref fs, int fd, int writes, std::uint32_t rounds, std::uint64_t seed,
                    word* wrong) {
  io_context io(fs, cg::this_thread_block());
  array<word const> const a(io, fd);
  array<word> const b(io, writes);
  std::uint64_t random = seed + (blockIdx.x * blockDim.x + threadIdx.x) * 31;
  auto const draw = [&] {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    return random >> 33;
  };
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::uint64_t const i = draw() % (a.size() + per_page);
    std::uint64_t const n = draw() % 4 == 0 ? draw() << draw() % 40 : draw() % (4 * per_page);
    (draw() % 2 == 0 ? a.prefetch(i, n) : b.prefetch(i, n));
    std::uint64_t at = draw() % 2 == 0 ? draw() : i + draw() % (n + 1);
    at = at % (a.size() - 1) / 2 * 2;
    // Stores to odd elements, loads from even ones: a load that meets a store is a data race.
    if (draw() % 3 == 0) b.store(at + 1, nth(at + 1));
    word const got = draw() % 2 == 0 ? a.load(at) : b.load(at);
    count_if(got != nth(at), wrong);
  }
  count_if(a.error() != 0 || b.error() != 0, wrong);
}

/// Prefetches a page, writes all of it by gwrite, has it leave the cache, loads from it.
__global__ void overtake(fs_ref fs, int fd, std::uint64_t page, std::uint64_t pages, word* bytes,
                         word* wrong) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  array<word> const a(io, fd);
  if (threadIdx.x == 0) a.prefetch(page * per_page, per_page);
  block.sync();
  for (std::uint64_t i = threadIdx.x; i < per_page; i += blockDim.x) bytes[i] = i + 7;
  block.sync();
  ssize_t const n = gwrite(io, fd, bytes, page_bytes, std::int64_t(page * page_bytes));
  count_if(n != ssize_t(page_bytes) || gfsync(io, fd) != 0, wrong);
  for (std::uint64_t other = 0; other < pages; ++other) {
    if (other != page) static_cast<void>(a.load(other * per_page + threadIdx.x));
  }
  block.sync();
  count_if(a.load(page * per_page + threadIdx.x) != threadIdx.x + 7 || a.error() != 0, wrong);
}

/// The requests that a kernel adds to those of `before`.
std::uint64_t reads_since(statistics const& before, statistics const& now) {
  return now.read_requests - before.read_requests;
}

}  // namespace

TEST_CASE("prefetch: it returns while the host reads nothing, and the accesses ask for no page") {
  for (auto const how : {access::load, access::pointer, access::add}) {
    // The first add makes requests for other pages of its region old.
    std::uint64_t const pages = how == access::add ? 1 : 8;
    CAPTURE(std::uint32_t(how));
    scratch_folder folder;
    auto const path = words(folder, 40 * per_page);
    auto const gate = std::make_shared<testing::gate>();
    auto const faults = read_faults(
        [gate](std::uint64_t, std::uint64_t) { return testing::fault_action::hold(gate); });
    testing::filesystem fs(small_config(page_bytes, 16), faults);
    int const fd = fs.open(path, how == access::add ? O_RDWR : O_RDONLY);
    auto const errors = filled(std::vector<std::int32_t>(32, 1));
    auto const wrong = zeroed<word>(1);
    launch(ask, 1, 32, fs.ref(), fd, std::uint64_t{5}, pages * per_page - 5, errors.data());
    // The kernel ends, and no byte has been read.
    CHECK(result_in(errors) == std::vector<std::int32_t>(32, 0));
    auto const asked = fs.stats();
    CHECK(asked.read_requests == pages);
    CHECK(asked.bytes_pulled == 0);
    auto const state = inspect(fs.ref());
    CHECK(state.problems == "");
    CHECK(state.ahead == pages);
    CHECK(state.ready == 0);
    gate->release();
    launch(touch, 1, 32, fs.ref(), fd, std::uint64_t{0}, pages, how, wrong.data());
    CHECK(result_in(wrong)[0] == 0);
    CHECK(reads_since(asked, fs.stats()) == 0);
    CHECK(fs.stats().prefetch_hits == pages);
    CHECK(fs.stats().misses == pages);
    CHECK(inspect(fs.ref()).ahead == 0);
    CHECK(inspect(fs.ref()).problems == "");
    // Pages in the cache are not asked for.
    launch(ask, 1, 32, fs.ref(), fd, std::uint64_t{0}, pages * per_page, errors.data());
    CHECK(result_in(errors)[0] == 0);
    CHECK(reads_since(asked, fs.stats()) == 0);
  }
}

TEST_CASE(
    "prefetch: whatever lanes ask for, load and store through 8 frames, elements are right, and a "
    "quarter of the channels is held at most") {
  scratch_folder folder;
  auto const path = words(folder, 70 * per_page + 13);
  for (std::uint64_t const staging : {16, 64, 512}) {  // page channels
    CAPTURE(staging);
    auto settings = small_config(page_bytes, 8);
    settings.staging_size = staging * 4096;
    filesystem fs(settings);
    int const fd = fs.open(path, O_RDONLY);
    int const writes = fs.open(path, O_RDWR);
    auto const wrong = zeroed<word>(1);
    launch(mix, scaled(6, 3), 64, fs.ref(), fd, writes, scaled(24, 8), seed(), wrong.data());
    CHECK(result_in(wrong)[0] == 0);
    auto const state = inspect(fs.ref());
    CHECK(state.problems == "");
    CHECK(state.ahead <= fs.ref().channels.page.count / 4);
    CHECK(fs.close(writes) == 0);
  }
}

TEST_CASE("prefetch: a page that was written since it was asked for is read anew") {
  scratch_folder folder;
  auto const path = words(folder, 40 * per_page);
  filesystem fs(small_config(page_bytes, 8));
  int const fd = fs.open(path, O_RDWR);
  auto const bytes = zeroed<word>(per_page);
  auto const wrong = zeroed<word>(1);
  launch(overtake, 1, 32, fs.ref(), fd, std::uint64_t{3}, std::uint64_t{40}, bytes.data(),
         wrong.data());
  CHECK(result_in(wrong)[0] == 0);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("prefetch: bytes that the host wrote since, under a new version, are the ones loaded") {
  scratch_folder folder;
  auto const path = words(folder, 40 * per_page);
  filesystem fs(small_config(page_bytes, 8));
  int const fd = fs.open(path, O_RDWR);
  auto const errors = zeroed<std::int32_t>(32);
  word const other = 4711;
  CHECK(fs.write(fd, &other, 8, std::int64_t(2 * page_bytes)) == 8);
  launch(ask, 1, 32, fs.ref(), fd, std::uint64_t{0}, 4 * per_page, errors.data());
  this_thread_stream().synchronize();
  word const right = nth(2 * per_page + 2);
  CHECK(fs.write(fd, &other, 8, std::int64_t((2 * per_page + 2) * 8)) == 8);
  CHECK(fs.write(fd, &right, 8, std::int64_t((2 * per_page + 2) * 8)) == 8);
  word const more = nth(3 * per_page + 3) + 1;
  CHECK(fs.write(fd, &more, 8, std::int64_t((3 * per_page + 3) * 8)) == 8);
  auto const wrong = zeroed<word>(1);
  launch(touch, 1, 32, fs.ref(), fd, std::uint64_t{0}, std::uint64_t{4}, access::load,
         wrong.data());
  CHECK(result_in(wrong)[0] == 1);  // element 3 of page 3
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("prefetch: an error of its read is forgotten; the access reads again and has its own") {
  scratch_folder folder;
  auto const path = words(folder, 40 * per_page);
  std::atomic<bool> fails{true};
  auto const faults = read_faults([&](std::uint64_t, std::uint64_t) {
    return fails ? testing::fault_action::fail(ENODEV) : testing::fault_action::pass();
  });
  testing::filesystem fs(small_config(page_bytes, 16), faults);
  int const fd = fs.open(path, O_RDONLY);
  auto const errors = zeroed<std::int32_t>(32);
  auto const wrong = zeroed<word>(1);
  launch(ask, 1, 32, fs.ref(), fd, std::uint64_t{0}, 4 * per_page, errors.data());
  CHECK(result_in(errors) == std::vector<std::int32_t>(32, 0));
  launch(touch, 1, 32, fs.ref(), fd, std::uint64_t{0}, std::uint64_t{2}, access::load,
         wrong.data());
  CHECK(result_in(wrong)[0] == 2);  // it still fails
  fails = false;
  launch(touch, 1, 32, fs.ref(), fd, std::uint64_t{0}, std::uint64_t{4}, access::load,
         wrong.data());
  CHECK(result_in(wrong)[0] == 2);
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("prefetch: nothing is asked for of bad descriptors, beyond the end, of no elements") {
  scratch_folder folder;
  auto const path = words(folder, 4 * per_page);
  filesystem fs(small_config(page_bytes, 8));
  int const fd = fs.open(path, O_RDONLY);
  auto const errors = zeroed<std::int32_t>(32);
  launch(ask, 1, 32, fs.ref(), -1, std::uint64_t{0}, std::uint64_t{9}, errors.data());
  CHECK(result_in(errors)[0] == -EBADF);
  for (std::uint64_t const i : {4 * per_page, ~std::uint64_t{0}}) {
    launch(ask, 1, 32, fs.ref(), fd, i, std::uint64_t{9}, errors.data());
    CHECK(result_in(errors)[0] == 0);
  }
  launch(ask, 1, 32, fs.ref(), fd, std::uint64_t{0}, std::uint64_t{0}, errors.data());
  CHECK(result_in(errors)[0] == 0);
  CHECK(fs.stats().read_requests == 0);
  launch(ask, 1, 32, fs.ref(), fd, 3 * per_page, ~std::uint64_t{0}, errors.data());
  CHECK(result_in(errors)[0] == 0);
  CHECK(fs.stats().read_requests == 1);
}

TEST_CASE("prefetch: requests of a descriptor that was closed serve the next one, or do no harm") {
  scratch_folder folder;
  auto const path = words(folder, 40 * per_page);
  let_stamps_age(path);
  filesystem fs(small_config(page_bytes, 8));
  auto const errors = zeroed<std::int32_t>(32);
  auto const wrong = zeroed<word>(1);
  for (unsigned round = 0; round < 5; ++round) {
    int const fd = fs.open(path, O_RDONLY);
    launch(ask, 1, 32, fs.ref(), fd, round * 4 * per_page, 4 * per_page, errors.data());
    CHECK(result_in(errors)[0] == 0);
    CHECK(fs.close(fd) == 0);
    int const again = fs.open(path, O_RDONLY);
    launch(touch, 1, 32, fs.ref(), again, std::uint64_t{round * 4}, std::uint64_t{4}, access::load,
           wrong.data());
    CHECK(result_in(wrong)[0] == 0);
    CHECK(fs.close(again) == 0);
  }
  CHECK(inspect(fs.ref()).problems == "");
}
