// Every call of the system and of the device fails in turn: small scenarios with the n-th call of a
// kind refused, with each error that its manual page lists, once or from then on. Each call of
// gpufs gives its value or that error, or throws what its contract says. It never hangs.
// Acknowledged bytes arrive, and a further gopen works once the fault is over.
#include <gpufs/gpufs.hpp>
#include <gpufs/owner/device_copier.hpp>

#include <host-daemon/base/reported_error.hpp>
#include <host-daemon/bulk/bulk_io.hpp>
#include <host-daemon/serve/server.hpp>

#include <test/daemon/harness.hpp>
#include <test/daemon/paths.hpp>
#include <test/refusals/refused_calls.hpp>
#include <test/support/descriptors.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>
#include <test/support/sweep_scene.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = sweep_scene::page;
using scene = sweep_scene;

// Injection points that were reached, of all cases, by call.
std::array<long, std::size_t(refusable::count)> reached;

/// What a refusal explains.
class refused_outcome final : public sweep_fault {
 public:
  refused_outcome(refusable_call const& of, int what, refused how_long)
      : call_(of), what_(what), how_long_(how_long) {}

  [[nodiscard]] bool happened() const override { return refusal::happened(); }
  [[nodiscard]] bool may_show() const { return call_.may == effect::error && !is_tried_again(); }
  [[nodiscard]] bool explains(std::int64_t error) const override {
    int const shown = what_ < few_bytes ? what_ : EIO;
    // -EAGAIN as the result of a gfsync would say that nothing was reported.
    return may_show() && (error == -shown || error == daemon::reported_error(-shown));
  }

 private:
  // Interruptions and the like do not show, unless each try meets them.
  [[nodiscard]] bool is_tried_again() const {
    if (call_.call == refusable::close) return what_ == EINTR;
    if (call_.call == refusable::fdatasync && what_ == EINVAL) return true;
    if (what_ == few_bytes) return true;
    bool const reads = call_.call == refusable::pread || call_.call == refusable::ring_result;
    bool const again = what_ == EINTR || (what_ == EAGAIN && reads);
    return again && how_long_ == refused::once;
  }

  refusable_call const& call_;
  int what_;
  refused how_long_;
};

__global__ void note_run(int* ran) {
  if (threadIdx.x == 0) *ran = 1;
}

/// While it lives, what the process writes to stderr is dropped.
class no_messages {
 public:
  no_messages() : stderr_(::dup(2)) {
    int const nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(nowhere, 2);
    ::close(nowhere);
  }
  ~no_messages() {
    ::dup2(stderr_, 2);
    ::close(stderr_);
  }
  no_messages(no_messages const&) = delete;
  no_messages& operator=(no_messages const&) = delete;

 private:
  int stderr_;
};

struct scenario {
  char const* name;
  config settings;
  std::function<void(scene&)> run;
  bool makes_filesystem = false;      // the fault begins before it is made
  long most_each = 3;                 // of each call and error, so many places
  std::vector<refusable> only = {};   // not empty: no other call is refused
  std::function<void()> before = {};  // is called before each run
};

// Mappings of rings, which a filesystem that is gone must not leave.
std::size_t ring_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t n = 0;
  for (std::string line; std::getline(maps, line);) n += line.find("io_uring") != line.npos;
  return n;
}

void run_with(scenario const& of, scene& s, bool may_throw) {
  if (of.makes_filesystem) {
    if (of.before) of.before();
    try {
      library([&] { s.make_filesystem(of.settings); });
    } catch (std::exception const& e) {
      std::string const what = e.what();
      CHECK_MESSAGE((s.fault.happened() && may_throw), "threw ", what);
      bool const names_thread = what.find("thread") != what.npos;
      CHECK_MESSAGE((refusal::of() != refusable::thread || names_thread), "threw ", what);
    }
  }
  if (s.fs) of.run(s);
}

/// The outcomes of a call: once at each of its first places, and from the first and the last of
/// them on. ThreadSanitizer is slow: there, a few.
template <class Visit>
void each_point(std::span<long const> counts, long most_each, Visit const& visit) {
  if (thread_sanitizer) most_each = std::min(most_each, 1l);
  for (auto const& call : refusable_calls()) {
    auto const calls = std::min(counts[std::size_t(call.call)], most_each);
    for (int const what : call.outcomes) {
      // A thousand reads of the disk take long.
      bool const again = call.call == refusable::ring_result && (what == EAGAIN || what == EINTR);
      for (long n = 0; n < calls; ++n) {
        visit(call, what, n, refused::once);
        if ((n == 0 || n == calls - 1) && !again) visit(call, what, n, refused::from_then_on);
      }
    }
  }
}

