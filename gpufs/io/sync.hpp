// gfsync, gftruncate, gunlink. Each is one request by the group's first warp.
#pragma once

#include <gpufs/io/control_call.hpp>
#include <gpufs/io/open.hpp>

#include <cerrno>
#include <climits>
#include <cstdint>

namespace gpufs {

template <class Group>
__device__ int gfsync(io_context<Group>& io, int fd) {
  return io::in_first_warp(io.group(),
                           [&] { return io::plain_call(io.fs(), rpc::operation::sync, fd); });
}

template <class Group>
__device__ int gftruncate(io_context<Group>& io, int fd, std::int64_t size) {
  if (io_context<Group>::ops::warps(io.group()) == 0 || size < 0) return -EINVAL;
  if (std::uint64_t(size) > rpc::payload_mask) return -EFBIG;
  if (std::int32_t const error = io::use_file(io, fd); error != 0) return error;
  file::used_file const file = io.file();
  if ((file.flags & O_ACCMODE) == O_RDONLY || file.write_index == 0) return -EINVAL;
  return io::in_first_warp(io.group(), [&]() -> std::int32_t {
    std::int32_t error = 0;
    if (lane_id() == 0) error = file::begin_truncation(io.fs(), file);
    error = base::warp_broadcast(error);
    if (error != 0) return error;
    error = io::plain_call(io.fs(), rpc::operation::truncate, fd, std::uint64_t(size));
    if (lane_id() == 0) file::end_truncation(io.fs(), file, error == 0);
    __syncwarp();
    return error;
  });
}

template <class Group>
__device__ int gunlink(io_context<Group>& io, char const* path) {
  return io::in_first_warp(io.group(), [&] {
    return io::path_call(io.fs(), rpc::operation::unlink, path, 0, 0,
                         [](std::byte const*, rpc::completion&) {});
  });
}

}  // namespace gpufs
