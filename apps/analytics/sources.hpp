// Where a kernel finds the elements of a file: one small type for each way, all with the same
// shape.
//
// A source is passed to the kernel by value. All lanes of a warp make source::reader together, from
// the source, a context of source::files, and shared memory for piece_bytes (gread uses it). Then
//   reader[i]                     element i; any lane calls (not gread)
//   reader.visit(begin, end, use) calls use(i, element) for each i of the range, by one of the
//                                 lanes. All lanes call with the same range.
//   reader.release()              gives back the pages that this lane holds
//   reader.error()                0, or -errno of this lane
#pragma once

#include <gpufs/gpufs.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace gpufs::apps::analytics {

inline constexpr std::uint64_t piece_bytes = 4096;

/// Elements lie in memory that kernels read directly.
struct no_files {};

/// Elements lie in files of this filesystem.
struct open_files {
  fs_ref fs;
};

/// Elements of an open file, from byte `offset` on.
struct file_part {
  int fd;
  std::int64_t offset;
  std::uint64_t count;
};

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)

using warp =
    decltype(cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block()));

__device__ inline warp this_warp() {
  return cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
}

/// What a warp needs for its readers.
template <class Files>
struct warp_context;
template <>
struct warp_context<no_files> {
  __device__ explicit warp_context(no_files const&) {}
};
template <>
struct warp_context<open_files> {
  __device__ explicit warp_context(open_files const& files) : io(files.fs, this_warp()) {}
  io_context<warp> io;
};

/// Lanes take elements 32 apart, from a multiple of 16 on: of 8-byte elements that is 128 bytes.
/// Each lane has four loads under way. All lanes load together, which is faster than in groups: one
/// without an element of its own loads the range's first or last one.
template <class T, class Load, class Use>
__device__ void visit_by_lanes(std::uint64_t begin, std::uint64_t end, Load const& load,
                               Use const& use) {
  constexpr unsigned together = 4;
  constexpr std::uint64_t step = base::warp_size;
  for (std::uint64_t first = begin & ~std::uint64_t{15}; first < end; first += together * step) {
    T found[together];
    GPUFS_UNROLL
    for (unsigned k = 0; k < together; ++k) {
      if (first + k * step >= end) break;
      std::uint64_t const i = first + k * step + lane_id();
      found[k] = load(i < begin ? begin : i < end ? i : end - 1);
    }
    GPUFS_UNROLL
    for (unsigned k = 0; k < together; ++k) {
      std::uint64_t const i = first + k * step + lane_id();
      if (i >= begin && i < end) use(i, found[k]);
    }
    __syncwarp();
  }
}

#endif

template <class T>
struct in_memory {
  using files = no_files;
  T const* elements;

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
  class reader {
   public:
    __device__ reader(in_memory const& source, warp_context<files>&, T*)
        : elements_(source.elements) {}
    __device__ T operator[](std::uint64_t i) const { return elements_[i]; }
    template <class Use>
    __device__ void visit(std::uint64_t begin, std::uint64_t end, Use const& use) {
      visit_by_lanes<T>(begin, end, *this, use);
    }
    __device__ T operator()(std::uint64_t i) const { return elements_[i]; }
    __device__ static void release() {}
    __device__ static int error() { return 0; }

   private:
    T const* elements_;
  };
#endif
};

template <class T>
struct by_array {
  using files = open_files;
  file_part part;

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
  class reader {
   public:
    __device__ reader(by_array const& source, warp_context<files>& context, T*)
        : elements_(context.io, source.part.fd, source.part.offset, source.part.count) {}
    __device__ T operator[](std::uint64_t i) const { return elements_[i]; }
    template <class Use>
    __device__ void visit(std::uint64_t begin, std::uint64_t end, Use const& use) {
      visit_by_lanes<T>(
          begin, end, [&](std::uint64_t i) { return elements_.load(i); }, use);
    }
    __device__ void release() const { elements_.release(); }
    __device__ int error() const { return elements_.error(); }

   private:
    array<T const> elements_;
  };
#endif
};

template <class T>
struct by_pointer {
  using files = open_files;
  file_part part;

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
  class reader {
   public:
    __device__ reader(by_pointer const& source, warp_context<files>& context, T*)
        : first_(array<T const>(context.io, source.part.fd, source.part.offset, source.part.count)
                     .pointer(0)) {}
    __device__ T operator[](std::uint64_t i) const { return first_[static_cast<std::int64_t>(i)]; }
    template <class Use>
    __device__ void visit(std::uint64_t begin, std::uint64_t end, Use const& use) {
      visit_by_lanes<T>(
          begin, end, [&](std::uint64_t i) { return (*this)[i]; }, use);
    }
    __device__ void release() const { first_.release(); }
    __device__ int error() const { return first_.error(); }

   private:
    held_ptr<T const> first_;
  };
#endif
};

template <class T>
struct by_gread {
  using files = open_files;
  file_part part;

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)
  class reader {
   public:
    __device__ reader(by_gread const& source, warp_context<files>& context, T* piece)
        : io_(context.io), part_(source.part), piece_(piece) {}
    template <class Use>
    __device__ void visit(std::uint64_t begin, std::uint64_t end, Use const& use) {
      constexpr std::uint64_t most = piece_bytes / sizeof(T);
      for (std::uint64_t at = begin; at < end && error_ == 0;) {
        std::uint64_t const to_piece_end = most - at % most, left = end - at;
        std::uint64_t const count = left < to_piece_end ? left : to_piece_end;
        auto const offset = part_.offset + static_cast<std::int64_t>(at * sizeof(T));
        ssize_t const got = gread(io_, part_.fd, piece_, count * sizeof(T), offset);
        if (got != static_cast<ssize_t>(count * sizeof(T))) {
          error_ = got < 0 ? static_cast<int>(got) : -EIO;  // the file has become shorter
          return;
        }
        for (std::uint64_t k = lane_id(); k < count; k += base::warp_size) use(at + k, piece_[k]);
        at += count;
      }
    }
    __device__ static void release() {}
    __device__ int error() const { return error_; }

   private:
    io_context<warp>& io_;
    file_part part_;
    T* piece_;
    int error_ = 0;
  };
#endif
};

}  // namespace gpufs::apps::analytics