std::string name_of(char const* scenario, refusable_call const& call, int what, long n,
                    refused how_long) {
  return std::string(scenario) + ": " + call.name + " number " + std::to_string(n) +
         (how_long == refused::once ? "" : " and all that follow") + ": outcome " +
         std::to_string(what);
}

void check_point(scenario const& of, refusable_call const& call, int what, long n,
                 refused how_long) {
  auto const where = name_of(of.name, call, what, n, how_long);
  CAPTURE(where);
  auto const descriptors = open_descriptors();
  refused_outcome const outcome(call, what, how_long);
  {
    scene s{outcome};
    if (!of.makes_filesystem) s.make_filesystem(of.settings);
    {
      refusal const now(call.call, n, what, how_long);
      run_with(of, s, outcome.may_show());
    }
    reached[std::size_t(call.call)] += refusal::happened() ? 1 : 0;
    if (!s.fs) s.make_filesystem(of.settings);
    s.check_afterwards();
  }
  CHECK(open_descriptors() == descriptors);
  CHECK(ring_mappings() == 0);
}

long reached_so_far() {
  long sum = 0;
  for (auto const n : reached) sum += n;
  return sum;
}

struct : sweep_fault {
  [[nodiscard]] bool happened() const override { return false; }
  [[nodiscard]] bool explains(std::int64_t) const override { return false; }
} const no_fault;

using call_counts = std::array<long, std::size_t(refusable::count)>;

call_counts counted() {
  call_counts counts;
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = call_counter::count_of(refusable(i));
  return counts;
}

int sweeps_run = 0;
constexpr int all_sweeps = 23;

/// Runs the scenario with each of its calls refused in each way.
void sweep(scenario const& of) {
  auto const before = reached_so_far();
  call_counts counts;
  {
    scene s{no_fault};
    if (!of.makes_filesystem) s.make_filesystem(of.settings);
    {
      call_counter const counting;
      run_with(of, s, false);
      counts = counted();
    }
    if (!s.fs) s.make_filesystem(of.settings);
    s.check_afterwards();
  }
  for (std::size_t i = 0; i < counts.size() && !of.only.empty(); ++i)
    if (std::ranges::find(of.only, refusable(i)) == of.only.end()) counts[i] = 0;
  each_point(counts, of.most_each,
             [&](refusable_call const& call, int what, long n, refused how_long) {
               check_point(of, call, what, n, how_long);
             });
  ++sweeps_run;
  MESSAGE(std::string(of.name) << ": " << reached_so_far() - before << " injection points");
}

}  // namespace

TEST_CASE("kernels read while the system refuses calls") {
  sweep({"open, read, close", sweep_config(), [](scene& s) {
           int const fd = s.open(O_RDONLY);
           if (fd < 0) return;
           s.read(fd);
           s.close(fd);
         }});
}

// In other scenarios the daemon need not come to rest.
TEST_CASE("the daemon rests while the system refuses calls") {
  sweep({.name = "rest",
         .settings = sweep_config(),
         .run =
             [](scene& s) {
               auto const has_rested = [&] {
                 return &s.fault == &no_fault ? call_counter::count_of(refusable::sleep) > 2
                                              : s.fault.happened();
               };
               wait_until(has_rested, "rest of the daemon");
               int const fd = s.open(O_RDONLY);
               if (fd < 0) return;
               s.read(fd);
               s.close(fd);
             },
         .only = {refusable::sleep}});
}

TEST_CASE("kernels write while the system refuses calls") {
  sweep({"write, sync, close", sweep_config(), [](scene& s) {
           int const fd = s.open(O_RDWR);
           if (fd < 0) return;
           s.write(fd, 5, 10, 3 * page);
           s.sync(fd);
           s.write(fd, 6, 5000, 100);
           s.read(fd);
           s.close(fd);
         }});
  sweep({"write, written in the background", sweep_config(), [](scene& s) {
           int const fd = s.open(O_WRONLY);
           if (fd < 0) return;
           s.write(fd, 5, 10, 3 * page);
           wait_until([&] { return s.fault.happened() || s.fs->unwritten().empty(); },
                      "write-back");
           s.close(fd);
         }});
  sweep({"append", sweep_config(), [](scene& s) {
           int const fd = s.open(O_WRONLY | O_APPEND);
           if (fd < 0) return;
           if (s.write(fd, 5, s.expected.size(), 1000)) s.write(fd, 6, s.expected.size(), 1000);
           s.close(fd);
         }});
}

