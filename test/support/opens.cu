// The kernels behind open_in_kernel() and close_in_kernel().
#include <gpufs/gpufs.hpp>

#include <test/support/opens.hpp>

#include <cerrno>

namespace gpufs::test {

namespace {

namespace cg = cooperative_groups;

// Block b opens paths b, b + blocks, ...
__global__ void open_all(fs_ref fs, char const* text, std::uint64_t const* offsets,
                         std::uint32_t count, int flags, int* fds) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (std::uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    int const fd = gopen(io, text + offsets[i], flags);
    if (threadIdx.x == 0) fds[i] = fd;
  }
}

__global__ void close_all(fs_ref fs, int const* fds, std::uint32_t count, int* results) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  for (std::uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    int const result = gclose(io, fds[i]);
    if (threadIdx.x == 0) results[i] = result;
  }
}

}  // namespace

std::vector<int> open_in_kernel(filesystem& fs, std::vector<std::string> const& paths, int flags,
                                unsigned blocks) {
  device_paths const on_device(paths);
  buffer<int> fds(paths.size());
  launch(open_all, blocks, 64, fs.ref(), on_device.text(), on_device.offsets(), on_device.count(),
         flags, fds.data());
  this_thread_stream().synchronize();
  std::vector<int> got(paths.size());
  fds.copy_to_host(got.data(), got.size());
  return got;
}

int open_in_kernel(filesystem& fs, std::string const& path, int flags) {
  return open_in_kernel(fs, std::vector{path}, flags, 1)[0];
}

int open_patiently(filesystem& fs, std::string const& path, int flags) {
  int fd = -ETIMEDOUT;
  for (int tries = 0; tries < 20 && fd == -ETIMEDOUT; ++tries) fd = open_in_kernel(fs, path, flags);
  return fd;
}

std::vector<int> close_in_kernel(filesystem& fs, std::vector<int> const& fds, unsigned blocks) {
  buffer<int> on_device(fds.size());
  on_device.copy_from_host(fds.data(), fds.size());
  buffer<int> results(fds.size());
  launch(close_all, blocks, 64, fs.ref(), on_device.data(), static_cast<std::uint32_t>(fds.size()),
         results.data());
  this_thread_stream().synchronize();
  std::vector<int> got(fds.size());
  results.copy_to_host(got.data(), got.size());
  return got;
}

}  // namespace gpufs::test
