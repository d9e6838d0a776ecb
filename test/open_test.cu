// gopen, gclose, gfstat: sharing, errors, many files, races, and files that change between opens.
#include <doctest/doctest.h>

#include <gpufs/gpufs.hpp>
#include <test/support/cache_state.hpp>
#include <test/support/files.hpp>
#include <test/support/reads.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

/// Paths in GPU memory, one behind the other.
class device_paths {
 public:
  explicit device_paths(std::vector<std::string> const& paths) : offsets_(paths.size()), text_(length_of(paths)) {
    std::vector<std::uint64_t> offsets;
    std::string all;
    for (auto const& p : paths) {
      offsets.push_back(all.size());
      all += p;
      all += '\0';
    }
    offsets_.copy_from_host(offsets.data(), offsets.size());
    text_.copy_from_host(all.data(), all.size());
  }
  [[nodiscard]] std::uint64_t const* offsets() const { return offsets_.data(); }
  [[nodiscard]] char const* text() const { return text_.data(); }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(offsets_.size()); }

 private:
  static std::uint64_t length_of(std::vector<std::string> const& paths) {
    std::uint64_t n = 0;
    for (auto const& p : paths) n += p.size() + 1;
    return n;
  }
  buffer<std::uint64_t> offsets_;
  buffer<char> text_;
};

// Block b opens paths b, b + blocks, ...
__global__ void open_all(fs_ref fs, char const* text, std::uint64_t const* offsets, std::uint32_t count, int flags, int* fds) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (std::uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    int const fd = gopen(io, text + offsets[i], flags);
    if (threadIdx.x == 0) fds[i] = fd;
  }
}

__global__ void open_one_in_every_thread(fs_ref fs, char const* path, int* fds) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  fds[blockIdx.x * blockDim.x + threadIdx.x] = gopen(io, path, O_RDONLY);
}

__global__ void open_by_tiles(fs_ref fs, char const* path, int* fds) {
  auto const tile = cg::tiled_partition<32>(cg::this_thread_block());
  io_context io(fs, tile);
  fds[blockIdx.x * blockDim.x + threadIdx.x] = gopen(io, path, O_RDONLY);
}

__global__ void close_all(fs_ref fs, int const* fds, std::uint32_t count, int* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (std::uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    int const result = gclose(io, fds[i]);
    if (threadIdx.x == 0) results[i] = result;
  }
}

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
__global__ void open_read_close(fs_ref fs, char const* text, std::uint64_t const* offsets, std::uint32_t files, std::uint32_t rounds,
                                std::uint64_t size, std::uint64_t seed, std::byte* out, race_result* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::byte* const mine = out + blockIdx.x * size;
  race_result r{};
  for (std::uint32_t i = 0; i < rounds; ++i) {
    std::uint32_t const f = static_cast<std::uint32_t>(mix64(seed + blockIdx.x * rounds + i) % files);
    int const fd = gopen(io, text + offsets[f], O_RDONLY);
    if (fd <= 0) {
      ++r.bad_open;
      continue;
    }
    ssize_t const n = gread(io, fd, mine, size + 1, 0);
    if (n != static_cast<ssize_t>(size)) ++r.bad_read;
    for (std::uint64_t b = threadIdx.x; b < size; b += blockDim.x) r.wrong_bytes += mine[b] != static_cast<std::byte>(f + 1) ? 1 : 0;
    if (gclose(io, fd) != 0) ++r.bad_close;
  }
  atomic_ref<std::uint64_t>(results->bad_open).fetch_add(r.bad_open, memory_order_relaxed);
  atomic_ref<std::uint64_t>(results->bad_close).fetch_add(r.bad_close, memory_order_relaxed);
  atomic_ref<std::uint64_t>(results->bad_read).fetch_add(r.bad_read, memory_order_relaxed);
  atomic_ref<std::uint64_t>(results->wrong_bytes).fetch_add(r.wrong_bytes, memory_order_relaxed);
}

// Waits, in its middle, until the host has changed the file and says so.
__global__ void read_before_and_after(fs_ref fs, char const* path, bool close_between, std::uint32_t* half_way, std::uint32_t* go_on, std::byte* out,
                                      std::int64_t* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  int fd = gopen(io, path, O_RDONLY);
  ssize_t const before = gread(io, fd, out, 4096, 0);
  if (close_between) gclose(io, fd);
  if (threadIdx.x == 0) {
    atomic_ref<std::uint32_t, scope::system>(*half_way).store(1, memory_order_release);
    for (unsigned pause = 0; atomic_ref<std::uint32_t, scope::system>(*go_on).load(memory_order_acquire) == 0;) backoff(pause);
  }
  __syncthreads();
  fd = gopen(io, path, O_RDONLY);
  ssize_t const after = gread(io, fd, out + 4096, 4096, 0);
  if (threadIdx.x == 0) {
    results[0] = before;
    results[1] = after;
  }
}

