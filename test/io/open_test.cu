// gopen and gclose: sharing, errors, limits.
#include <gpufs/gpufs.hpp>

#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/reads.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
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

TEST_CASE(
    "gopen: all who open one file share one descriptor, until it was closed as often as opened") {
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
  auto const got =
      open_in_kernel(fs, {folder / "missing", folder.path(), file + "/below", fifo, "/dev/null",
                          loop, dangling, "", folder / std::string(300, 'a'),
                          "/" + std::string(PATH_MAX, 'b'), std::string(PATH_MAX - 1, '/')});
  CHECK(got == std::vector{-ENOENT, -EISDIR, -ENOTDIR, -EOPNOTSUPP, -EOPNOTSUPP, -ELOOP, -ENOENT,
                           -ENOENT, -ENAMETOOLONG, -ENAMETOOLONG, -EISDIR});
  CHECK(open_in_kernel(fs, file, O_RDONLY | O_TRUNC) == -EINVAL);
  CHECK(fs.open(file, O_RDONLY | O_TRUNC) == -EINVAL);
  CHECK(open_in_kernel(fs, file, O_DIRECTORY) == -EINVAL);
  CHECK(open_in_kernel(fs, file, O_WRONLY | O_GWRONCE | O_APPEND) == -EINVAL);
  CHECK(fs.open(file, O_WRONLY | O_GWRONCE | O_APPEND) == -EINVAL);
  CHECK(std::filesystem::file_size(file) == 10);
}

TEST_CASE("gopen: O_APPEND without write access changes nothing, as for open(2)") {
  scratch_folder folder;
  auto const file = make_file(folder, "file", 10);
  filesystem fs(small_config(512, 8));
  int const fd = fs.open(file, O_RDONLY);
  REQUIRE(fd > 0);
  CHECK(fs.open(file, O_RDONLY | O_APPEND) == fd);
  CHECK(open_in_kernel(fs, file, O_RDONLY | O_APPEND) == fd);
}

TEST_CASE("gopen: a path may be as long as PATH_MAX allows") {
  scratch_folder folder;
  auto const file = make_file(folder, "file", 10);
  std::string const path =
      folder.path() + std::string(PATH_MAX - 1 - folder.path().size() - 4, '/') + "file";
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

TEST_CASE("gopen: a file that one may write and not read opens for O_GWRONCE alone") {
  scratch_folder folder;
  auto const path = make_file(folder, "letter box", 10);
  REQUIRE(::chmod(path.c_str(), 0222) == 0);
  filesystem fs(small_config(512, 8));
  without_rights const now;
  CHECK(open_in_kernel(fs, path, O_WRONLY) == -EACCES);
  CHECK(fs.open(path, O_WRONLY) == -EACCES);
  int const fd = open_in_kernel(fs, path, O_GWRONCE);
  CHECK(fd > 0);
  CHECK(fs.close(fd) == 0);
}

TEST_CASE(
    "gopen: too many files give -ENFILE for the filesystem's limit and -EMFILE for the process's") {
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
    // By the host: CUDA may want a descriptor to wait for a kernel.
    limited_files const few(3);
    for (auto const& path : paths) CHECK(fs.open(path, O_RDONLY) == -EMFILE);
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
  for (std::uint32_t i = 0; i < files; ++i)
    paths.push_back(make_file(folder, std::to_string(i), 40 + i % 50, i));
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
