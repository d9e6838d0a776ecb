// Files that are opened and closed by many at once, or change between opens; gfstat.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

__global__ void stat_in_every_thread(fs_ref fs, int fd, file_status* status, int* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  file_status mine{};
  results[threadIdx.x] = gfstat(io, fd, &mine);
  status[threadIdx.x] = mine;
}

struct race_result {
  std::uint64_t bad_open, bad_close, bad_read, wrong_bytes;
};

// Opens, reads and closes files over and over. File f consists of bytes f + 1.
__global__ void open_read_close(fs_ref fs, char const* text, std::uint64_t const* offsets,
                                std::uint32_t files, std::uint32_t rounds, std::uint64_t size,
                                std::uint64_t seed, std::byte* out, race_result* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::byte* const mine = out + blockIdx.x * size;
  race_result r{};
  for (std::uint32_t i = 0; i < rounds; ++i) {
    std::uint32_t const f =
        static_cast<std::uint32_t>(base::mix64(seed + blockIdx.x * rounds + i) % files);
    int const fd = gopen(io, text + offsets[f], O_RDONLY);
    if (fd <= 0) {
      ++r.bad_open;
      continue;
    }
    ssize_t const n = gread(io, fd, mine, size + 1, 0);
    if (n != static_cast<ssize_t>(size)) ++r.bad_read;
    for (std::uint64_t b = threadIdx.x; b < size; b += blockDim.x)
      r.wrong_bytes += mine[b] != static_cast<std::byte>(f + 1) ? 1 : 0;
    if (gclose(io, fd) != 0) ++r.bad_close;
  }
  atomic_ref<std::uint64_t>(results->bad_open).fetch_add(r.bad_open, memory_order_relaxed);
  atomic_ref<std::uint64_t>(results->bad_close).fetch_add(r.bad_close, memory_order_relaxed);
  atomic_ref<std::uint64_t>(results->bad_read).fetch_add(r.bad_read, memory_order_relaxed);
  atomic_ref<std::uint64_t>(results->wrong_bytes).fetch_add(r.wrong_bytes, memory_order_relaxed);
}

// Waits, in its middle, until the host has changed the file and says so.
__global__ void read_before_and_after(fs_ref fs, char const* path, bool close_between,
                                      std::uint32_t* half_way, std::uint32_t* go_on, std::byte* out,
                                      std::int64_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  int fd = gopen(io, path, O_RDONLY);
  ssize_t const before = gread(io, fd, out, 4096, 0);
  if (close_between) gclose(io, fd);
  if (threadIdx.x == 0) {
    atomic_ref<std::uint32_t, scope::system>(*half_way).store(1, memory_order_release);
    for (unsigned pause = 0;
         atomic_ref<std::uint32_t, scope::system>(*go_on).load(memory_order_acquire) == 0;)
      backoff(pause);
  }
  __syncthreads();
  fd = gopen(io, path, O_RDONLY);
  ssize_t const after = gread(io, fd, out + 4096, 4096, 0);
  if (threadIdx.x == 0) {
    results[0] = before;
    results[1] = after;
  }
}

}  // namespace

