// Every allocation fails in turn: small scenarios with the n-th allocation of the library and of
// the daemon's threads refused, or all from the n-th on, for n = 0 until none is refused. Each call
// gives its value or -ENOMEM, or throws what its contract says. No thread ends the program.
// Acknowledged bytes arrive.
#include <gpufs/gpufs.hpp>

#include <test/support/descriptors.hpp>
#include <test/support/failing_allocations.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/in_library.hpp>
#include <test/support/settings.hpp>
#include <test/support/sweep_scene.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = sweep_scene::page;

/// For scenes: a call that meets it gives -ENOMEM.
struct : sweep_fault {
  [[nodiscard]] bool happened() const override { return failing_allocation::has_failed(); }
  [[nodiscard]] bool explains(std::int64_t error) const override { return error == -ENOMEM; }
} const no_memory;

using scene = sweep_scene;

/// Runs the scenario with each of its allocations refused. Prints how many there are.
void sweep(char const* name, config const& c, refused which,
           std::function<void(scene&)> const& scenario) {
  constexpr long most = 2000;
  auto const descriptors = open_descriptors();
  long n = 0;
  for (bool failed = true; failed && n < most; ++n) {
    CAPTURE(n);
    std::string const scenario_name = name;
    CAPTURE(scenario_name);
    scene s{no_memory};
    s.make_filesystem(c);
    {
      failing_allocation const one(n, which);
      scenario(s);
      failed = one.has_failed();
    }
    s.check_afterwards();
    s.fs.reset();
    CHECK(open_descriptors() == descriptors);
  }
  CHECK(n < most);
  MESSAGE(
      std::string(name) << ": " << n - 1 << " allocations refused"
                        << std::string(which == refused::one ? "" : ", each with all that follow"));
}

void sweep(char const* name, config const& c, std::function<void(scene&)> const& scenario) {
  sweep(name, c, refused::one, scenario);
  sweep(name, c, refused::all_from_then_on, scenario);
}

}  // namespace

TEST_CASE("a filesystem that gets no memory throws, and leaves nothing behind") {
  static_cast<void>(filesystem(sweep_config()));  // the driver opens descriptors at its first use
  auto const descriptors = open_descriptors();
  for (auto const path : {io_path::automatic, io_path::dma, io_path::registered}) {
    for (auto const backend : {io_backend::pread, io_backend::automatic}) {
      auto c = sweep_config();
      c.path = path;
      c.backend = backend;
      // To give up a ring takes the kernel long, so only some allocations beside rings fail.
      long const step = backend == io_backend::pread ? 1 : 11;
      long n = 0;
      for (bool failed = true; failed; n += step) {
        CAPTURE(n);
        failing_allocation const one(n);
        try {
          library([&] { return std::make_unique<filesystem>(c); });
        } catch (std::bad_alloc const&) {
          CHECK(one.has_failed());
        } catch (device_error const& e) {
          CHECK(one.has_failed());
          CHECK(std::string(e.what()).find("lower ") != std::string::npos);
        }
        failed = one.has_failed();
      }
      CHECK(open_descriptors() == descriptors);
      MESSAGE("construct: " << (n - 1) / step << " allocations refused");
    }
  }
}

TEST_CASE("calls of the host without memory give -ENOMEM or throw std::bad_alloc") {
  sweep("host calls", sweep_config(), [](scene& s) {
    auto const call = [&](std::int64_t expected, auto const& body) {
      try {
        s.check_result(library(body), expected);
      } catch (std::bad_alloc const&) {
        CHECK(failing_allocation::has_failed());
      }
    };
    int const fd = s.opened_by_host(library([&] { return s.fs->open(s.path, O_RDWR); }));
    if (fd < 0) return;
    auto const bytes = some_bytes(3, 0, 100);
    call(100, [&] {
      auto const written = s.fs->write(fd, bytes.data(), bytes.size(), 0);
      if (written > 0) s.put(0, bytes, bytes.size());
      return written;
    });
    file_status status{};
    call(0, [&] { return s.fs->stat(fd, status); });
    call(0, [&] { return s.fs->advise(fd, 0, 0, advice::random); });
    call(0, [&] { return s.fs->advise(fd, 0, 0, advice::willneed); });
    call(0, [&] {
      static_cast<void>(s.fs->stats());
      return 0;
    });
    call(0, [&] {
      static_cast<void>(s.fs->thread_stats());
      return 0;
    });
    call(0, [&] {
      static_cast<void>(s.fs->notes());
      return 0;
    });
    call(0, [&] {
      static_cast<void>(s.fs->unreleased());
      return 0;
    });
    call(0, [&] { return int(s.fs->unwritten().size()); });
    call(0, [&] { return s.fs->sync(fd); });
    call(0, [&] { return s.fs->sync(); });
    call(0, [&] { return s.fs->discard(fd); });
    call(0, [&] { return s.fs->close(fd); });
    s.opened.clear();
  });
}

