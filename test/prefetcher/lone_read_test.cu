// Reads of single pages in no order, which request their page before it is entered once they are
// used to having pages to themselves: what they get, and how often they ask, when they are not
// alone, when pages fail, and when frames are few.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;
using testing::fault_action;

namespace {

constexpr std::uint64_t page = 4096, pages = 600;

config for_lone_reads(std::uint64_t frames) {
  auto c = small_config(page, frames);
  c.path = io_path::pull;
  c.prefetch_size = prefetch_automatic;
  return c;
}

/// Every page of the file once, in no order. None is near the one before it, so nothing is read
/// ahead.
std::vector<std::uint64_t> shuffled(std::mt19937& random) {
  std::vector<std::uint64_t> order(pages);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  auto const are_near = [](std::uint64_t a, std::uint64_t b) {
    return std::max(a, b) - std::min(a, b) < 4;
  };
  for (auto near = order.end();
       (near = std::adjacent_find(order.begin(), order.end(), are_near)) != order.end();)
    std::iter_swap(near, order.begin() + std::ptrdiff_t(random() % pages));
  return order;
}

}  // namespace

TEST_CASE("lone reads: a caller that is alone asks for each page once") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", pages * page);
  std::mt19937 random(seed());
  for (auto const who : {caller_kind::block, caller_kind::tile}) {
    filesystem fs(for_lone_reads(2 * pages));
    int const fd = fs.open(path, O_RDONLY);
    read_batch batch;
    for (auto const at : shuffled(random)) batch.add(fd, path, std::int64_t(at * page), page);
    batch.run(fs.ref(), 1, who == caller_kind::block ? 96 : 32, who);
    CHECK(batch.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");
    CHECK(fs.stats().misses == pages);
    CHECK(fs.stats().host_bytes == pages * page);
  }
}

TEST_CASE("lone reads: callers that want the same pages get them, and few are asked for twice") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", pages * page);
  std::mt19937 random(seed());
  constexpr unsigned callers = 6;
  for (bool const alone_first : {false, true}) {
    filesystem fs(for_lone_reads(3 * pages));
    int const fd = fs.open(path, O_RDONLY);
    auto const other = make_file(folder, "other", pages * page);
    int const first = fs.open(other, O_RDONLY);
    read_batch batch;
    if (alone_first)  // each learns that it is alone
      for (auto const at : shuffled(random)) batch.add(first, other, std::int64_t(at * page), page);
    for (auto const at : shuffled(random))
      for (unsigned c = 0; c < callers; ++c) batch.add(fd, path, std::int64_t(at * page), page);
    batch.run(fs.ref(), callers, 64);
    CAPTURE(alone_first);
    CHECK(batch.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");
    CHECK(fs.stats().misses == (alone_first ? 2 : 1) * pages);
    fs.stop();  // answers what was still on its way
    CHECK(fs.stats().host_bytes * 10 <= (alone_first ? 2 : 1) * pages * page * 11);
  }
}

TEST_CASE("lone reads: pages that fail, come short or come late fail nothing else") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", pages * page);
  std::mt19937 random(seed());
  auto const gate = std::make_shared<testing::gate>();
  auto c = for_lone_reads(2 * pages);
  c.rpc_timeout_ms = 5000;
  constexpr std::uint64_t broken_page = 100, held_page = 200, short_page = 300;
  std::atomic<bool> broken{true};
  testing::filesystem fs(c, read_faults([&, gate](std::uint64_t offset, std::uint64_t length) {
                           if (!broken || length == 0) return fault_action::pass();
                           if (offset == broken_page * page) return fault_action::fail(EIO);
                           if (offset == held_page * page) return fault_action::hold(gate);
                           if (offset == short_page * page) return fault_action::shorten(1000);
                           return fault_action::pass();
                         }));
  int const fd = fs.open(path, O_RDONLY);
  read_batch batch;
  for (auto const at : shuffled(random)) {
    if (at == broken_page || at == held_page)
      batch.add_failing(fd, std::int64_t(at * page), page, at == broken_page ? -EIO : -ETIMEDOUT);
    else
      batch.add(fd, path, std::int64_t(at * page), page);
  }
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.problems() == "");
  broken = false;
  gate->release();
  read_batch healed;
  for (auto const at : {broken_page, held_page, short_page})
    healed.add(fd, path, std::int64_t(at * page), page);
  healed.run(fs.ref(), 1, 64);
  CHECK(healed.problems() == "");
  CHECK(inspect(fs.ref()).problems == "");
}

TEST_CASE("lone reads: few frames and channels, no error and no wrong byte") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", pages * page);
  std::mt19937 random(seed());
  for (std::uint64_t const frames : {8u, 40u, 300u}) {
    auto c = for_lone_reads(frames);
    c.staging_size = 16 * page;
    filesystem fs(c);
    int const fd = fs.open(path, O_RDONLY);
    read_batch batch;
    for (int i = 0; i < 2000; ++i) batch.add(fd, path, std::int64_t(random() % pages * page), page);
    CAPTURE(frames);
    batch.run(fs.ref(), 4, 64);
    CHECK(batch.problems() == "");
    CHECK(inspect(fs.ref()).problems == "");
    CHECK(fs.stats().errors == 0);
    CHECK(fs.stats().timeouts == 0);
  }
}
