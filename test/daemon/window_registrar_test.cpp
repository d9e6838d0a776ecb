// The window thread alone, with a device that notes its calls: the windows that are registered, and
// the end of each.
#include <gpufs/advice.hpp>

#include <test/daemon/fake_windows.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>

using namespace gpufs::test;
using namespace gpufs::daemon;

TEST_CASE(
    "window registrar: what is read is mapped, once, and the last window ends with the file") {
  fixture f{1 << 30};
  auto const file = f.file("a", 3 * window + 100);
  f.read_until(7, file, window - 1, 2, [&] { return f.device.windows(7) == windows{0, 1}; });
  f.read_until(7, file, 3 * window, 50, [&] { return f.device.windows(7) == windows{0, 1, 3}; });
  for (int i = 0; i < 100; ++i) f.registrar->touched(7, file, 0, 2 * window);
  f.read_until(7, file, 2 * window, 1, [&] { return f.device.windows(7) == windows{0, 1, 2, 3}; });
  // A window is counted after it was published.
  wait_until([&] { return f.registrar->registered() >= 4; }, "all windows counted");
  CHECK(f.device.calls == 4);
  CHECK(f.registrar->registered() == 4);
  CHECK(f.registrar->bytes() == 3 * window + 4096);
  std::lock_guard const lock{f.device.mutex};
  for (auto const& [entry, w] : f.device.table) CHECK(w.bytes == (w.window == 3 ? 100 : window));
}

TEST_CASE(
    "window registrar: a newer version of a file takes the place of the older one, which comes "
    "back no more") {
  fixture f{1 << 30};
  auto const file = f.file("a", 4 * window);
  auto const other = f.file("b", 4 * window);
  f.read_until(7, file, 0, 4 * window, [&] { return f.device.windows(7).size() == 4; });
  f.read_until(8, other, 0, window, [&] { return f.device.windows(8).size() == 1; });
  f.read_until(9, file, 2 * window, 1, [&] { return f.device.windows(9) == windows{2}; });
  CHECK(f.device.windows(7).empty());
  f.registrar->touched(7, file, 0, 4 * window);
  f.read_until(8, other, window, 1, [&] { return f.device.windows(8).size() == 2; });
  CHECK(f.device.windows(7).empty());
  CHECK(f.registrar->retired() == 4);
  f.read_until(8, other, 0, 1, [&] { return f.device.mapped_now() == 3; });  // unmapped, too
}

TEST_CASE(
    "window registrar: beyond the budget nothing is mapped while kernels run; then the oldest "
    "windows make room") {
  fixture f{4 * window};
  auto const file = f.file("a", 16 * window);
  for (std::uint64_t w = 0; w < 4; ++w)
    f.read_until(7, file, w * window, 1, [&] { return f.device.windows(7).size() == w + 1; });
  f.device.idles = false;
  auto const other = f.file("b", 2 * window);
  std::uint64_t asked = 0;
  f.read_until(7, file, 9 * window, 1, [&] { return ++asked == 1000; });
  CHECK(f.device.windows(7) == windows{0, 1, 2, 3});
  f.device.idles = true;
  f.read_until(7, file, 9 * window, 1, [&] { return f.device.windows(7) == windows{1, 2, 3, 9}; });
  CHECK(f.registrar->bytes() == 4 * window);
}

TEST_CASE("window registrar: what the OS page cache lacks much of is not mapped, until it has it") {
  std::atomic<std::uint64_t> missing{3};
  std::atomic<unsigned> questions{0};
  fixture f{1 << 30, 64, [&](int, std::uint64_t, std::uint64_t length, std::uint64_t& cached) {
              ++questions;
              cached = length / 4096 - missing;
              return 0;
            }};
  auto const file = f.file("a", 4 * window);
  f.read_until(7, file, 0, window,
               [&] { return questions > 2; });  // it is asked about again, now and then
  CHECK(f.device.calls == 0);
  missing = 1;
  f.read_until(7, file, 0, window, [&] { return f.device.windows(7) == windows{0}; });
}

TEST_CASE("window registrar: without cachestat samples tell that a file is warm") {
  fixture f{1 << 30, 64, [](int, std::uint64_t, std::uint64_t, std::uint64_t&) { return -EPERM; }};
  auto const file = f.file("a", 2 * window);
  f.read_until(7, file, 0, 1, [&] { return f.device.windows(7) == windows{0}; });
}

TEST_CASE("window registrar: a device that refuses is asked once, and a note says why") {
  fixture f{1 << 30};
  f.device.refuses = true;
  auto const file = f.file("a", 4 * window);
  f.read_until(7, file, 0, 4 * window, [&] { return !f.registrar->notes().empty(); });
  f.device.refuses = false;
  for (int i = 0; i < 100; ++i) f.registrar->touched(7, file, 0, 4 * window);
  CHECK(f.device.calls == 1);
  REQUIRE(f.registrar->notes().size() == 1);
  CHECK(
      f.registrar->notes()[0] ==
      "io_path=registered: files are not mapped for the device any more (no such thing); they are "
      "read as with auto");
}

