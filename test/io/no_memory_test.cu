// Every allocation fails in turn: small scenarios with the n-th allocation of the library and of
// the daemon's threads refused, or all from the n-th on, for n = 0 until none is refused. Each call
// gives its value or -ENOMEM, or throws what its contract says. No thread ends the program.
// Acknowledged bytes arrive.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include <pthread.h>

namespace {

std::atomic<bool> armed{false};
std::atomic<bool> goes_on{false};      // the allocations after it fail, too
std::atomic<long> left{0};             // allocations before the one that fails
thread_local bool in_library = false;  // this thread is in a call that is under test

bool is_daemon_thread() {
  char name[16] = {};
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  return std::strncmp(name, "gpufs-", 6) == 0;
}

void* take(std::size_t bytes, std::size_t alignment) noexcept {
  if (armed.load(std::memory_order_relaxed) && (in_library || is_daemon_thread())) {
    auto const before = left.fetch_sub(1, std::memory_order_relaxed);
    if (before == 0 || (before < 0 && goes_on.load(std::memory_order_relaxed))) return nullptr;
  }
  void* memory = nullptr;
  if (alignment <= sizeof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return ::posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc{};
  return memory;
}

}  // namespace

#if defined(__CUDACC__)
#pragma nv_diag_suppress 20011  // nvcc takes operator new for device code, too
#else
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // if it inlines only one of a pair
#endif

// The program's allocations. The other forms of new and delete call these.
void* operator new(std::size_t bytes) { return take_or_throw(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take_or_throw(bytes, std::size_t(alignment));
}
void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept { return take(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment, std::nothrow_t const&) noexcept {
  return take(bytes, std::size_t(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t pages = 6;

enum class refused { one, all_from_then_on };

/// While it lives, allocation number `n` fails, or all from there on.
class failing_allocation {
 public:
  explicit failing_allocation(long n, refused which = refused::one) {
    left = n;
    goes_on = which == refused::all_from_then_on;
    armed = true;
  }
  ~failing_allocation() { armed = false; }
  failing_allocation(failing_allocation const&) = delete;
  failing_allocation& operator=(failing_allocation const&) = delete;

  [[nodiscard]] static bool has_failed() { return left < 0; }
};

/// Calls the library from this thread: its allocations count. Returns the call's result.
template <class Call>
auto library(Call const& call) -> decltype(call()) {
  struct mark {
    mark() { in_library = true; }
    ~mark() { in_library = false; }
  };
  mark const while_it_runs;
  return call();
}

/// The call gave what it should, or an allocation has failed and it says so.
void check_result(std::int64_t got, std::int64_t expected) {
  bool const says_so = got == -ENOMEM && failing_allocation::has_failed();
  CHECK_MESSAGE((got == expected || says_so), "got ", got, ", expected ", expected);
}

/// The bytes that a call was about which gave `got`: all of them, or fewer if an allocation has
/// failed, or none if it says so.
std::vector<std::byte> part_of(std::vector<std::byte> bytes, std::int64_t got) {
  if (got <= 0 || !failing_allocation::has_failed()) check_result(got, std::int64_t(bytes.size()));
  bytes.resize(std::min<std::size_t>(bytes.size(), got < 0 ? 0 : std::size_t(got)));
  return bytes;
}

std::size_t open_descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}

config sweep_config() {
  auto c = small_config(page, 16);
  c.staging_size = c.prefetch_memory = 64 << 10;
  c.write_memory = 8 * page;
  c.host_threads = 1;
  c.max_open_files = 8;
  c.seats = 8;
  c.backend = io_backend::pread;
  c.rpc_timeout_ms = 20'000;  // bounds the run of broken code
  return c;
}

__global__ void unlink_it(fs_ref fs, char const* path, int* result) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  int const unlinked = gunlink(io, path);
  if (threadIdx.x == 0) *result = unlinked;
}

/// The filesystem and the file of a scenario, and what the file must have in the end.
struct scene {
  scratch_folder folder;
  std::string path = make_file(folder, "file", pages* page);
  std::vector<std::byte> expected = pread_bytes(path, 0, ~0ull);
  /// As `expected`, but with the bytes of a gwrite that failed: some of them may be written.
  std::vector<std::vector<std::byte>> perhaps;
  std::unique_ptr<filesystem> fs;
  std::size_t descriptors = 0;  // of the process, when the filesystem was made
  std::vector<int> opened;

  int open(int flags) {
    int const fd = open_in_kernel(*fs, path, flags);
    if (fd > 0)
      opened.push_back(fd);
    else
      check_result(fd, 0);
    return fd;
  }
  void close(int fd) {
    op_batch batch;
    batch.close(0, fd);
    batch.run(fs->ref(), 1, 64);
    check_result(batch.result(0), 0);
    opened.clear();  // also after an error
  }
  /// A kernel writes at `offset`, or appends.
  void write(int fd, std::uint64_t seed, std::uint64_t offset, std::uint64_t count) {
    auto const bytes = some_bytes(seed, offset, count);
    op_batch batch;
    batch.write(0, fd, std::int64_t(offset), bytes);
    batch.run(fs->ref(), 1, 64);
    auto const acknowledged = part_of(bytes, batch.result(0));
    if (acknowledged.size() < count && offset + count <= expected.size()) {
      perhaps.push_back(expected);
      std::copy(bytes.begin(), bytes.end(), perhaps.back().begin() + std::ptrdiff_t(offset));
    }
    put(offset, acknowledged);
  }
  /// Notes that the file has these bytes now.
  void put(std::uint64_t offset, std::vector<std::byte> const& bytes) {
    resize(std::max<std::size_t>(expected.size(), offset + bytes.size()));
    std::ranges::copy(bytes, expected.begin() + std::ptrdiff_t(offset));
    for (auto& file : perhaps) std::ranges::copy(bytes, file.begin() + std::ptrdiff_t(offset));
  }
  void resize(std::size_t size) {
    expected.resize(size);
    for (auto& file : perhaps) file.resize(size);
  }
  /// Whether these bytes are the file's, from its beginning.
  [[nodiscard]] bool holds(std::vector<std::byte> const& bytes) const {
    if (bytes.size() > expected.size()) return false;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] != expected[i] &&
          std::ranges::none_of(perhaps, [&](auto const& file) { return bytes[i] == file[i]; }))
        return false;
    return true;
  }
  void read(int fd) {
    op_batch batch;
    batch.read(0, fd, 0, expected.size());
    batch.run(fs->ref(), 1, 64);
    auto const got = batch.bytes(0);
    CHECK(part_of(expected, batch.result(0)).size() == got.size());
    CHECK(holds(got));
  }
  void sync(int fd) {
    op_batch batch;
    batch.sync(0, fd);
    batch.run(fs->ref(), 1, 64);
    check_result(batch.result(0), 0);
  }
};

/// What must hold after a scenario in which an allocation failed.
void check_afterwards(scene& s) {
  auto const state = inspect(s.fs->ref());
  CHECK(state.problems == "");
  CHECK(state.quarantined == 0);
  for (int const fd : s.opened) CHECK(s.fs->close(fd) == 0);
  CHECK(s.fs->sync() == 0);
  CHECK(s.fs->unwritten().empty());
  if (std::filesystem::exists(s.path)) {
    auto const bytes = pread_bytes(s.path, 0, ~0ull);
    CHECK(bytes.size() == s.expected.size());
    CHECK(s.holds(bytes));
    int const fd = open_in_kernel(*s.fs, s.path, O_RDWR);
    CHECK(fd > 0);
    s.read(fd);
    CHECK(s.fs->close(fd) == 0);
  }
  wait_until([&] { return open_descriptors() == s.descriptors; }, "all host files closed");
}

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
    scene s;
    s.fs = std::make_unique<filesystem>(c);
    s.descriptors = open_descriptors();
    {
      failing_allocation const one(n, which);
      scenario(s);
      failed = one.has_failed();
    }
    check_afterwards(s);
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
        check_result(library(body), expected);
      } catch (std::bad_alloc const&) {
        CHECK(failing_allocation::has_failed());
      }
    };
    int const fd = library([&] { return s.fs->open(s.path, O_RDWR); });
    if (fd < 0) return check_result(fd, 1);
    s.opened.push_back(fd);
    auto const bytes = some_bytes(3, 0, 100);
    call(100, [&] {
      auto const written = s.fs->write(fd, bytes.data(), bytes.size(), 0);
      if (written > 0) s.put(0, bytes);
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
    check_result(library([&] { return s.fs->stat(fd, status); }), 0);
    auto const written = library([&] { return s.fs->write(fd, bytes.data(), bytes.size(), page); });
    check_result(written, 100);
    if (written > 0) s.put(page, bytes);
    s.read(fd);
    s.write(fd, 6, 2 * page, 10);
    check_result(library([&] { return s.fs->sync(fd); }), 0);
    s.write(fd, 7, 2 * page, 10);
    check_result(library([&] { return s.fs->close(fd); }), 0);
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
    op_batch batch;
    batch.truncate(0, fd, 50);
    batch.run(s.fs->ref(), 1, 64);
    check_result(batch.result(0), 0);
    if (batch.result(0) == 0) s.resize(50);
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
    device_paths const path({s.path});
    buffer<int> result(1);
    launch(unlink_it, 1, 64, s.fs->ref(), path.text(), result.data());
    this_thread_stream().synchronize();
    int unlinked = 1;
    result.copy_to_host(&unlinked, 1);
    check_result(unlinked, 0);
    CHECK(std::filesystem::exists(s.path) == (unlinked != 0));
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