std::vector<int> open_in_kernel(filesystem& fs, std::vector<std::string> const& paths, int flags = O_RDONLY, unsigned blocks = 4) {
  device_paths const on_device(paths);
  buffer<int> fds(paths.size());
  launch(open_all, blocks, 64, fs.ref(), on_device.text(), on_device.offsets(), on_device.count(), flags, fds.data());
  this_thread_stream().synchronize();
  std::vector<int> got(paths.size());
  fds.copy_to_host(got.data(), got.size());
  return got;
}

int open_in_kernel(filesystem& fs, std::string const& path, int flags = O_RDONLY) {
  return open_in_kernel(fs, std::vector{path}, flags, 1)[0];
}

std::vector<int> close_in_kernel(filesystem& fs, std::vector<int> const& fds, unsigned blocks = 4) {
  buffer<int> on_device(fds.size());
  on_device.copy_from_host(fds.data(), fds.size());
  buffer<int> results(fds.size());
  launch(close_all, blocks, 64, fs.ref(), on_device.data(), static_cast<std::uint32_t>(fds.size()), results.data());
  this_thread_stream().synchronize();
  std::vector<int> got(fds.size());
  results.copy_to_host(got.data(), got.size());
  return got;
}

/// The process has no more rights than anybody, if it had more before.
class without_rights {
 public:
  without_rights() : user_{::geteuid()} {
    if (user_ == 0) REQUIRE(::seteuid(65534) == 0);
  }
  ~without_rights() {
    if (user_ == 0 && ::seteuid(0) != 0) std::abort();
  }

 private:
  uid_t user_;
};

/// The soft limit of a resource, for a while.
class limited_files {
 public:
  explicit limited_files(rlim_t most) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    ::rlimit lower = before_;
    lower.rlim_cur = most;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &lower) == 0);
  }
  ~limited_files() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  ::rlimit before_{};
};

}  // namespace

TEST_CASE("gopen: all who open one file share one descriptor, until it was closed as often as opened") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", 1000);
  filesystem fs(small_config(512, 8));
  device_paths const paths({path});
  constexpr unsigned blocks = 12, threads = 64;
  buffer<int> fds(blocks * threads);
  launch(open_one_in_every_thread, blocks, threads, fs.ref(), paths.text(), fds.data());
  this_thread_stream().synchronize();
  std::vector<int> got(fds.size());
  fds.copy_to_host(got.data(), got.size());
  int const fd = got[0];
  REQUIRE(fd > 0);
  CHECK(std::ranges::count(got, fd) == std::ptrdiff_t(got.size()));
  CHECK(fs.open(path, O_RDONLY) == fd);

  launch(open_by_tiles, blocks, threads, fs.ref(), paths.text(), fds.data());
  this_thread_stream().synchronize();
  fds.copy_to_host(got.data(), got.size());
  CHECK(std::ranges::count(got, fd) == std::ptrdiff_t(got.size()));

  unsigned const opened = blocks + 1 + 2 * blocks;
  CHECK(close_in_kernel(fs, std::vector(opened - 1, fd)) == std::vector(opened - 1, 0));
  read_batch batch;
  batch.add(fd, path, 0, 1000);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.problems() == "");
  CHECK(fs.close(fd) == 0);
  CHECK(fs.close(fd) == -EBADF);
  CHECK(close_in_kernel(fs, {fd, -1, 0, 12345, INT_MAX}) == std::vector(5, -EBADF));
}

TEST_CASE("gopen: what is wrong with a path or with flags comes back as the errno that says so") {
  scratch_folder folder;
  auto const file = make_file(folder, "file", 10);
  auto const fifo = folder / "fifo";
  auto const loop = folder / "loop";
  auto const dangling = folder / "dangling";
  REQUIRE(::mkfifo(fifo.c_str(), 0644) == 0);
  std::filesystem::create_symlink(loop, loop);
  std::filesystem::create_symlink(folder / "nothing", dangling);
  filesystem fs(small_config(512, 8));
  auto const got = open_in_kernel(fs, {folder / "missing", folder.path(), file + "/below", fifo, "/dev/null", loop, dangling, "",
                                       folder / std::string(300, 'a'), "/" + std::string(PATH_MAX, 'b'), std::string(PATH_MAX - 1, '/')});
  CHECK(got == std::vector{-ENOENT, -EISDIR, -ENOTDIR, -EOPNOTSUPP, -EOPNOTSUPP, -ELOOP, -ENOENT, -ENOENT, -ENAMETOOLONG, -ENAMETOOLONG,
                           -EISDIR});
  for (int const flags : {O_WRONLY, O_RDWR, O_RDONLY | O_CREAT, O_RDONLY | O_TRUNC, O_RDWR | O_CREAT}) {
    CHECK(open_in_kernel(fs, file, flags) == -EROFS);
    CHECK(fs.open(file, flags) == -EROFS);
  }
  CHECK(open_in_kernel(fs, file, O_DIRECTORY) == -EINVAL);
  CHECK(std::filesystem::file_size(file) == 10);
}

