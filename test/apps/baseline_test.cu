// Our model of GPUfs: right bytes, one request and one copy per page, slots bound to block ids,
// oldest page out first. No wait lasts for ever.
#include <gpufs/device.hpp>

#include <apps/baseline/original.hpp>
#include <apps/baseline/original_read.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

using namespace gpufs;
using namespace gpufs::apps;
using namespace gpufs::test;

namespace {

struct wanted {
  std::int64_t offset;
  std::uint64_t count;
  std::uint64_t place;  // in the output
  std::int64_t result;  // what gread returned
};

// Block b carries out reads b, b + blocks, ...
__global__ void carry_out(original::ref fs, wanted* reads, std::uint64_t count, std::byte* output) {
  for (std::uint64_t i = blockIdx.x; i < count; i += gridDim.x) {
    ssize_t const got =
        original::gread(fs, output + reads[i].place, reads[i].count, reads[i].offset);
    if (threadIdx.x == 0) reads[i].result = got;
  }
}

__global__ void keep_slot(original::ref fs, std::int32_t* results) {
  if (threadIdx.x == 0)
    results[blockIdx.x] = original::request_bytes(fs, 0, 512);  // and no end_request()
}

original::options small_options(std::uint64_t page, std::uint64_t frames) {
  original::options o;
  o.page_size = page;
  o.cache_size = page * frames;
  o.timeout_ms = 120'000;
  return o;
}

class reads {
 public:
  void add(std::int64_t offset, std::uint64_t count) {
    list_.push_back({offset, count, bytes_, 0});
    bytes_ += count + 7;
  }

  void run(original::file_system const& fs, unsigned blocks, unsigned threads) {
    buffer<wanted> list(list_.size());
    list.copy_from_host(list_.data(), list_.size());
    auto const output = zeroed<std::byte>(bytes_);
    launch(carry_out, blocks, threads, fs.ref(), list.data(), list_.size(), output.data());
    this_thread_stream().synchronize();
    list_ = contents(list);
    output_ = contents(output);
  }

  [[nodiscard]] std::vector<wanted> const& done() const { return list_; }

  // What differs from pread first.
  [[nodiscard]] std::string problem(std::string const& file) const {
    for (auto const& r : list_) {
      auto const expected = pread_bytes(file, static_cast<std::uint64_t>(r.offset), r.count);
      auto const what = "read of " + std::to_string(r.count) + " at " + std::to_string(r.offset);
      if (r.result != static_cast<std::int64_t>(expected.size()))
        return what + " gave " + std::to_string(r.result);
      for (std::uint64_t i = 0; i < r.count + 7; ++i) {
        std::byte const right = i < expected.size() ? expected[i] : std::byte{0};
        if (output_[r.place + i] != right)
          return what + " is wrong at its byte " + std::to_string(i);
      }
    }
    return {};
  }

