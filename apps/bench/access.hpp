// Ways to bring a request's bytes to a buffer, for the kernels of `gpufs bench`. All threads of the
// context's group call.
// begin() starts a request. end() returns the bytes delivered, or -errno. A reader has Way::depth
// requests under way.
#pragma once

#include <gpufs/gpufs.hpp>

#include <apps/bench/access_plan.hpp>

#include <cstddef>
#include <cstdint>

#include <sys/mman.h>
#include <sys/types.h>

namespace gpufs::apps {

#if defined(__CUDACC__) || defined(GPUFS_EMULATED)

struct by_gread {
  static constexpr unsigned depth = 1;
  access a;
  std::byte* to;

  template <class Group>
  __device__ __forceinline__ void begin(io_context<Group>&, int, std::byte* buffer,
                                        access const& wanted) {
    a = wanted;
    to = buffer;
  }
  template <class Group>
  __device__ __forceinline__ ssize_t end(io_context<Group>& io, int fd) {
    return gread(io, fd, to, a.bytes, static_cast<std::int64_t>(a.offset));
  }
};

/// Copied out of mapped pages, one after the other.
struct by_gmmap : by_gread {
  template <class Group>
  __device__ ssize_t end(io_context<Group>& io, int fd) {
    std::uint64_t done = 0;
    while (done < a.bytes) {
      void* address = nullptr;
      ssize_t const n = gmmap(io, fd, a.bytes - done, static_cast<std::int64_t>(a.offset + done),
                              PROT_READ, &address);
      if (n <= 0) return done != 0 ? static_cast<ssize_t>(done) : n;
      auto const* const from = static_cast<std::byte const*>(address);
      auto const size = static_cast<std::uint64_t>(io.group().size());
      std::uint64_t const words =
          (a.offset + done) % 8 == 0 && done % 8 == 0 ? static_cast<std::uint64_t>(n) / 8 : 0;
      for (std::uint64_t i = io.group().thread_rank(); i < words; i += size) {
        reinterpret_cast<std::uint64_t*>(to + done)[i] =
            reinterpret_cast<std::uint64_t const*>(from)[i];
      }
      for (std::uint64_t i = words * 8 + io.group().thread_rank();
           i < static_cast<std::uint64_t>(n); i += size)
        to[done + i] = from[i];
      gmunmap(io, address);
      done += static_cast<std::uint64_t>(n);
    }
    return static_cast<ssize_t>(done);
  }
};

/// Element by element, each thread its own.
struct by_array : by_gread {
  template <class Group>
  __device__ ssize_t end(io_context<Group>& io, int fd) {
    using ops = io::group_ops<Group>;
    array<std::uint64_t const> const words(io, fd);
    array<std::byte const> const bytes(io, fd);
    ops::sync(io.group());  // the buffer is not looked at any more
    auto const size = static_cast<std::uint64_t>(io.group().size());
    std::uint64_t const whole = a.offset % 8 == 0 ? a.bytes / 8 : 0;
    for (std::uint64_t i = io.group().thread_rank(); i < whole; i += size) {
      reinterpret_cast<std::uint64_t*>(to)[i] = words[a.offset / 8 + i];
    }
    for (std::uint64_t i = whole * 8 + io.group().thread_rank(); i < a.bytes; i += size)
      to[i] = bytes[a.offset + i];
    bool const failed = ops::any(io.group(), words.error() != 0 || bytes.error() != 0);
    ops::sync(io.group());  // all of it is there
    return failed ? (words.error() != 0   ? words.error()
                     : bytes.error() != 0 ? bytes.error()
                                          : -EIO)
                  : static_cast<ssize_t>(a.bytes);
  }
};

/// Several requests under way for each reader.
struct by_async {
  static constexpr unsigned depth = 8;
  access a;
  async_read read;

  template <class Group>
  __device__ void begin(io_context<Group>& io, int fd, std::byte* buffer, access const& wanted) {
    a = wanted;
    read = gread_async(io, fd, buffer, a.bytes, static_cast<std::int64_t>(a.offset));
  }
  template <class Group>
  __device__ ssize_t end(io_context<Group>& io, int) {
    return gwait(io, read);
  }
};

#endif

}  // namespace gpufs::apps
