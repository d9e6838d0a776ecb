// gfsync, gftruncate, gunlink. Each is one request by the group's first warp.
#pragma once

#include <gpufs/file/truncation.hpp>
#include <gpufs/io/control_call.hpp>
#include <gpufs/io/open.hpp>

#include <cerrno>
#include <climits>
#include <cstdint>

namespace gpufs {

namespace io {

/// One try of a truncation, with the gates of `who` closed. All lanes of one warp call. Returns as
/// gftruncate, or rpc::other_gate_needed and the other write index in `who`.
__device__ __forceinline__ std::int32_t try_truncate(fs_ref const& fs, std::int32_t fd,
                                                     std::uint64_t size, file::kept_out& who) {
  rpc::request r;
  r.op = rpc::operation::truncate;
  r.file = fd;
  r.argument[0] = size;
  r.argument[1] = who.other;
  file::truncated_file now;
  std::int32_t const result = control_call(
      fs, r, [](std::byte*) {},
      [&](std::byte const*, rpc::completion& answer) {
        if (lane_id() != 0) return;
        // As in open_and_tell().
        auto const load = [](std::uint64_t& word) {
          return atomic_ref<std::uint64_t, scope::system>(word).load(memory_order_relaxed);
        };
        now = {static_cast<std::uint32_t>(load(answer.write_index)), load(answer.version),
               load(answer.size)};
      });
  if (result == 0 && lane_id() == 0) file::tell_truncation(fs, who, now);
  if (lane_id() == 0) file::end_truncation(fs, who);
  if (result == rpc::other_gate_needed) who.other = warp_broadcast(now.write_index);
  __syncwarp();
  return result;
}

/// gftruncate of a file that is open for writing. All lanes of one warp call. A descriptor does not
/// know whether the file is open with O_GWRONCE, too. The daemon does: then it says so, and the
/// writers of both kinds are kept out in the next try.
__device__ __forceinline__ std::int32_t truncate(fs_ref const& fs, file::used_file const& file,
                                                 std::uint64_t size) {
  file::kept_out who{file.write_index, 0};
  std::uint64_t const start = device_clock_ns();
  for (;;) {
    std::int32_t error = 0;
    if (lane_id() == 0) error = file::begin_truncation(fs, who);
    error = warp_broadcast(error);
    if (error == 0) error = try_truncate(fs, file.fd, size, who);
    if (error != rpc::other_gate_needed) return error;
    // Descriptors of the other kind may come and go for ever.
    std::int32_t late = 0;
    if (lane_id() == 0) late = handle::wait_error(fs, start);
    late = warp_broadcast(late);
    if (late != 0) return late;
  }
}

}  // namespace io

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
  return io::in_first_warp(io.group(),
                           [&] { return io::truncate(io.fs(), file, std::uint64_t(size)); });
}

template <class Group>
__device__ int gunlink(io_context<Group>& io, char const* path) {
  return io::in_first_warp(io.group(), [&] {
    return io::path_call(io.fs(), rpc::operation::unlink, path, 0, 0,
                         [](std::byte const*, rpc::completion&) {});
  });
}

}  // namespace gpufs
