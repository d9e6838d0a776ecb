// Where the kernel finds the histograms of the database: one small type for each way, all with the
// same shape.
//
// A source is passed to the kernel by value. source::reader<Group> is made by all threads of a
// group together, which may then, together, call
//   read(id, buffer, result)  the histogram of tile `id`: in `buffer` (shared memory, the group's
//   own, histogram_bytes) or elsewhere;
//                             null if it cannot be had, and then `result` is -errno or the bytes
//                             that were there
//   done()                    what the last read() returned is not looked at any more
#pragma once

#include <gpufs/gpufs.hpp>

#include <apps/mosaic/tile.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <sys/mman.h>
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
    __device__ reader(gread_source const& source, Group const& group)
        : io_(source.fs, group), fd_(source.fd) {}
    __device__ float const* read(std::uint32_t id, float* buffer, ssize_t& result) {
      result =
          gread(io_, fd_, buffer, histogram_bytes, static_cast<std::int64_t>(id * record_bytes));
      return result == static_cast<ssize_t>(histogram_bytes) ? buffer : nullptr;
    }
    __device__ void done() {}

   private:
    io_context<Group> io_;
    int fd_;
  };
#endif
};

/// By gmmap of the record, which lies within one page: pages of 4 KiB or more.
struct gmmap_source {
  fs_ref fs;
  int fd;

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
  template <class Group>
  class reader {
   public:
    __device__ reader(gmmap_source const& source, Group const& group)
        : io_(source.fs, group), fd_(source.fd) {}
    __device__ float const* read(std::uint32_t id, float*, ssize_t& result) {
      result = gmmap(io_, fd_, histogram_bytes, static_cast<std::int64_t>(id * record_bytes),
                     PROT_READ, &address_);
      if (result == static_cast<ssize_t>(histogram_bytes))
        return static_cast<float const*>(address_);
      if (result > 0) gmunmap(io_, address_);
      return nullptr;
    }
    __device__ void done() { gmunmap(io_, address_); }

   private:
    io_context<Group> io_;
    int fd_;
    void* address_ = nullptr;
  };
#endif
};

/// Each thread for itself, bin by bin, through an array of the whole file.
struct array_source {
  fs_ref fs;
  int fd;

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
  template <class Group>
  class reader {
   public:
    __device__ reader(array_source const& source, Group const& group)
        : io_(source.fs, group), group_(group), bins_(io_, source.fd) {}
    __device__ float const* read(std::uint32_t id, float* buffer, ssize_t& result) {
      group_.sync();  // the record before is not looked at any more
      constexpr std::uint64_t step = record_bytes / sizeof(float);
      for (auto b = static_cast<unsigned>(group_.thread_rank()); b < histogram_bins;
           b += static_cast<unsigned>(group_.size())) {
        buffer[b] = bins_[id * step + b];
      }
      result = bins_.error() != 0 ? bins_.error() : -EIO;
      bool const failed = io::group_ops<Group>::any(group_, bins_.error() != 0);
      group_.sync();  // the record is there
      return failed ? nullptr : buffer;
    }
    __device__ void done() {}

   private:
    io_context<Group> io_;
    Group const group_;
    array<float const> bins_;
  };
#endif
};

}  // namespace gpufs::apps