TEST_CASE("gopen: a path may be as long as PATH_MAX allows") {
  scratch_folder folder;
  auto const file = make_file(folder, "file", 10);
  std::string const path = folder.path() + std::string(PATH_MAX - 1 - folder.path().size() - 4, '/') + "file";
  REQUIRE(path.size() == PATH_MAX - 1);
  filesystem fs(small_config(512, 8));
  CHECK(open_in_kernel(fs, path) > 0);
  CHECK(open_in_kernel(fs, "/" + path) == -ENAMETOOLONG);
}

TEST_CASE("gopen: a file that one may not read gives -EACCES") {
  scratch_folder folder;
  auto const path = make_file(folder, "secret", 10);
  REQUIRE(::chmod(path.c_str(), 0) == 0);
  filesystem fs(small_config(512, 8));
  without_rights const now;
  CHECK(open_in_kernel(fs, path) == -EACCES);
}

TEST_CASE("gopen: too many files give -ENFILE for the filesystem's limit and -EMFILE for the process's") {
  scratch_folder folder;
  std::vector<std::string> paths;
  for (int i = 0; i < 6; ++i) paths.push_back(make_file(folder, std::to_string(i), 10));
  auto c = small_config(512, 8);
  c.max_open_files = 4;
  filesystem fs(c);
  auto fds = open_in_kernel(fs, paths);
  CHECK(std::ranges::count_if(fds, [](int fd) { return fd > 0; }) == 4);
  CHECK(std::ranges::count(fds, -ENFILE) == 2);
  std::erase(fds, -ENFILE);
  CHECK(open_in_kernel(fs, paths[0]) != -EMFILE);
  CHECK(close_in_kernel(fs, {fds[0]}) == std::vector{0});
  {
    limited_files const few(3);
    auto const got = open_in_kernel(fs, paths);
    CHECK(std::ranges::count(got, -EMFILE) == std::ptrdiff_t(got.size()));
  }
}

TEST_CASE("gopen: 4096 files are open at once, each read through its own descriptor") {
  constexpr std::uint32_t most = 4096;
  ::rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  auto const files = static_cast<std::uint32_t>(std::min<rlim_t>(most, limit.rlim_max - 300));
  if (files < most) MESSAGE("only ", files, " files: the hard limit of open files allows no more");
  scratch_folder folder;
  std::vector<std::string> paths;
  for (std::uint32_t i = 0; i < files; ++i) paths.push_back(make_file(folder, std::to_string(i), 40 + i % 50, i));
  auto c = small_config(512, 64);
  c.max_open_files = files;
  filesystem fs(c);
  auto const fds = open_in_kernel(fs, paths, O_RDONLY, 8);
  CHECK(std::set(fds.begin(), fds.end()).size() == files);
  CHECK(std::ranges::all_of(fds, [](int fd) { return fd > 0; }));
  CHECK(open_in_kernel(fs, make_file(folder, "one more", 1)) == -ENFILE);
  read_batch batch;
  for (std::uint32_t i = 0; i < files; ++i) batch.add(fds[i], paths[i], i % 3, 100);
  batch.run(fs.ref(), 8, 64);
  CHECK(batch.problems() == "");
  CHECK(close_in_kernel(fs, fds, 8) == std::vector<int>(files, 0));
  CHECK(open_in_kernel(fs, folder / "one more") > 0);
}

TEST_CASE("gopen and gclose: blocks that open, read and close the same files at once read the right bytes") {
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
    if (f % 2 == 0) let_stamps_age(paths.back());  // pages of some survive a last close, those of others do not
  }
  auto c = small_config(512, 16);
  c.max_open_files = files;
  filesystem fs(c);
  device_paths const on_device(paths);
  constexpr unsigned blocks = 8;
  buffer<std::byte> out(blocks * size + 1);
  buffer<race_result> results(1);
  results.fill_zero();
  launch(open_read_close, blocks, 64, fs.ref(), on_device.text(), on_device.offsets(), files, scaled(200, 60), size, seed(), out.data(),
         results.data());
  this_thread_stream().synchronize();
  race_result r{};
  results.copy_to_host(&r, 1);
  CHECK(r.bad_open == 0);
  CHECK(r.bad_close == 0);
  CHECK(r.bad_read == 0);
  CHECK(r.wrong_bytes == 0);
  CHECK(inspect(fs.ref()).problems == "");
  // Every open was given back: all descriptors are free again, and none of those handed out is valid.
  auto const fds = open_in_kernel(fs, paths);
  CHECK(std::ranges::all_of(fds, [](int fd) { return fd > 0; }));
  CHECK(close_in_kernel(fs, fds) == std::vector<int>(files, 0));
  CHECK(close_in_kernel(fs, fds) == std::vector<int>(files, -EBADF));
}

TEST_CASE("gopen: a file that changed since it was last open is read anew, also by the context that read it before") {
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
      launch(read_before_and_after, 1, 64, fs.ref(), on_device.text(), close_between, &flags[0], &flags[1], out.data(), results.data());
      atomic_ref<std::uint32_t, scope::system> const half_way(flags[0]);
      // Pairs with the release in the kernel.
      wait_until([&] { return half_way.load(memory_order_acquire) != 0; }, "the kernel has read the file once");
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

TEST_CASE("gopen: a file that was replaced or removed stays what it was for those who have it open") {
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