TEST_CASE("a file system that became read-only at an error has made nothing durable") {
  scene s{no_fault};
  s.make_filesystem(sweep_config());
  int const fd = s.open(O_RDWR);
  s.write(fd, 5, 0, 100);
  refusal const now(refusable::fdatasync, 0, EROFS, refused::from_then_on);
  CHECK(library([&] { return s.fs->sync(fd); }) == -EROFS);
}

TEST_CASE("files change their sizes and names while the system refuses calls") {
  sweep({"truncate", sweep_config(), [](scene& s) {
           int const fd = s.open(O_RDWR);
           if (fd < 0) return;
           s.read(fd);
           s.write(fd, 5, 10, 3 * page);
           s.truncate(fd, 50);
           s.read(fd);
           s.truncate(fd, 2 * page);
           s.read(fd);
           s.write(fd, 6, 60, 100);
           s.read(fd);
           s.close(fd);
         }});
  sweep({"open with O_TRUNC, unlink", sweep_config(), [](scene& s) {
           int const fd = s.open(O_RDWR | O_TRUNC);
           // An open that fails may have cut the file already.
           if (fd > 0 || std::filesystem::file_size(s.path) == 0) s.resize(0);
           if (fd > 0) {
             s.write(fd, 5, 0, 100);
             s.close(fd);
           }
           s.unlink();
         }});
  sweep({"O_TRUNC of an open file", sweep_config(), [](scene& s) {
           int const first = s.open(O_RDWR);
           if (first < 0) return;
           s.write(first, 5, 10, 2 * page);
           s.sync(first);
           int const second = s.open(O_RDWR | O_TRUNC);
           s.read(first);
           if (second > 0) s.close(second);
         }});
  sweep({"O_CREAT, O_EXCL", sweep_config(), [](scene& s) {
           std::filesystem::remove(s.path);
           int const fd = s.open(O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
           s.resize(0);
           if (fd < 0) return;
           s.write(fd, 5, 0, 5000);
           s.close(fd);
         }});
}

TEST_CASE("several descriptors of a file while the system refuses calls") {
  sweep({"open for writing beside a reader, O_GWRONCE", sweep_config(), [](scene& s) {
           int const reader = s.open(O_RDONLY);
           if (reader < 0) return;
           s.read(reader);
           int const once = s.open(O_GWRONCE);
           if (once > 0) s.write(once, 5, 0, 100);
           int const writer = s.open(O_RDWR);
           if (writer > 0) s.write(writer, 6, page, 100);
           if (once > 0) s.close(once);
         }});
}

TEST_CASE("calls of the host while the system refuses calls") {
  sweep({"host calls", sweep_config(), [](scene& s) {
           int const fd = s.opened_by_host(library([&] { return s.fs->open(s.path, O_RDWR); }));
           if (fd < 0) return;
           s.read(fd);
           auto const bytes = some_bytes(3, 0, 7000);
           auto const written = library(
               [&] { return s.fs->write(fd, bytes.data(), bytes.size(), 5 * std::int64_t(page)); });
           s.put(5 * page, bytes, s.check_bytes(written, bytes.size()));
           // Kernels see them from now on, or as soon as the host can say how long the file is.
           if (refusal::of() != refusable::fstat) s.read(fd);
           s.write(fd, 5, 2 * page, 10);
           file_status status{};
           s.check_result(library([&] { return s.fs->stat(fd, status); }), 0);
           for (auto const what : {advice::random, advice::willneed, advice::dontneed})
             s.check_result(library([&] { return s.fs->advise(fd, 0, 0, what); }), 0);
           s.check_result(library([&] { return s.fs->sync(fd); }), 0);
           s.write(fd, 6, page, 10);
           s.check_result(library([&] { return s.fs->close(fd); }), 0);
           s.opened.clear();
         }});
}

TEST_CASE("the ways of bytes while the system refuses calls") {
  auto const read_twice = [](scene& s) {
    int const fd = s.open(O_RDONLY);
    if (fd < 0) return;
    s.read(fd);
    s.read(fd);
    s.close(fd);
  };
  auto ahead = sweep_config();
  ahead.prefetch_size = prefetch_automatic;
  sweep({"readahead", ahead, read_twice});
  auto copied = small_config(64 << 10, 8);
  copied.path = io_path::dma;
  copied.host_threads = 1;
  sweep({"dma", copied, read_twice});
  auto direct = sweep_config();
  direct.path = io_path::direct;
  sweep({"direct", direct, read_twice});
  auto registered = sweep_config();
  registered.path = io_path::registered;
  registered.file_window_size = 64 << 10;
  registered.registered_memory = 1 << 20;
  sweep({"registered", registered, [&](scene& s) {
           read_twice(s);
           wait_until([&] { return s.fault.happened() || s.fs->stats().windows_registered > 0; },
                      "a window");
           read_twice(s);
         }});
}

TEST_CASE("io_uring while the system refuses calls") {
  auto c = sweep_config();
  c.backend = io_backend::automatic;
  c.path = io_path::direct;
  c.host_threads = 2;
  sweep({.name = "io_uring",
         .settings = c,
         .run =
             [](scene& s) {
               int const fd = s.open(O_RDONLY);
               if (fd < 0) return;
               s.read(fd);
               // Often enough for the file to be registered with the ring.
               for (std::uint64_t at = 0; at < 2 * page; at += 64) s.read(fd, at, 64);
               s.close(fd);
             },
         .makes_filesystem = true,
         .most_each = 1});
}

TEST_CASE("a filesystem is made while the system refuses calls") {
  ::rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  for (auto const path : {io_path::automatic, io_path::dma, io_path::registered}) {
    auto c = sweep_config();
    c.path = path;
    sweep({.name = "construct",
           .settings = c,
           .run = [](scene& s) { static_cast<void>(s.fs->notes()); },
           .makes_filesystem = true,
           .most_each = 20,
           .before = [&] {  // it wants more
             ::rlimit low = limit;
             low.rlim_cur = std::min<::rlim_t>(low.rlim_cur, 260);
             CHECK(::setrlimit(RLIMIT_NOFILE, &low) == 0);
           }});
  }
  CHECK(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

TEST_CASE("calls that are made only where others are refused") {
  auto const read = [](scene& s) {
    int const fd = s.open(O_RDONLY);
    if (fd < 0) return;
    s.read(fd);
    s.close(fd);
  };
  {
    without const one(refusable::cachestat, ENOSYS);
    sweep(
        {.name = "samples", .settings = sweep_config(), .run = read, .only = {refusable::preadv2}});
  }
  {
    without const one(refusable::direct_open, EINVAL);
    auto c = sweep_config();
    c.path = io_path::direct;
    sweep({.name = "no O_DIRECT", .settings = c, .run = read, .only = {refusable::read_symlink}});
  }
}

TEST_CASE("a filesystem with dirty pages ends while the system refuses calls") {
  sweep({"end", sweep_config(), [](scene& s) {
           int const fd = s.open(O_RDWR);
           if (fd < 0) return;
           s.read(fd);
           auto const before = s.expected;
           s.write(fd, 5, 10, 3 * page);
           {
             no_messages const lost_bytes;
             library([&] { s.fs.reset(); });
           }
           s.opened.clear();
           // What cannot be written is lost.
           if (refusal::of() != refusable::pwritev || !s.fault.happened()) return;
           s.perhaps.push_back(s.expected);
           s.expected = before;
         }});
}

TEST_CASE("a launch that gets no stacks fails, and the next one runs") {
  unsigned threads = 128;  // more each time, so that stacks are missing
  buffer<int> ran(1);
  for (auto const& call : refusable_calls()) {
    if (call.call != refusable::mmap && call.call != refusable::mprotect) continue;
    for (int const what : call.outcomes)
      for (long n = 0; n < 3; ++n) {
        ran.fill_zero();
        {
          refusal const now(call.call, n, what, refused::once);
          launch(note_run, 1, threads += 32, ran.data());
          CHECK_THROWS_AS(this_thread_stream().synchronize(), device_error);
        }
        reached[std::size_t(call.call)] += refusal::happened() ? 1 : 0;
        launch(note_run, 1, threads, ran.data());
        this_thread_stream().synchronize();
        int result = 0;
        ran.copy_to_host(&result, 1);
        CHECK(result == 1);
      }
  }
}

TEST_CASE("bulk reads and writes while the system refuses calls") {
  scratch_folder const folder;
  auto const path = folder / "bulk";
  constexpr std::uint64_t size = 40'003;
  write_range(path, 0, 0, size);
  auto const whole = pread_bytes(path, 0, size);
  buffer<std::byte> on_device(size);
  // Each range is moved, or as much of it as came before an error.
  auto const run = [&](sweep_fault const& fault) {
    region_memory const region{16, 16, 1 << 20, 8, 4};
    daemon::server server{region.region, with(io_backend::automatic, io_path::direct)};
    int const fd = server.files().open(path, O_RDWR);
    REQUIRE(fd > 0);
    std::vector<std::byte> host(size);
    std::vector<daemon::bulk_range> ranges;
    for (std::uint64_t at = 0; at < size; at += size / 4 + 1)
      ranges.push_back({.offset = at, .length = std::min(size - at, size / 4 + 1), .position = at});
    auto const check = [&](int error) {
      for (auto const& r : ranges) {
        auto const got = r.result;
        bool const explained = fault.happened() && (got > 0 || fault.explains(got));
        CHECK_MESSAGE((got == std::int64_t(r.length) || explained), "got ", got);
        CHECK((error == 0 || fault.explains(error)));
        if (got > 0) CHECK(std::equal(&host[r.offset], &host[r.offset] + got, &whole[r.offset]));
      }
    };
    check(library([&] { return server.bulk().read(fd, ranges, std::span{host}); }));
    auto const on_device_by = [&](auto const& copier, auto const& move) {
      daemon::bulk_memory const memory{*copier, reinterpret_cast<std::uintptr_t>(on_device.data()),
                                       size};
      return library([&] { return move(memory); });
    };
    int const error = on_device_by(owner::make_device_copier(2, 4096), [&](auto const& to) {
      return server.bulk().read(fd, ranges, to);
    });
    on_device.copy_to_host(host.data(), size);
    check(error);
    host = whole;
    on_device.copy_from_host(whole.data(), size);
    check(on_device_by(owner::make_device_copier(2, 4096),
                       [&](auto const& from) { return server.bulk().write(fd, ranges, from); }));
    static_cast<void>(server.files().close(fd));
  };
  call_counts counts;
  {
    call_counter const counting;
    run(no_fault);
    counts = counted();
  }
  auto const descriptors = open_descriptors();
  auto const before = reached_so_far();
  // The others are refused in other cases; the copier's streams have threads.
  for (auto const shared : {refusable::thread, refusable::open, refusable::stat, refusable::fstat,
                            refusable::device_stream, refusable::ring_files})
    counts[std::size_t(shared)] = 0;
  each_point(counts, 1, [&](refusable_call const& call, int what, long n, refused how_long) {
    auto const where = name_of("bulk", call, what, n, how_long);
    CAPTURE(where);
    refused_outcome const outcome(call, what, how_long);
    {
      refusal const now(call.call, n, what, how_long);
      run(outcome);
    }
    reached[std::size_t(call.call)] += refusal::happened() ? 1 : 0;
    CHECK(open_descriptors() == descriptors);
    CHECK(ring_mappings() == 0);
    CHECK(pread_bytes(path, 0, ~0ull) == whole);
  });
  MESSAGE("bulk: " << reached_so_far() - before << " injection points");
  ++sweeps_run;
}

// Last, as it counts what the others have refused.
TEST_CASE("every call in the list was refused") {
  MESSAGE("all: " << reached_so_far() << " injection points");
  if (sweeps_run < all_sweeps) return;  // only some cases run
  for (auto const& call : refusable_calls()) {
    // Only a disk lets a ring wait, and only O_DIRECT reads need memory of their own.
    if (call.call == refusable::ring_wait || call.call == refusable::aligned_alloc) continue;
    if (is_of_shared_memory(call.call)) continue;  // of another suite
    std::string const name = call.name;
    CHECK_MESSAGE(reached[std::size_t(call.call)] > 0, name);
  }
}
