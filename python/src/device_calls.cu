// The file API as functions that C can call, for kernels of other compilers. nvcc makes LTO-IR of
// this file, and the linker of those kernels takes it. numba.py has the same list.
//
// `fs` is Filesystem.ref_address; addresses are numbers. All threads of a block call, or for names
// that end in _warp all threads of a warp, with the same arguments. Blocks have a multiple of 32
// threads. Results are those of <gpufs/io.hpp>.
#include <gpufs/io.hpp>

namespace {

using address = unsigned long long;

__device__ auto block() { return cooperative_groups::this_thread_block(); }
__device__ auto warp() { return cooperative_groups::tiled_partition<32>(block()); }
__device__ gpufs::fs_ref const& at(address fs) {
  return *reinterpret_cast<gpufs::fs_ref const*>(fs);
}

template <class Group>
__device__ long long size_of(gpufs::io_context<Group>& io, int fd) {
  gpufs::file_status status;
  int const error = gpufs::gfstat(io, fd, &status);
  return error != 0 ? error : static_cast<long long>(status.size);
}

}  // namespace

#define GPUFS_CALLS(suffix, group)                                                                 \
  extern "C" __device__ int gpufs_gopen##suffix(address fs, address path, int flags, int mode) {   \
    gpufs::io_context io(at(fs), group());                                                         \
    return gpufs::gopen(io, reinterpret_cast<char const*>(path), flags, unsigned(mode));           \
  }                                                                                                \
  extern "C" __device__ int gpufs_gclose##suffix(address fs, int fd) {                             \
    gpufs::io_context io(at(fs), group());                                                         \
    return gpufs::gclose(io, fd);                                                                  \
  }                                                                                                \
  extern "C" __device__ long long gpufs_gread##suffix(address fs, int fd, address to,              \
                                                      long long count, long long offset) {         \
    gpufs::io_context io(at(fs), group());                                                         \
    return gpufs::gread(io, fd, reinterpret_cast<void*>(to), std::size_t(count), offset);          \
  }                                                                                                \
  extern "C" __device__ long long gpufs_gwrite##suffix(address fs, int fd, address from,           \
                                                       long long count, long long offset) {        \
    gpufs::io_context io(at(fs), group());                                                         \
    return gpufs::gwrite(io, fd, reinterpret_cast<void const*>(from), std::size_t(count), offset); \
  }                                                                                                \
  extern "C" __device__ int gpufs_gfsync##suffix(address fs, int fd) {                             \
    gpufs::io_context io(at(fs), group());                                                         \
    return gpufs::gfsync(io, fd);                                                                  \
  }                                                                                                \
  extern "C" __device__ long long gpufs_gsize##suffix(address fs, int fd) {                        \
    gpufs::io_context io(at(fs), group());                                                         \
    return size_of(io, fd);                                                                        \
  }

GPUFS_CALLS(, block)
GPUFS_CALLS(_warp, warp)
