// The order in which least-recently-allocated replacement (GPUfs readahead paper, section 5.1)
// takes its victims, as claims. Segments have one frame here unless a test says otherwise, so that
// the order is exact.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 512;

/// Context `who` of the block reads page `number`.
struct turn {
  std::uint32_t who;
  std::uint32_t number;
};

// A block with two contexts, whether they read anything or not, which take turns as `turns` says.
// In a fresh filesystem, and whenever no other kernel runs, context i has seat i.
__global__ void read_in_turns(fs_ref fs, int fd, turn const* turns, std::uint32_t count,
                              std::uint32_t* wrong) {
  __shared__ std::byte out[page];
  auto const block = cg::this_thread_block();
  io_context first(fs, block);
  io_context second(fs, block);
  if (threadIdx.x == 0 && (first.seat() != 0 || second.seat() != 1)) ++*wrong;
  for (std::uint32_t i = 0; i < count; ++i) {
    ssize_t const n = gread(turns[i].who == 0 ? first : second, fd, out, page,
                            std::int64_t(turns[i].number) * std::int64_t(page));
    if (threadIdx.x == 0 && n != ssize_t(page)) ++*wrong;
  }
}

// The same with a single context, in seat 0.
__global__ void read_alone(fs_ref fs, int fd, turn const* turns, std::uint32_t count,
                           std::uint32_t* wrong) {
  __shared__ std::byte out[page];
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  if (threadIdx.x == 0 && io.seat() != 0) ++*wrong;
  for (std::uint32_t i = 0; i < count; ++i) {
    ssize_t const n = gread(io, fd, out, page, std::int64_t(turns[i].number) * std::int64_t(page));
    if (threadIdx.x == 0 && n != ssize_t(page)) ++*wrong;
  }
}

using pages = std::set<std::uint64_t>;

pages span(std::uint64_t from, std::uint64_t to) {
  pages all;
  for (; from < to; ++from) all.insert(from);
  return all;
}

pages operator+(pages a, pages const& b) {
  a.insert(b.begin(), b.end());
  return a;
}

/// A filesystem of `frames` frames with one open file of 200 pages.
struct scene {
  explicit scene(std::uint64_t frames, std::uint32_t seats = 64)
      : fs(settings(frames, seats)), fd(fs.open(path, O_RDONLY)) {}

  static config settings(std::uint64_t frames, std::uint32_t seats) {
    auto c = small_config(page, frames);
    c.policy = replacement::lra;
    c.seats = seats;
    return c;
  }

  /// Runs the turns in a kernel with two contexts, or one; returns the pages that are cached then.
  pages after(std::vector<turn> const& turns, unsigned contexts = 2) {
    buffer<turn> device_turns(turns.empty() ? 1 : turns.size());
    device_turns.copy_from_host(turns.data(), turns.size());
    auto wrong = zeroed<std::uint32_t>(1);
    launch(contexts == 2 ? read_in_turns : read_alone, 1, 32, fs.ref(), fd, device_turns.data(),
           std::uint32_t(turns.size()), wrong.data());
    this_thread_stream().synchronize();
    CHECK(contents(wrong)[0] == 0);
    CHECK(inspect(fs.ref()).problems == "");
    return inspect(fs.ref()).pages;
  }

  scratch_folder folder;
  std::string path = make_file(folder, "file", 200 * page);
  filesystem fs;
  int fd;
};

std::vector<turn> reads(std::uint32_t who, std::uint32_t from, std::uint32_t to) {
  std::vector<turn> all;
  for (; from < to; ++from) all.push_back({who, from});
  return all;
}

