// Claims about how much of everything a filesystem has: what may be registered at once, and the
// table that it is found in.
#include <gpufs/owner/layout.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>

namespace {

constexpr std::uint64_t large_host = 64ull << 30, small_host = 2ull << 30;

gpufs::owner::layout layout_of(gpufs::config const& c, std::uint64_t host_memory = large_host) {
  return gpufs::owner::layout::of(c, 2, host_memory);
}

gpufs::config with(gpufs::io_path path, std::uint64_t registered_memory,
                   std::uint64_t file_window_size = 64 << 20) {
  gpufs::config c;
  c.path = path;
  c.registered_memory = registered_memory;
  c.file_window_size = file_window_size;
  return c;
}

}  // namespace

using gpufs::io_path;

TEST_CASE(
    "windows: io_path=registered gets all of registered_memory, auto a quarter of the "
    "host's "
    "memory at most") {
  CHECK(layout_of(with(io_path::registered, 40ull << 30)).window_budget == 40ull << 30);
  CHECK(layout_of(with(io_path::automatic, 40ull << 30)).window_budget == large_host / 4);
  CHECK(layout_of(with(io_path::automatic, 8ull << 30)).window_budget == 8ull << 30);
}

TEST_CASE(
    "windows: none are registered, and there is no table, where none may be or the budget "
    "is below a window") {
  auto const none = [](gpufs::config const& c, std::uint64_t host_memory) {
    auto const l = layout_of(c, host_memory);
    return l.window_budget == 0 && l.window_entries == 0;
  };
  CHECK(none(with(io_path::pull, 8ull << 30), large_host));
  CHECK(none(with(io_path::dma, 8ull << 30), large_host));
  CHECK(none(with(io_path::registered, 0), large_host));
  CHECK(none(with(io_path::automatic, 0), large_host));
  CHECK(none(with(io_path::automatic, 8ull << 30, 1ull << 30), small_host));
  CHECK(none(with(io_path::automatic, 8ull << 30), 0));  // a host that cannot say what it has
  CHECK_FALSE(none(with(io_path::automatic, 8ull << 30, 512ull << 20), small_host));
}

TEST_CASE(
    "windows: the table has several entries for each window of the budget, and their number is a "
    "power of two") {
  for (std::uint64_t const budget : {64ull << 20, 8ull << 30, 64ull << 30}) {
    CAPTURE(budget);
    auto const l = layout_of(with(io_path::registered, budget));
    CHECK(std::has_single_bit(l.window_entries));
    CHECK(l.window_entries >= 4 * (budget / (64 << 20)));
  }
}

TEST_CASE(
    "windows: straight loads are counted where files may be registered, in a word for every second "
    "frame; a page comes in after a few of them") {
  CHECK(layout_of(with(io_path::pull, 8ull << 30)).element_counts == 0);
  CHECK(layout_of(with(io_path::registered, 0)).element_counts == 0);
  auto c = with(io_path::registered, 8ull << 30);
  std::uint32_t last = 2;
  for (std::uint64_t page = 512; page <= 16 << 20; page *= 2) {
    CAPTURE(page);
    c.page_size = page;
    for (std::uint64_t const frames : {8, 1000}) {
      c.cache_size = frames * page;
      CHECK(layout_of(c).element_counts == frames / 2);
    }
    auto const loads = layout_of(c).straight_loads;
    CHECK(loads >= last);  // the longer the page, the later
    CHECK(loads <= 32);
    last = loads;
  }
}
