// Where the kernel finds the histograms of the database: one small type for each way, all with the same shape.
//
// A source is passed to the kernel by value. source::reader<Group> is made by all threads of a group together, which may then, together, call
//   read(id, buffer, result)  the histogram of tile `id`: in `buffer` (shared memory, the group's own, histogram_bytes) or elsewhere;
//                             null if it cannot be had, and then `result` is -errno or the bytes that were there
//   done()                    what the last read() returned is not looked at any more
#pragma once

#include <gpufs/gpufs.hpp>

#include <apps/mosaic/tile.hpp>

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace gpufs::apps {

/// tiles.hist as a whole lies in device memory.
struct resident_source {
  std::byte const* records;

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
  template <class Group>
  class reader {
   public:
    __device__ reader(resident_source const& source, Group const&) : records_(source.records) {}
    __device__ float const* read(std::uint32_t id, float*, ssize_t&) {
      return reinterpret_cast<float const*>(records_ + id * record_bytes);
    }
    __device__ void done() {}

   private:
    std::byte const* records_;
  };
#endif
};

/// By gread from tiles.hist, open as `fd`.
struct gread_source {
  fs_ref fs;
  int fd;

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
  template <class Group>
  class reader {
   public:
    __device__ reader(gread_source const& source, Group const& group) : io_(source.fs, group), fd_(source.fd) {}
    __device__ float const* read(std::uint32_t id, float* buffer, ssize_t& result) {
      result = gread(io_, fd_, buffer, histogram_bytes, static_cast<std::int64_t>(id * record_bytes));
      return result == static_cast<ssize_t>(histogram_bytes) ? buffer : nullptr;
    }
    __device__ void done() {}

   private:
    io_context<Group> io_;
    int fd_;
  };
#endif
};

}  // namespace gpufs::apps
