// Claims about <gpufs/gpufs.h> that need kernels, threads or another process.
#include <gpufs/gpufs.h>
#include <gpufs/gpufs.hpp>

#include <test/support/device_buffers.hpp>
#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace gpufs;

constexpr char small[] =
    "page_size = 4K\ncache_size = 256K\nprefetch_size = 0\nprefetch_memory = 64K\n"
    "staging_size = 64K\nwrite_memory = 1M\nhost_threads = 2\n";

struct c_filesystem {
  c_filesystem() { REQUIRE(gpufs_create(small, &fs) == 0); }
  ~c_filesystem() { CHECK(gpufs_destroy(fs) == 0); }
  c_filesystem(c_filesystem const&) = delete;
  operator gpufs_filesystem*() const { return fs; }
  gpufs_filesystem* fs = nullptr;
};

__global__ void read_to(fs_ref const* fs, int fd, std::byte* to, std::size_t count, ssize_t* got) {
  io_context io(*fs, cooperative_groups::this_thread_block());
  ssize_t const n = gread(io, fd, to, count, 0);
  if (threadIdx.x == 0) *got = n;
}

__global__ void write_from(fs_ref fs, int fd, std::byte const* from, std::size_t count,
                           ssize_t* put) {
  io_context io(fs, cooperative_groups::this_thread_block());
  ssize_t const n = gwrite(io, fd, from, count, 0);
  if (threadIdx.x == 0) *put = n;
}

TEST_CASE("a kernel reads through the address of the handle") {
  test::scratch_folder const folder;
  std::string const path = test::make_file(folder, "in", 50000);
  c_filesystem const fs;
  int const fd = gpufs_open(fs, path.c_str(), O_RDONLY, 0);
  REQUIRE(fd > 0);
  auto const to = test::zeroed<std::byte>(50000);
  auto const got = test::zeroed<ssize_t>(1);
  launch(read_to, 1, 64, static_cast<fs_ref const*>(gpufs_ref_address(fs)), fd, to.data(),
         to.size(), got.data());
  CHECK(test::result_in(got)[0] == 50000);
  CHECK(test::contents(to) == test::pread_bytes(path, 0, 50000));
  CHECK(gpufs_close(fs, fd) == 0);
}

TEST_CASE("the host reads what a kernel wrote, through the copied handle") {
  test::scratch_folder const folder;
  std::string const path = folder / "out";
  c_filesystem const fs;
  fs_ref ref;
  REQUIRE(gpufs_ref_size() == sizeof(ref));
  REQUIRE(gpufs_ref(fs, &ref, sizeof(ref)) == 0);
  int const fd = gpufs_open(fs, path.c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(fd > 0);
  std::vector<std::byte> bytes(30000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 31 >> 3);
  auto const from = test::filled(bytes);
  auto const put = test::zeroed<ssize_t>(1);
  launch(write_from, 1, 64, ref, fd, from.data(), from.size(), put.data());
  CHECK(test::result_in(put)[0] == 30000);
  CHECK(gpufs_size(fs, fd) == 30000);
  std::vector<std::byte> back(30001);
  CHECK(gpufs_read(fs, fd, back.data(), back.size(), 0) == 30000);
  back.pop_back();
  CHECK(back == bytes);
  CHECK(gpufs_sync(fs, fd) == 0);
  CHECK(test::pread_bytes(path, 0, 30000) == bytes);
  CHECK(gpufs_close(fs, fd) == 0);
}

TEST_CASE("each thread has its own last error") {
  c_filesystem const fs;
  CHECK(gpufs_open(fs, "/nowhere/at/all", O_RDONLY, 0) == -ENOENT);
  std::string elsewhere = "?";
  std::thread([&] { elsewhere = gpufs_last_error(); }).join();
  CHECK(elsewhere.empty());
  CHECK(std::strstr(gpufs_last_error(), "/nowhere/at/all") != nullptr);
}

TEST_CASE("the last error says where bytes must end") {
  test::scratch_folder const folder;
  c_filesystem const fs;
  int const fd = gpufs_open(fs, (folder / "a").c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(fd > 0);
  char byte = 'x';
  CHECK(gpufs_read(fs, fd, &byte, UINT64_MAX, 0) == -EINVAL);
  CHECK(gpufs_last_error() ==
        std::string("gpufs_read: Invalid argument: count=18446744073709551615, offset=0: must end "
                    "at or before 2^63"));
  CHECK(gpufs_write(fs, fd, &byte, 1, std::int64_t{1} << 48) == -EFBIG);
  CHECK(gpufs_last_error() == std::string("gpufs_write: File too large: count=1, "
                                          "offset=281474976710656: must end at or before 2^48"));
  CHECK(gpufs_write(fs, fd, &byte, UINT64_MAX, INT64_MAX) < 0);
  CHECK(std::strstr(gpufs_last_error(), "must end at or before 2^") != nullptr);
  CHECK(gpufs_read(fs, fd, &byte, 1, -1) == -EINVAL);
  CHECK(std::strstr(gpufs_last_error(), "offset=-1: must be >= 0") != nullptr);
  CHECK(gpufs_close(fs, fd) == 0);
}

TEST_CASE("a child of fork() is refused, and frees nothing") {
  test::scratch_folder const folder;
  std::string const path = test::make_file(folder, "in", 100);
  c_filesystem const fs;
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    char byte;
    bool const refused = gpufs_open(fs, path.c_str(), O_RDONLY, 0) == -EPERM &&
                         gpufs_read(fs, 1, &byte, 1, 0) == -EPERM &&
                         gpufs_stats(fs, nullptr, 0) == -EPERM &&
                         gpufs_ref_address(fs) == nullptr && gpufs_destroy(fs) == 0;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  int const fd = gpufs_open(fs, path.c_str(), O_RDONLY, 0);
  CHECK(fd > 0);
  CHECK(gpufs_close(fs, fd) == 0);
}

// Sanitizers end a process that asks for too much, and have mapped more than the limit.
#if defined(GPUFS_EMULATED) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(GPUFS_COVERAGE)
TEST_CASE("a want of memory is told apart from a device that failed") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  rlimit less = before;
  less.rlim_cur = rlim_t{8} << 30;
  REQUIRE(::setrlimit(RLIMIT_AS, &less) == 0);
  gpufs_filesystem* fs = nullptr;
  std::string const more =
      std::string(small) + "cache_size = 16G\npage_size = 64K\nstaging_size = 1M\n";
  CHECK(gpufs_create(more.c_str(), &fs) == -ENOMEM);
  CHECK(fs == nullptr);
  CHECK(std::strstr(gpufs_last_error(), "lower cache_size") != nullptr);
  CHECK(::setrlimit(RLIMIT_AS, &before) == 0);
}
#endif

TEST_CASE("settings may have former names, quotes and comments; the environment comes last") {
  gpufs_filesystem* fs = nullptr;
  for (char const* const text : {"page_size = ", "= 4K", "page_size = \"4K", "page_size 4K",
                                 "PAGE_SIZE = 4K", "page_size = 4K\ncache_size = -1"}) {
    INFO(text);
    CHECK(gpufs_create(text, &fs) == -EINVAL);
    CHECK(fs == nullptr);
  }
  CHECK(std::strstr(gpufs_last_error(), "line 2") != nullptr);
  ::setenv("GPUFS_PAGE_SIZE", "100", 1);
  CHECK(gpufs_create(small, &fs) == -EINVAL);
  CHECK(std::strstr(gpufs_last_error(), "GPUFS_PAGE_SIZE") != nullptr);
  ::unsetenv("GPUFS_PAGE_SIZE");
}

}  // namespace
