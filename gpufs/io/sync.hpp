// gfsync, gftruncate, gunlink: one request each, made by the group's first warp.
#pragma once

#include <gpufs/io/open.hpp>

#include <cerrno>
#include <climits>
#include <cstdint>

namespace gpufs {

namespace detail {

/// A request about an open file that carries nothing and brings nothing back. All lanes of one warp
/// call.
__device__ __forceinline__ std::int32_t plain_call(fs_ref const& fs, rpc::operation op,
                                                   std::int32_t fd, std::uint64_t argument = 0) {
  rpc::request r;
  r.op = op;
  r.file = fd;
  r.argument[0] = argument;
  return control_call(
      fs, r, [](std::byte*) {}, [](std::byte const*) {});
}

}  // namespace detail

template <class Group>
__device__ int gfsync(io_context<Group>& io, int fd) {
  io_context<Group>::ops::sync(io.group());
  return detail::in_first_warp(
      io.group(), [&] { return detail::plain_call(io.fs(), rpc::operation::sync, fd); });
}

template <class Group>
__device__ int gftruncate(io_context<Group>& io, int fd, std::int64_t size) {
  if (io_context<Group>::ops::warps(io.group()) == 0 || size < 0) return -EINVAL;
  if (std::uint64_t(size) > rpc::payload_mask) return -EFBIG;
  if (std::int32_t const error = detail::use_file(io, fd); error != 0) return error;
  used_file const file = io.file();
  if ((file.flags & O_ACCMODE) == O_RDONLY || file.place == 0) return -EINVAL;
  return detail::in_first_warp(io.group(), [&]() -> std::int32_t {
    std::int32_t error = 0;
    if (lane_id() == 0) error = detail::begin_truncation(io.fs(), file);
    error = warp_broadcast(error);
    if (error != 0) return error;
    error = detail::plain_call(io.fs(), rpc::operation::truncate, fd, std::uint64_t(size));
    if (lane_id() == 0) {
      // The record has a new uid now: whoever comes next takes it over, and those that hold the old
      // one notice.
      used_file fresh;
      if (detail::load_record(io.fs(), fd, fresh) == 0 && fresh.place != 0)
        static_cast<void>(detail::load_shared(io.fs(), fresh));
      detail::end_truncation(io.fs(), file);
    }
    __syncwarp();
    return error;
  });
}

template <class Group>
__device__ int gunlink(io_context<Group>& io, char const* path) {
  return detail::in_first_warp(
      io.group(), [&] { return detail::path_call(io.fs(), rpc::operation::unlink, path, 0, 0); });
}

}  // namespace gpufs