std::vector<turn> operator+(std::vector<turn> a, std::vector<turn> const& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE(
    "lra: the oldest own frame goes first, even if it was just read, one after the other in the "
    "order of allocation") {
  scene s(8);
  auto turns = reads(0, 10, 18);
  CHECK(s.after(turns, 1) == span(10, 18));
  for (std::uint32_t i = 0; i < 20; ++i) {
    // The next victim is read, and so is everything else, before a new page needs a frame.
    std::vector<turn> again;
    for (std::uint32_t p = 10 + i; p < 18 + i; ++p) again.push_back({0, 27 + 2 * i - p});
    again.push_back({0, 10 + i});
    again.push_back({0, 18 + i});
    CHECK(s.after(again, 1) == span(11 + i, 19 + i));
  }
}

TEST_CASE(
    "lra: segments of several frames are handed out in the order in which their queue got them") {
  scene s(64, 1);  // 16 frames each
  REQUIRE(s.fs.ref().cache.lra.segment_frames == 16);
  CHECK(s.after(reads(0, 0, 64), 1) == span(0, 64));
  CHECK(s.after(reads(0, 64, 65), 1) == span(1, 65));
  CHECK(s.after(reads(0, 65, 81), 1) == span(17, 81));
  CHECK(s.after(reads(0, 81, 200), 1) == span(136, 200));
}

TEST_CASE("lra: free frames go first, whatever the quota: one of two owners may fill the cache") {
  scene s(8);
  CHECK(s.after(reads(0, 0, 8)) == span(0, 8));
  CHECK(s.fs.stats().evictions == 0);
}

TEST_CASE("lra: free frames go before those of queues that nobody owns") {
  scene s(8);
  CHECK(s.after(reads(1, 0, 4)) == span(0, 4));
  CHECK(s.after(reads(0, 4, 8), 1) == span(0, 8));
  CHECK(s.fs.stats().evictions == 0);
}

TEST_CASE("lra: frames of queues that nobody owns go before one's own, the oldest of them first") {
  scene s(8);
  CHECK(s.after(reads(1, 0, 4) + reads(0, 4, 8)) == span(0, 8));
  // Seat 1 has no owner now.
  CHECK(s.after(reads(0, 8, 9), 1) == span(1, 9));
  CHECK(s.after(reads(0, 9, 12), 1) == span(4, 12));
  CHECK(s.after(reads(0, 12, 13), 1) == span(5, 13));  // its own
}

TEST_CASE("lra: whoever claims a seat next inherits its queue, in order") {
  scene s(8);
  CHECK(s.after(reads(0, 0, 4) + reads(1, 4, 8)) == span(0, 8));
  // Both seats have new owners; each is at its quota of 4 and takes its own oldest.
  CHECK(s.after(reads(1, 20, 21)) == span(0, 4) + span(5, 8) + span(20, 21));
  CHECK(s.after(reads(0, 30, 32)) == span(2, 4) + span(5, 8) + span(20, 21) + span(30, 32));
  CHECK(s.after(reads(1, 21, 24)) == span(2, 4) + span(20, 24) + span(30, 32));
}

TEST_CASE(
    "lra: below its quota an owner takes the oldest frame of one that is above, until they are "
    "even") {
  scene s(8);
  CHECK(s.after(reads(0, 0, 8) + reads(1, 20, 21)) == span(1, 8) + span(20, 21));
  CHECK(s.after(reads(1, 21, 24)) == span(4, 8) + span(20, 24));
  CHECK(s.after(reads(1, 24, 25)) == span(4, 8) + span(21, 25));  // at the quota: its own oldest
  CHECK(s.after(reads(0, 8, 9)) == span(5, 9) + span(21, 25));
}

TEST_CASE("lra: an owner at its quota takes its own oldest frame, though another is above it") {
  scene s(9);  // the quota is 4
  CHECK(s.after(reads(0, 0, 5) + reads(1, 20, 24)) == span(0, 5) + span(20, 24));
  CHECK(s.after(reads(1, 24, 25)) == span(0, 5) + span(21, 25));
}

TEST_CASE("lra: two owners that go through the file side by side keep half the cache each") {
  scene s(16);
  std::vector<turn> turns;
  for (std::uint32_t i = 0; i < 60; ++i)
    turns = turns + reads(0, i, i + 1) + reads(1, 100 + i, 101 + i);
  CHECK(s.after(turns) == span(52, 60) + span(152, 160));
  CHECK(s.fs.stats().misses == 120);
}

// From 32 segments on a queue appends several at once, if they follow each other in the cache: two,
// and four from 64 on. The fresh ones of a cache of 64 frames are single and pairs.
TEST_CASE("lra: a long queue takes its frames in the order of allocation, whatever it appends") {
  scene s(64);
  REQUIRE(s.fs.ref().cache.lra.segment_frames == 1);
  for (std::uint32_t end = 1; end <= 200; ++end) {
    CAPTURE(end);
    CHECK(s.after(reads(0, end - 1, end), 1) == span(end < 64 ? 0 : end - 64, end));
  }
  CHECK(s.fs.stats().misses == 200);
}

TEST_CASE("lra: a long queue gives the pages of a read frames in order, across the ends of runs") {
  scene s(64);
  for (std::uint32_t end = 5; end <= 200; end += 5) {
    CAPTURE(end);
    read_batch batch;
    batch.add(s.fd, s.path, std::int64_t((end - 5) * page), 5 * page);
    batch.run(s.fs.ref(), 1, 32);
    CHECK(batch.problems() == "");
    CHECK(inspect(s.fs.ref()).pages == span(end < 64 ? 0 : end - 64, end));
  }
}

TEST_CASE("lra: two long queues whose frames lie between each other's keep half the cache each") {
  scene s(64);
  std::vector<turn> turns;
  for (std::uint32_t i = 0; i < 16; ++i)  // every other frame, one at a time
    turns = turns + reads(0, i, i + 1) + reads(1, 100 + i, 101 + i);
  CHECK(s.after(turns) == span(0, 16) + span(100, 116));
  for (std::uint32_t i = 16; i < 90; ++i) {  // then four at a time
    std::uint32_t const from = i < 31 ? 0 : i - 31;
    CHECK(s.after(reads(0, i, i + 1) + reads(1, 100 + i, 101 + i)) ==
          span(from, i + 1) + span(100 + from, 101 + i));
  }
  CHECK(s.fs.stats().evictions == 180 - 64);
}

TEST_CASE("lra: the oldest frames of a long queue go to others one at a time, up to the quota") {
  scene s(64);
  CHECK(s.after(reads(0, 0, 64)) == span(0, 64));
  for (std::uint32_t i = 0; i < 32; ++i)
    CHECK(s.after(reads(1, 100 + i, 101 + i)) == span(i + 1, 64) + span(100, 101 + i));
  CHECK(s.after(reads(1, 132, 135)) == span(32, 64) + span(103, 135));  // its own oldest
  CHECK(s.after(reads(0, 64, 67)) == span(35, 67) + span(103, 135));
}

TEST_CASE("lra: a queue does not draw the frames of its run that another queue has taken") {
  scene s(64);
  // A run of four frames is appended to the full queue, and one of them is drawn.
  CHECK(s.after(reads(1, 0, 65)) == span(1, 65));
  // Nobody owns the queue now. All of its segments are taken but the last two of the run.
  CHECK(s.after(reads(0, 100, 162), 1) == span(2, 4) + span(100, 162));
  // The queue has an owner again, which goes on with what is left of the run.
  CHECK(s.after(reads(1, 0, 1)) == span(3, 4) + span(100, 162) + span(0, 1));
  CHECK(s.after(reads(1, 1, 2)) == span(100, 162) + span(0, 2));
  // It has nothing left then, and is below its quota: the oldest page of the other queue goes.
  CHECK(s.after(reads(1, 2, 3)) == span(101, 162) + span(0, 3));
}

TEST_CASE("lra: a queue all of whose run was taken begins anew") {
  scene s(64);
  s.after(reads(1, 0, 65));
  CHECK(s.after(reads(0, 100, 164), 1) == span(100, 164));
  CHECK(s.after(reads(1, 0, 3)) == span(103, 164) + span(0, 3));
}

TEST_CASE("lra: the last segment of the cache has fewer frames, and ends a run") {
  struct {
    std::uint64_t frames;
    std::uint32_t seats, segment_frames;
  } const rows[] = {{139, 16, 2}, {131, 10, 3}, {140, 11, 3}};
  for (auto const& r : rows) {
    scene s(r.frames, r.seats);
    auto const& lra = s.fs.ref().cache.lra;
    REQUIRE(lra.segment_frames == r.segment_frames);
    REQUIRE(r.frames % lra.segment_frames != 0);
    for (std::uint32_t end = 5; end <= 200; end += 5) {
      CAPTURE(r.frames);
      CAPTURE(end);
      CHECK(s.after(reads(0, end - 5, end), 1) == span(end < r.frames ? 0 : end - r.frames, end));
    }
  }
}

TEST_CASE(
    "lra: more blocks than seats, more seats than frames: no frame is lost, none is used twice") {
  struct {
    std::uint64_t frames;
    std::uint32_t seats;
    unsigned blocks;
  } const rows[] = {{32, 2, 8}, {8, 64, 12}, {16, 1, 8}, {40, 8, 8}, {130, 40, 3}};
  for (auto const& r : rows) {
    CAPTURE(r.frames);
    CAPTURE(r.seats);
    scene s(r.frames, r.seats);
    read_batch batch;
    for (unsigned i = 0; i < scaled(400, 150); ++i)
      batch.add(s.fd, s.path, std::int64_t(i * 37 % 200 * page), page, i % 64);
    for (auto const who : {caller_kind::block, caller_kind::tile}) {
      batch.run(s.fs.ref(), r.blocks, 64, who);
      CHECK(batch.problems() == "");
      CHECK(inspect(s.fs.ref()).problems == "");
      auto const stats = s.fs.stats();
      CHECK(stats.misses - stats.evictions == inspect(s.fs.ref()).ready);
    }
    // A single context can have all of it, from whatever queues it lies in.
    s.after(reads(0, 0, 200) + reads(0, 0, 200), 1);
    CHECK(s.after(reads(0, 200 - std::uint32_t(r.frames), 200), 1) == span(200 - r.frames, 200));
  }
}
