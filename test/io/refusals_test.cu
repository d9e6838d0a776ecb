// Arguments that the calls of io.hpp refuse: each gets the error that its contract names, and the
// file and the cache stay as they are.
#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/files.hpp>
#include <test/support/opens.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 512;
using results = std::vector<std::int64_t>;

/// Every call, by a block that has less than 32 threads. `path` is of an existing file.
__global__ void call_in_small_group(fs_ref fs, char const* path, int fd, std::byte* buf,
                                    std::int64_t* out) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  void* address = nullptr;
  file_status status;
  async_read started = gread_async(io, fd, buf, 8, 0);
  std::int64_t const all[] = {gopen(io, path, O_RDWR),
                              gread(io, fd, buf, 8, 0),
                              gwrite(io, fd, buf, 8, 0),
                              gwait(io, started),
                              gfsync(io, fd),
                              gftruncate(io, fd, 3),
                              gunlink(io, path),
                              gmmap(io, fd, 8, 0, PROT_READ, &address),
                              gmunmap(io, buf),
                              gmsync(io, fd, buf, 8, MS_SYNC),
                              gfstat(io, fd, &status),
                              gfadvise(io, fd, 0, 0, advice::willneed),
                              array<int>(io, fd).error(),
                              gclose(io, fd)};
  for (unsigned i = threadIdx.x; i < sizeof all / sizeof all[0]; i += blockDim.x) out[i] = all[i];
}

/// gmmap and gmsync with arguments of which one is wrong. `closed` is not open.
__global__ void map_wrongly(fs_ref fs, int fd, int read_only, int closed, std::byte* elsewhere,
                            std::int64_t* out) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  void *mapped = nullptr, *was_mapped = nullptr;
  std::int64_t const all[] = {gmmap(io, fd, 8, 0, PROT_READ, nullptr),
                              gmmap(io, fd, 8, 8, PROT_READ | PROT_WRITE, &mapped),
                              gmsync(io, fd, mapped, 8, 0),
                              gmsync(io, fd, elsewhere, 8, MS_SYNC),
                              gmsync(io, closed, mapped, 8, MS_SYNC),
                              gmsync(io, read_only, mapped, 8, MS_SYNC),
                              gmsync(io, fd, mapped, page - 7, MS_SYNC),
                              gmmap(io, fd, 8, page, PROT_READ, &was_mapped),
                              gmunmap(io, was_mapped),
                              gmsync(io, fd, was_mapped, 8, MS_ASYNC),
                              gmsync(io, fd, mapped, page - 8, MS_ASYNC),
                              gmunmap(io, mapped)};
  for (unsigned i = threadIdx.x; i < sizeof all / sizeof all[0]; i += blockDim.x) out[i] = all[i];
}

__global__ void change_wrongly(fs_ref fs, int fd, int write_only, int read_only, int closed,
                               std::byte* buf, std::int64_t* out) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  constexpr std::int64_t longest = std::int64_t(1) << 48;
  async_read started = gread_async(io, write_only, buf, 8, 0);
  std::int64_t const all[] = {gwait(io, started),
                              gread(io, write_only, buf, 8, 0),
                              gwrite(io, read_only, buf, 8, 0),
                              gwrite(io, fd, buf, 8, longest),
                              gwrite(io, fd, buf, 8, longest - 7),
                              gwrite(io, fd, nullptr, 0, 0),
                              gftruncate(io, fd, -1),
                              gftruncate(io, fd, longest),
                              gftruncate(io, read_only, 3),
                              gftruncate(io, closed, 3),
                              gfsync(io, closed),
                              gclose(io, closed)};
  for (unsigned i = threadIdx.x; i < sizeof all / sizeof all[0]; i += blockDim.x) out[i] = all[i];
}

struct opened_file {
  opened_file() { CHECK(fs.close(closed) == 0); }
  void is_unchanged() {
    CHECK(pread_bytes(path, 0, ~0ull) == before);
    CHECK(inspect(fs.ref()).problems == "");
  }

  scratch_folder folder;
  std::string const path = make_file(folder, "file", 4 * page);
  std::vector<std::byte> const before = pread_bytes(path, 0, ~0ull);
  filesystem fs{small_config(page, 16)};
  int const fd = fs.open(path, O_RDWR), read_only = fs.open(path, O_RDONLY);
  int const write_only = fs.open(path, O_WRONLY);
  int const closed = fs.open(make_file(folder, "other", 10), O_RDONLY);
  buffer<std::byte> buf = zeroed<std::byte>(page);
};

}  // namespace

TEST_CASE("every call of a group of less than 32 threads gives -EINVAL and does nothing") {
  for (unsigned const threads : {1u, 31u}) {
    opened_file file;
    device_paths const name({file.path});
    auto out = zeroed<std::int64_t>(14);
    launch(call_in_small_group, 1, threads, file.fs.ref(), name.text(), file.fd, file.buf.data(),
           out.data());
    CHECK(result_in(out) == results(14, -EINVAL));
    CHECK(file.fs.sync(file.fd) == 0);  // it is open
    file.is_unchanged();
  }
}

TEST_CASE("gmmap and gmsync name the argument that is wrong") {
  opened_file file;
  auto out = zeroed<std::int64_t>(12);
  launch(map_wrongly, 1, 64, file.fs.ref(), file.fd, file.read_only, file.closed, file.buf.data(),
         out.data());
  CHECK(result_in(out) ==
        results{-EFAULT, 8, -EINVAL, -EINVAL, -EBADF, -EACCES, -EINVAL, 8, 0, -EINVAL, 0, 0});
  CHECK(file.fs.sync() == 0);
  file.is_unchanged();
}

TEST_CASE("calls that change a file name the argument that is wrong") {
  opened_file file;
  auto out = zeroed<std::int64_t>(12);
  launch(change_wrongly, 1, 64, file.fs.ref(), file.fd, file.write_only, file.read_only,
         file.closed, file.buf.data(), out.data());
  CHECK(result_in(out) == results{-EBADF, -EBADF, -EBADF, -EFBIG, -EFBIG, 0, -EINVAL, -EFBIG,
                                  -EINVAL, -EBADF, -EBADF, -EBADF});
  char const byte = 1;
  CHECK(file.fs.write(file.fd, &byte, 1, -1) == -EINVAL);
  CHECK(file.fs.write(file.fd, &byte, 1, std::numeric_limits<std::int64_t>::min()) == -EINVAL);
  CHECK(file.fs.write(file.read_only, &byte, 1, 0) == -EBADF);
  CHECK(file.fs.write(file.closed, &byte, 1, 0) == -EBADF);
  CHECK(file.fs.sync() == 0);
  file.is_unchanged();
}
