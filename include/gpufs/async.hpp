// Reads that a kernel starts now and waits for later: gread_async, gtest, gwait.
#pragma once

#include <gpufs/io.hpp>
#include <gpufs/io/async_page.hpp>

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

namespace gpufs {

/// A read that gread_async has started. Every thread of the group keeps its own copy.
/// Only the same group, with the same context, may pass it to gtest and gwait.
struct async_read {
  std::int32_t fd = -1;         ///< the file's descriptor
  void* buffer = nullptr;       ///< where gwait delivers the bytes
  std::size_t count = 0;        ///< bytes, at most to the end of the 32nd page
  std::int64_t offset = 0;      ///< of the first byte in the file
  std::uint64_t version = 0;    ///< of the file when the read began
  std::uint64_t size = 0;       ///< of the file when the read began, in bytes
  std::uint32_t requested = 0;  ///< bit i: page i, from the first one on, was requested
  io::async_page page;          ///< this lane's page of those that were requested
};

/// Starts a gread and returns at once. It requests the pages that are not in the cache.
/// All threads of the group call. Until gwait, do not use `buf` and do not close `fd`.
///
/// A context may have any number of such reads under way, and wait for them in any order.
/// A read has at most 32 pages; a longer `count` is cut.
/// gwait reads the pages that could not be requested now.
///
/// Returns a handle for gtest and gwait. gwait reports the bytes and every error.
template <class Group>
[[nodiscard]] __device__ async_read gread_async(io_context<Group>& io, int fd, void* buf,
                                                std::size_t count, std::int64_t offset);

/// Tells whether all requests of `r` are answered, so that gwait need not wait for them.
/// All threads of the group call. Returns 1 or 0; also 1 once the daemon has stopped, or
/// config::rpc_timeout_ms after gread_async.
template <class Group>
[[nodiscard]] __device__ int gtest(io_context<Group>& io, async_read const& r);

/// Ends a read of gread_async: waits for its bytes and delivers them.
/// All threads of the group call, once for each read, before the context ends.
/// Until then the read holds a staging piece for each requested page.
///
/// Returns bytes read, or an error, as gread().
template <class Group>
[[nodiscard]] __device__ ssize_t gwait(io_context<Group>& io, async_read& r);

}  // namespace gpufs

#include <gpufs/io/async.hpp>