TEST_CASE("window registrar: a file system that refuses is noted once, and left alone") {
  fixture f{1 << 30};
  f.device.no_mmap = true;
  auto const file = f.file("a", 8 * window);
  f.read_until(7, file, 0, window, [&] { return !f.registrar->notes().empty(); });
  f.device.no_mmap = false;
  auto const other = f.file("b", 8 * window);
  for (int i = 0; i < 100; ++i) f.registrar->touched(8, other, 0, 8 * window);
  f.end();
  CHECK(f.device.calls == 1);
}

TEST_CASE("window registrar: a file that shrinks while it is mapped is no reason to give up") {
  // Refuses bytes that the file does not have any more, as a device does.
  struct shrinking final : fault_injector {
    std::string path;
    std::atomic<unsigned> calls{0};
    fault_action before_map(std::uint64_t, std::uint64_t) override {
      if (calls++ != 0) return fault_action::pass();
      set_size(path, window + 100);
      return fault_action::fail(EFAULT);
    }
  } faults;
  fixture f{1 << 30, 64, {}, &faults};
  faults.path = f.folder / "a";
  auto const file = f.file("a", 4 * window);
  f.read_until(7, file, 2 * window, 1, [&] { return faults.calls == 1; });
  f.read_until(7, file, 0, 2 * window, [&] { return f.device.windows(7) == windows{0, 1}; });
  CHECK(f.registrar->notes().empty());
  CHECK(f.registrar->bytes() == window + 4096);
}

TEST_CASE("window registrar: a table without a free entry leaves windows to requests") {
  fixture f{1 << 30, 8};
  auto const file = f.file("a", 64 * window);
  f.device.idles = false;
  f.read_until(7, file, 0, 64 * window, [&] { return f.device.windows(7).size() == 4; });
  f.read_until(7, file, 0, 64 * window, [&, n = 0]() mutable { return ++n == 1000; });
  CHECK(f.device.windows(7).size() == 4);
}

TEST_CASE(
    "window registrar: a window that cannot be taken out of the table stays mapped to the end, and "
    "is the last") {
  fixture f{1 << 30};
  auto const file = f.file("a", 4 * window);
  f.read_until(7, file, 0, 1, [&] { return f.device.windows(7).size() == 1; });
  f.device.refuses_withdrawal = true;
  f.read_until(8, file, 0, 1, [&] { return f.registrar->retired() == 1; });
  f.registrar->touched(9, file, window, 1);
  CHECK(f.device.mapped_now() >= 1);
}

TEST_CASE(
    "window registrar: many threads ask, for the same windows and others, and each is mapped "
    "once") {
  fixture f{1 << 30, 1024};
  auto const file = f.file("a", 40 * window);
  std::vector<std::thread> readers;
  for (unsigned t = 0; t < 4; ++t) {
    readers.emplace_back([&, t] {
      wait_until(
          [&] {
            for (std::uint64_t w = 0; w < 40; ++w)
              f.registrar->touched(7, file, (w * (2 * t + 1) % 40) * window, 1);
            return f.registrar->registered() == 40;
          },
          "windows that are mapped");
    });
  }
  for (auto& t : readers) t.join();
  CHECK(f.device.windows(7).size() == 40);
  CHECK(f.device.calls == 40);
}

namespace {

// Reads that pay for a window.
constexpr std::uint64_t small = 4 << 10, reads_to_pay = window / 4 / small;

/// Counts how often the window thread looked at each of the first windows of the one file.
struct considered_windows {
  std::array<std::atomic<std::uint64_t>, 16> times{};
  cachestat_function hook() {
    return [this](int, std::uint64_t offset, std::uint64_t length, std::uint64_t& cached) {
      ++times[offset / window];
      cached = length / 4096;
      return 0;
    };
  }
};

}  // namespace

TEST_CASE("window registrar: reads at random have a window mapped once they have paid for it") {
  considered_windows considered;
  fixture f{1 << 30, 64, considered.hook()};
  auto const file = f.file("a", 8 * window);
  for (std::uint64_t i = 1; i < reads_to_pay; ++i)
    f.registrar->read_at_random(7, file, i * small, small, true);
  // Offers are taken in turn: one for window 0 would have been taken before.
  f.read_until(7, file, window, 1, [&] { return f.device.windows(7) == windows{1}; });
  CHECK(considered.times[0] == 0);
  f.registrar->read_at_random(7, file, 5, 1, true);  // costs as much as 4 KiB
  wait_until([&] { return f.device.windows(7) == windows{0, 1}; }, "a window that was paid for");
  f.registrar->read_at_random(7, file, 2 * window, window / 2,
                              true);  // counts a fifth of its bytes
  f.read_until(7, file, 7 * window, 1, [&] { return f.device.windows(7) == windows{0, 1, 7}; });
  CHECK(considered.times[2] == 0);
  for (std::uint64_t i = 0; i < reads_to_pay; ++i)
    f.registrar->read_at_random(7, file, 5 * window - small / 2, small, true);
  wait_until([&] { return f.device.windows(7) == windows{0, 1, 4, 5, 7}; }, "both windows");
  wait_until([&] { return f.registrar->registered() >= 5; }, "all windows counted");
  CHECK(f.registrar->registered() == 5);
  CHECK(considered.times[0] == 1);
}

