// A new version that a gopen could not take, as bytes could not be written or a gwrite took too
// long: all who know the old version read the new one as soon as it can be taken.
#include <gpufs/gpufs.hpp>
#include <gpufs/io/open.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/faults.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>
#include <test/support/steps.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 512;
constexpr std::uint64_t size = 4 * page;
constexpr std::byte old_byte{'o'}, new_byte{'n'};

struct steps {
  std::uint32_t knows[3], go, wrote, busy, opened, free;
};

/// What block 0 reads, by a gread, by another context, by an array: before the change, while the
/// version cannot be taken, afterwards.
constexpr unsigned ways = 3;
struct readings {
  std::byte before[ways], between[ways], after[ways];
  std::int64_t busy, opened, opener;
  std::uint32_t failures;
};

__device__ void fail_unless(readings& out, bool right) {
  if (threadIdx.x == 0 && !right)
    atomic_ref<std::uint32_t>(out.failures).fetch_add(1, memory_order_relaxed);
}

template <class Context>
__device__ void read_all(Context& io, Context& second, array<std::byte const> const& elements,
                         int fd, std::byte* to, readings& out) {
  std::byte const element = elements[page];
  elements.release();  // else the page would stay what it is
  fail_unless(out, gread(io, fd, &to[0], 1, 0) == 1 && gread(second, fd, &to[1], 1, 0) == 1);
  if (threadIdx.x == 0) to[2] = element;
}

/// Block 0 reads, block 1 opens the file, block 2 is what keeps the version from being taken: it
/// writes a byte that cannot be written back, or is a gwrite that takes long. Block 0 reads for
/// `reads_ns` before that ends.
__global__ void reach(fs_ref fs, char const* path, int fd, bool is_long, std::uint64_t reads_ns,
                      steps* at, readings* out) {
  io_context io(fs, cg::this_thread_block());
  __shared__ std::byte one[1];
  if (threadIdx.x == 0) one[0] = std::byte{'w'};
  if (blockIdx.x == 0) {
    io_context second(fs, cg::this_thread_block());
    array<std::byte const> elements(io, fd);
    read_all(io, second, elements, fd, out->before, *out);
    tell(at->knows[0]);
    await_told(at->opened);
    __shared__ std::uint64_t start;
    if (threadIdx.x == 0) start = device_clock_ns();
    bool reads_on = true;
    while (reads_on) {
      read_all(io, second, elements, fd, out->between, *out);
      reads_on = __syncthreads_or(device_clock_ns() - start < reads_ns) != 0;
    }
    fail_unless(*out, elements.error() == 0);
    tell(at->go);
    await_told(at->free);
    read_all(io, second, elements, fd, out->after, *out);
    fail_unless(*out, elements.error() == 0);
    return;
  }
  if (blockIdx.x == 1) {
    await_told(at->busy);
    int const opened = gopen(io, path, O_RDONLY);
    if (threadIdx.x == 0) out->opened = opened;
    tell(at->opened);
    await_told(at->free);
    fail_unless(*out, gclose(io, opened) == 0);
    return;
  }
  __syncthreads();
  fail_unless(*out, io::use_file(io, fd) == 0);
  tell(at->knows[2]);
  await_told(at->knows[1]);
  if (is_long) {
    if (threadIdx.x == 0) out->busy = file::join_writers(io.fs(), io.file()) ? 1 : 0;
    tell(at->busy);
    await_told(at->go);
    if (threadIdx.x == 0) file::leave_writers(io.fs(), io.file());
    tell(at->free);
  } else {
    std::int64_t const wrote = gwrite(io, fd, one, 1, 3 * page);
    if (threadIdx.x == 0) out->busy = wrote;
    tell(at->wrote);  // the host says the rest: it knows when the disk is full
  }
}

/// The kernel, and the words through which the test directs it.
struct running {
  running(filesystem& fs, std::string const& path, int fd, bool is_long, std::uint64_t reads_ns = 0)
      : path_text({path}) {
    at.fill_zero();
    launch(reach, 3, 64, fs.ref(), path_text.text(), fd, is_long, reads_ns, at.data(), out.data());
  }
  device_paths path_text;
  pinned_buffer<steps> at{1};
  buffer<readings> out = zeroed<readings>(1);
};

struct written_file {
  explicit written_file(unsigned timeout_ms) : path{folder / "file"} {
    write_bytes(path, std::vector<std::byte>(size, old_byte));
    let_stamps_age(path);
    auto settings = small_config(page, 32);
    settings.rpc_timeout_ms = timeout_ms;
    faults->on_write = [this](std::uint64_t, std::uint64_t) {
      return full ? testing::fault_action::fail(ENOSPC) : testing::fault_action::pass();
    };
    fs = std::make_unique<testing::filesystem>(settings, faults);
    fd = fs->open(path, O_RDWR);
    reader = fs->open(path, O_RDONLY);
    REQUIRE(fd > 0);
    REQUIRE(reader > 0);
  }
  /// Gives the file a new version, whose bytes before the last page are new.
  void renew() const {
    std::vector<std::byte> const bytes(size - page, new_byte);
    REQUIRE(fs->write(fd, bytes.data(), bytes.size(), 0) == std::int64_t(bytes.size()));
  }

  scratch_folder folder;
  std::string path;
  std::atomic<bool> full{false};
  std::shared_ptr<scripted_faults> faults = std::make_shared<scripted_faults>();
  std::unique_ptr<testing::filesystem> fs;
  int fd = 0, reader = 0;
};

void check_ways(std::byte const (&seen)[ways], std::byte right) {
  for (unsigned way = 0; way < ways; ++way) {
    CAPTURE(way);
    CHECK(seen[way] == right);
  }
}

/// What holds at the end, however the version was kept from being taken.
readings check_end(written_file const& f, running const& kernel) {
  auto const read = result_in(kernel.out)[0];
  CHECK(read.failures == 0);
  CHECK(read.busy == 1);
  CHECK(read.opened == f.reader);
  check_ways(read.before, old_byte);
  check_ways(read.after, new_byte);
  CHECK(inspect(f.fs->ref()).problems == "");
  return read;
}

}  // namespace

TEST_CASE("a version that came while the disk was full is read as soon as there is room") {
  written_file f(120'000);
  running kernel(*f.fs, f.path, f.fd, false);
  auto& at = kernel.at[0];
  await_kernel(at.knows[0], "block 0 has read the file");
  await_kernel(at.knows[2], "block 2 knows the file");
  f.renew();
  f.full = true;
  tell_kernel(at.knows[1]);
  await_kernel(at.wrote, "block 2 has written");
  CHECK(f.fs->sync() == -EIO);
  tell_kernel(at.busy);
  await_kernel(at.go, "block 0 has read the file while it cannot be written");
  f.full = false;
  CHECK(f.fs->sync(f.fd) == -ENOSPC);  // of before
  CHECK(f.fs->sync(f.fd) == 0);
  tell_kernel(at.free);
  check_end(f, kernel);
}

TEST_CASE(
    "a version that a gwrite keeps back for longer than rpc_timeout is read as soon as that is "
    "over, and the old one until then") {
  constexpr unsigned timeout_ms = 2'000;
  written_file f(timeout_ms);
  running kernel(*f.fs, f.path, f.fd, true, 5ull * timeout_ms * 1'000'000 / 2);
  auto& at = kernel.at[0];
  await_kernel(at.knows[0], "block 0 has read the file");
  await_kernel(at.knows[2], "block 2 knows the file");
  f.renew();
  tell_kernel(at.knows[1]);
  check_ways(check_end(f, kernel).between, old_byte);
}