TEST_CASE(
    "gopen and gclose: blocks that open, read and close the same files at once read the right "
    "bytes") {
  CAPTURE(seed());
  scratch_folder folder;
  constexpr std::uint32_t files = 5;
  constexpr std::uint64_t size = 1300;
  std::vector<std::string> paths;
  for (std::uint32_t f = 0; f < files; ++f) {
    paths.push_back(folder / std::to_string(f));
    std::vector<char> const bytes(size, char(f + 1));
    int const fd = ::open(paths.back().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    REQUIRE(::write(fd, bytes.data(), size) == ssize_t(size));
    ::close(fd);
    if (f % 2 == 0)
      let_stamps_age(paths.back());  // pages of some survive a last close, those of others do not
  }
  auto c = small_config(512, 16);
  c.max_open_files = files;
  filesystem fs(c);
  device_paths const on_device(paths);
  constexpr unsigned blocks = 8;
  buffer<std::byte> out(blocks * size + 1);
  buffer<race_result> results(1);
  results.fill_zero();
  launch(open_read_close, blocks, 64, fs.ref(), on_device.text(), on_device.offsets(), files,
         scaled(200, 60), size, seed(), out.data(), results.data());
  this_thread_stream().synchronize();
  race_result r{};
  results.copy_to_host(&r, 1);
  CHECK(r.bad_open == 0);
  CHECK(r.bad_close == 0);
  CHECK(r.bad_read == 0);
  CHECK(r.wrong_bytes == 0);
  CHECK(inspect(fs.ref()).problems == "");
  // Every open was given back: all descriptors are free again, and none of those handed out is
  // valid.
  auto const fds = open_in_kernel(fs, paths);
  CHECK(std::ranges::all_of(fds, [](int fd) { return fd > 0; }));
  CHECK(close_in_kernel(fs, fds) == std::vector<int>(files, 0));
  CHECK(close_in_kernel(fs, fds) == std::vector<int>(files, -EBADF));
}

TEST_CASE(
    "gopen: a file that changed since it was last open is read anew, also by the context that read "
    "it before") {
  scratch_folder folder;
  for (bool const grows : {false, true}) {
    for (bool const close_between : {false, true}) {
      auto const path = make_file(folder, "file", 3000, 1);
      set_size(path, 3000);
      filesystem fs(small_config(512, 16));
      device_paths const on_device({path});
      pinned_buffer<std::uint32_t> flags(2);
      flags.fill_zero();
      buffer<std::byte> out(8192);
      buffer<std::int64_t> results(2);
      auto const old = pread_bytes(path, 0, 4096);
      launch(read_before_and_after, 1, 64, fs.ref(), on_device.text(), close_between, &flags[0],
             &flags[1], out.data(), results.data());
      atomic_ref<std::uint32_t, scope::system> const half_way(flags[0]);
      // Pairs with the release in the kernel.
      wait_until([&] { return half_way.load(memory_order_acquire) != 0; },
                 "the kernel has read the file once");
      write_range(path, 2, 0, grows ? 3500 : 3000);
      atomic_ref<std::uint32_t, scope::system>(flags[1]).store(1, memory_order_release);
      this_thread_stream().synchronize();
      std::int64_t got[2];
      results.copy_to_host(got, 2);
      std::vector<std::byte> bytes(8192);
      out.copy_to_host(bytes.data(), bytes.size());
      auto const changed = pread_bytes(path, 0, 4096);
      CAPTURE(grows);
      CAPTURE(close_between);
      CHECK(got[0] == 3000);
      CHECK(std::equal(old.begin(), old.end(), bytes.begin()));
      CHECK(got[1] == std::int64_t(changed.size()));
      CHECK(std::equal(changed.begin(), changed.end(), bytes.begin() + 4096));
    }
  }
}

TEST_CASE(
    "gopen: a file that was replaced or removed stays what it was for those who have it open") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 3000, 1);
  filesystem fs(small_config(512, 16));
  int const first = open_in_kernel(fs, path);
  read_batch batch;
  batch.add(first, path, 0, 5000);
  std::filesystem::rename(make_file(folder, "new", 2000, 2), path);
  int const second = open_in_kernel(fs, path);
  CHECK(first != second);
  batch.add(second, path, 0, 5000);
  std::filesystem::remove(path);
  CHECK(open_in_kernel(fs, path) == -ENOENT);
  batch.run(fs.ref(), 2, 64);
  CHECK(batch.problems() == "");
}

TEST_CASE("gfstat: every thread gets what stat says of the file now") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 12345);
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(path, O_RDONLY);
  REQUIRE(fd > 0);
  constexpr unsigned threads = 100;
  buffer<file_status> status(threads);
  buffer<int> results(threads);
  for (std::uint64_t const size : {12345u, 20000u}) {
    set_size(path, size);  // grows behind gpufs's back
    struct ::stat s {};
    REQUIRE(::stat(path.c_str(), &s) == 0);
    launch(stat_in_every_thread, 1, threads, fs.ref(), fd, status.data(), results.data());
    this_thread_stream().synchronize();
    std::vector<file_status> got(threads);
    status.copy_to_host(got.data(), threads);
    std::vector<int> returned(threads);
    results.copy_to_host(returned.data(), threads);
    CHECK(returned == std::vector<int>(threads, 0));
    file_status host{};
    CHECK(fs.stat(fd, host) == 0);
    CHECK(host.size == size);
    CHECK(host.inode == s.st_ino);
    CHECK(host.device == s.st_dev);
    CHECK(host.mode == s.st_mode);
    CHECK(host.mtime_ns == std::int64_t(s.st_mtim.tv_sec) * 1'000'000'000 + s.st_mtim.tv_nsec);
    CHECK(host.ctime_ns == std::int64_t(s.st_ctim.tv_sec) * 1'000'000'000 + s.st_ctim.tv_nsec);
    for (auto const& g : got) CHECK(std::memcmp(&g, &host, sizeof g) == 0);
  }
  launch(stat_in_every_thread, 1, threads, fs.ref(), fd + 1, status.data(), results.data());
  this_thread_stream().synchronize();
  std::vector<int> returned(threads);
  results.copy_to_host(returned.data(), threads);
  CHECK(returned == std::vector<int>(threads, -EBADF));
  file_status host{};
  CHECK(fs.stat(fd + 1, host) == -EBADF);
}

TEST_CASE("gfstat: a file that is open for writing has the bytes that others have appended") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 700);
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(path, O_RDWR), reader = fs.open(path, O_RDONLY);
  REQUIRE(fd > 0);
  REQUIRE(reader > 0);
  buffer<file_status> status(32);
  buffer<int> results(32);
  auto const size_of = [&](int of) {
    launch(stat_in_every_thread, 1, 32, fs.ref(), of, status.data(), results.data());
    this_thread_stream().synchronize();
    file_status got{};
    status.copy_to_host(&got, 1);
    return got.size;
  };
  CHECK(size_of(fd) == 700);
  set_size(path, 1900);  // by somebody else
  CHECK(size_of(fd) == 1900);
  CHECK(size_of(reader) == 1900);
  REQUIRE(fs.close(fd) == 0);
  set_size(path, 2500);
  CHECK(size_of(reader) == 2500);
}
