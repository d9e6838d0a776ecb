// The window thread alone, with a device that notes its calls: the windows that are registered, and
// the end of each.
#include <test/daemon/fake_windows.hpp>

#include <doctest/doctest.h>

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