TEST_CASE("dirty pages without memory: host calls list, write and drop them") {
  sweep("host calls on dirty pages", sweep_config(), [](scene& s) {
    int const fd = s.open(O_RDWR);
    if (fd < 0) return;
    s.write(fd, 5, 10, 3 * page);
    auto const bytes = some_bytes(3, 0, 100);
    try {
      static_cast<void>(library([&] { return s.fs->unwritten(); }));
    } catch (std::bad_alloc const&) {
      CHECK(failing_allocation::has_failed());
    }
    file_status status{};
    s.check_result(library([&] { return s.fs->stat(fd, status); }), 0);
    auto const written = library([&] { return s.fs->write(fd, bytes.data(), bytes.size(), page); });
    s.check_result(written, 100);
    if (written > 0) s.put(page, bytes, bytes.size());
    s.read(fd);
    s.write(fd, 6, 2 * page, 10);
    s.check_result(library([&] { return s.fs->sync(fd); }), 0);
    s.write(fd, 7, 2 * page, 10);
    s.check_result(library([&] { return s.fs->close(fd); }), 0);
    s.opened.clear();
  });
}

TEST_CASE("kernels read and write while the daemon gets no memory") {
  sweep("open, read, close", sweep_config(), [](scene& s) {
    int const fd = s.open(O_RDONLY);
    if (fd < 0) return;
    s.read(fd);
    s.close(fd);
  });
  sweep("write, sync, close", sweep_config(), [](scene& s) {
    int const fd = s.open(O_RDWR);
    if (fd < 0) return;
    s.write(fd, 5, 10, 3 * page);
    s.sync(fd);
    s.write(fd, 6, 5000, 100);
    s.read(fd);
    s.close(fd);
  });
  sweep("write, written in the background", sweep_config(), [](scene& s) {
    int const fd = s.open(O_WRONLY);
    if (fd < 0) return;
    s.write(fd, 5, 10, 3 * page);
    wait_until([&] { return s.fs->unwritten().empty(); }, "write-back");
    s.close(fd);
  });
  sweep("truncate", sweep_config(), [](scene& s) {
    int const fd = s.open(O_RDWR);
    if (fd < 0) return;
    s.write(fd, 5, 10, 3 * page);
    s.truncate(fd, 50);
    s.read(fd);
    s.close(fd);
  });
  sweep("open with O_TRUNC, unlink", sweep_config(), [](scene& s) {
    int const fd = s.open(O_RDWR | O_TRUNC);
    // An open that fails may have cut the file already.
    if (fd > 0 || std::filesystem::file_size(s.path) == 0) s.resize(0);
    if (fd > 0) {
      s.write(fd, 5, 0, 100);
      s.close(fd);
    }
    s.unlink();
  });
  sweep("append", sweep_config(), [](scene& s) {
    int const fd = s.open(O_WRONLY | O_APPEND);
    if (fd < 0) return;
    s.write(fd, 5, s.expected.size(), 1000);
    s.write(fd, 6, s.expected.size(), 1000);
    s.close(fd);
  });
  sweep("open for writing beside a reader, O_GWRONCE", sweep_config(), [](scene& s) {
    int const reader = s.open(O_RDONLY);
    if (reader < 0) return;
    s.read(reader);
    int const once = s.open(O_GWRONCE);
    if (once > 0) s.write(once, 5, 0, 100);
    int const writer = s.open(O_RDWR);
    if (writer > 0) s.write(writer, 6, page, 100);
  });
}

TEST_CASE("the other ways of bytes without memory: registered, copied, read ahead") {
  auto ahead = sweep_config();
  ahead.prefetch_size = prefetch_automatic;
  auto const read_twice = [](scene& s) {
    int const fd = s.open(O_RDONLY);
    if (fd < 0) return;
    s.read(fd);
    s.read(fd);
    s.close(fd);
  };
  sweep("readahead", ahead, read_twice);
  auto copied = small_config(64 << 10, 8);
  copied.path = io_path::dma;
  copied.host_threads = 1;
  sweep("dma", copied, read_twice);
  auto direct = sweep_config();
  direct.path = io_path::direct;
  direct.backend = io_backend::automatic;
  sweep("direct", direct, read_twice);
  auto registered = sweep_config();
  registered.path = io_path::registered;
  registered.file_window_size = 64 << 10;
  registered.registered_memory = 1 << 20;
  sweep("registered", registered, [&](scene& s) {
    read_twice(s);
    wait_until(
        [&] { return failing_allocation::has_failed() || s.fs->stats().windows_registered > 0; },
        "a window");
    read_twice(s);
  });
}