TEST_CASE("window registrar: a window that was retired, or found no room, is paid for anew") {
  considered_windows considered;
  fixture f{2 * window, 64, considered.hook()};
  auto const file = f.file("a", 16 * window);
  auto const pay = [&](std::uint64_t w, std::uint64_t reads) {
    for (std::uint64_t i = 0; i < reads; ++i)
      f.registrar->read_at_random(7, file, w * window + i * small, small, true);
  };
  pay(0, reads_to_pay);
  pay(1, reads_to_pay);
  wait_until([&] { return f.device.windows(7) == windows{0, 1}; }, "two windows");
  f.device.idles = false;
  pay(2, reads_to_pay);
  wait_until([&] { return considered.times[2] == 1; }, "a window that finds no room");
  std::uint64_t reads = 0;
  wait_until(
      [&] {
        pay(2, 1);
        ++reads;
        return considered.times[2] == 2;
      },
      "the window once more");
  CHECK(reads >= reads_to_pay);
  f.device.idles = true;
  wait_until(
      [&] {
        pay(2, 1);
        return f.device.windows(7) == windows{1, 2};
      },
      "room");
  pay(0, reads_to_pay - 1);
  auto const times = considered.times[0].load();
  f.registrar->touched(7, file, 9 * window, 1);
  wait_until([&] { return considered.times[9] == 1; }, "an offer that came later");
  CHECK(considered.times[0] == times);
  pay(0, 1);
  wait_until([&] { return considered.times[0] == times + 1; }, "the window that was paid for");
}

TEST_CASE(
    "window registrar: many threads read at random, and each window is mapped once and no more "
    "often than they paid for") {
  fixture f{1 << 30, 1024};
  auto const file = f.file("a", 40 * window);
  std::atomic<std::uint64_t> reads{0};
  std::vector<std::thread> readers;
  for (unsigned t = 0; t < 4; ++t) {
    readers.emplace_back([&, t] {
      wait_until(
          [&] {
            for (std::uint64_t w = 0; w < 40; ++w) {
              ++reads;
              f.registrar->read_at_random(7, file, (w * (2 * t + 1) % 40) * window, small, true);
            }
            return f.registrar->registered() == 40;
          },
          "windows that are mapped");
    });
  }
  for (auto& t : readers) t.join();
  CHECK(f.device.calls == 40);
  CHECK(reads >= 40 * reads_to_pay);
}

TEST_CASE("window registrar: the files whose windows may be registered, and when") {
  using gpufs::advice;
  using gpufs::registered_files;
  std::array<gpufs::rpc::open_file_record, 2> records{};
  gpufs::rpc::shared_region region;
  region.open_files = records.data();
  region.max_open_files = records.size();
  auto const fd = gpufs::rpc::make_descriptor(1, 3);
  auto const is = [&](registered_files which, std::uint64_t version, bool at_once) {
    auto const got = may_register(region, fd, which);
    return got.version == version && got.at_once == at_once;
  };
  auto const none_may = [&] {
    for (auto const which :
         {registered_files::none, registered_files::noticed, registered_files::all})
      if (!is(which, 0, false)) return false;
    return true;
  };
  CHECK(none_may());  // not open
  auto& r = records[1];
  r.tag = 3;
  r.version = 77;
  r.flags = O_RDONLY;
  struct {
    advice what;
    std::uint64_t noticed;
    bool at_once;
  } constexpr rows[] = {
      {advice::normal, 77, false}, {advice::sequential, 0, false}, {advice::random, 77, true}};
  for (auto const& row : rows) {
    CAPTURE(int(row.what));
    r.advice = std::uint64_t(row.what);
    CHECK(is(registered_files::none, 0, false));
    CHECK(is(registered_files::noticed, row.noticed, row.at_once));
    CHECK(is(registered_files::all, 77, true));
    r.flags = O_RDWR;
    CHECK(none_may());
    r.flags = O_RDONLY;
    r.write_index = 1;  // it was written
    CHECK(none_may());
    r.write_index = 0;
    r.tag = 4;  // the descriptor is another's
    CHECK(none_may());
    r.tag = 3;
  }
}