 private:
  std::vector<wanted> list_;
  std::vector<std::byte> output_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

TEST_CASE(
    "baseline: random reads by many blocks give what pread gives, with caches that hold all, some, "
    "or hardly any pages") {
  scratch_folder folder;
  std::uint64_t const size = 100 * 4096 + 777;
  auto const path = make_file(folder, "file", size);
  std::mt19937_64 random(seed());
  for (std::uint64_t const frames : {128, 16, 9}) {
    for (std::uint64_t const page : {512, 4096}) {
      CAPTURE(frames);
      CAPTURE(page);
      original::file_system const fs(path, small_options(page, frames));
      reads batch;
      for (unsigned i = 0; i < scaled(300, 60); ++i) {
        batch.add(static_cast<std::int64_t>(random() % (size + 1000)), random() % (3 * page));
      }
      batch.run(fs, 8, 64);
      CHECK(batch.problem(path) == "");
      batch.run(fs, 5, 33);
      CHECK(batch.problem(path) == "");
      CHECK(fs.failure() == "");
    }
  }
}

TEST_CASE(
    "baseline: one sequential pass makes one request and one copy per page, a second one within "
    "the cache none") {
  scratch_folder folder;
  constexpr std::uint64_t page = 1024, pages = 96;
  auto const path = make_file(folder, "file", pages * page);
  original::file_system fs(path, small_options(page, pages));
  reads batch;
  for (std::uint64_t i = 0; i < pages / 4; ++i)
    batch.add(static_cast<std::int64_t>(i * 4 * page), 4 * page);
  batch.run(fs, 8, 64);
  CHECK(batch.problem(path) == "");
  auto first = fs.stats();
  CHECK(first.requests == pages);
  CHECK(first.misses == pages);
  CHECK(first.hits == 0);
  CHECK(first.evictions == 0);
  CHECK(first.bytes_dma == pages * page);

  fs.start_counting();
  batch.run(fs, 8, 64);
  CHECK(batch.problem(path) == "");
  auto const second = fs.stats();
  CHECK(second.requests == 0);
  CHECK(second.bytes_dma == 0);
  CHECK(second.hits == pages);
}

TEST_CASE(
    "baseline: with readahead a block's stream makes one request for a page and what is ahead of "
    "it, and reads are right in any "
    "order") {
  scratch_folder folder;
  constexpr std::uint64_t page = 512, ahead = 7 * page, pages = 100;
  auto const path = make_file(folder, "file", pages * page + 99);
  for (std::uint64_t const frames : {128, 9}) {
    CAPTURE(frames);
    auto o = small_options(page, frames);
    o.readahead = ahead;
    original::file_system fs(path, o);
    reads stream;
    for (std::uint64_t i = 0; i <= pages; ++i)
      stream.add(static_cast<std::int64_t>(i * page), page);
    stream.run(fs, 1, 64);
    CHECK(stream.problem(path) == "");
    auto const s = fs.stats();
    CHECK(s.misses == pages + 1);
    CHECK(s.requests == (pages + 1 + 7) / 8);
    CHECK(s.bytes_dma == pages * page + 99);
    std::mt19937_64 random(seed());
    reads any;
    for (unsigned i = 0; i < scaled(300, 60); ++i)
      any.add(static_cast<std::int64_t>(random() % (pages * page + 1000)), random() % (3 * page));
    any.run(fs, 8, 64);
    CHECK(any.problem(path) == "");
    CHECK(fs.failure() == "");
  }
}

TEST_CASE(
    "baseline: requests go through the slot of their block's id, each host thread serves its own "
    "share of the slots") {
  scratch_folder folder;
  constexpr std::uint64_t page = 512;
  auto const path = make_file(folder, "file", 32 * page);
  auto o = small_options(page, 64);
  o.record = true;
  original::file_system fs(path, o);
  reads batch;  // read i is done by block i: slots 0 to 31 are the first thread's
  for (std::uint64_t i = 0; i < 32; ++i) batch.add(static_cast<std::int64_t>(i * page), page);
  fs.start_counting();
  batch.run(fs, 32, 32);
  // The others poll on, and count one poll after the other in two counters.
  auto const s = fs.stats(), later = fs.stats();
  REQUIRE(s.threads.size() == 4);
  CHECK(s.threads[0].requests == 32);
  CHECK(s.threads[0].trace.size() == 32);
  for (unsigned t = 1; t < 4; ++t) {
    CHECK(s.threads[t].requests == 0);
    CHECK(s.threads[t].polls_before_first <= later.threads[t].idle_polls);
    CHECK(s.threads[t].idle_polls <= later.threads[t].polls_before_first + 1);
  }

  // More blocks than slots: they take turns.
  o.slots = 4;
  original::file_system few(path, o);
  batch.run(few, 32, 32);
  CHECK(batch.problem(path) == "");
  for (auto const& t : few.stats().threads) CHECK(t.requests == 8);
}

TEST_CASE("baseline: the oldest page goes first, even if it was just read") {
  scratch_folder folder;
  constexpr std::uint64_t page = 512;
  auto const path = make_file(folder, "file", 8 * page);
  original::file_system fs(path, small_options(page, 4));
  reads batch;  // one block: pages 0 1 2 3, 0 again (a hit), 4 (throws out 0), 0 (throws out 1), 2
                // (a hit)
  for (std::int64_t const p : {0, 1, 2, 3, 0, 4, 0, 2})
    batch.add(p * static_cast<std::int64_t>(page), page);
  batch.run(fs, 1, 64);
  CHECK(batch.problem(path) == "");
  auto const s = fs.stats();
  CHECK(s.misses == 6);
  CHECK(s.hits == 2);
  CHECK(s.evictions == 2);
}

TEST_CASE("baseline: a file that became shorter fails the read, not the next one") {
  scratch_folder folder;
  constexpr std::uint64_t page = 512;
  auto const path = make_file(folder, "file", 16 * page);
  original::file_system const fs(path, small_options(page, 8));
  set_size(path, 8 * page);
  reads batch;
  for (std::int64_t i = 0; i < 8; ++i) {
    batch.add((8 + i) * static_cast<std::int64_t>(page), page);
    batch.add(i * static_cast<std::int64_t>(page), page);
  }
  batch.add(-1, 10);
  batch.run(fs, 2, 32);
  auto const& done = batch.done();
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(done[i].result == (i % 2 == 0 ? -EIO : static_cast<std::int64_t>(page)));
  CHECK(done[16].result == -EINVAL);
}

TEST_CASE("baseline: a slot that is never given back ends the waits of others") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 512);
  auto o = small_options(512, 4);
  o.slots = o.host_threads = 1;
  o.timeout_ms = 20;
  original::file_system const fs(path, o);
  auto const results = zeroed<std::int32_t>(2);
  auto patient = fs.ref();
  patient.timeout_ns = 120'000'000'000;
  launch(keep_slot, 1, 32, patient, results.data());
  this_thread_stream().synchronize();
  CHECK(contents(results)[0] == 512);
  launch(keep_slot, 1, 32, fs.ref(), results.data());
  this_thread_stream().synchronize();
  CHECK(contents(results)[0] == -EBUSY);
}

TEST_CASE("baseline: wrong options are refused by name") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 512);
  auto const refused = [&](original::options const& o) {
    try {
      original::file_system const fs(path, o);
    } catch (std::invalid_argument const& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  CHECK(refused(small_options(3000, 4)).find("pages of 3000") != std::string::npos);
  CHECK(refused(small_options(512, 0)).find("a cache of 0") != std::string::npos);
  auto o = small_options(512, 4);
  o.readahead = 700;
  CHECK(refused(o).find("readahead of 700: must be a multiple of the page size, 512") !=
        std::string::npos);
  o.readahead = 0;
  o.host_threads = 129;
  CHECK(refused(o).find("129 host threads") != std::string::npos);
  o.slots = 0;
  CHECK(refused(o).find("0 slots") != std::string::npos);
  CHECK_THROWS_AS(original::file_system(folder / "none", small_options(512, 4)), std::system_error);
}
