// gopen, gclose, gfstat and the nop that measures the ring: one request each, made by the group's
// first warp.
#pragma once

#include <gpufs/io/io_context.hpp>

#include <cerrno>
#include <climits>
#include <cstdint>

namespace gpufs {

namespace detail {

/// Bytes of a string up to `limit`. All lanes of a warp call.
__device__ __forceinline__ std::uint32_t warp_strlen(char const* text, std::uint32_t limit) {
  for (std::uint32_t at = 0; at < limit;) {
    // Byte by byte behind each other: no lane may look beyond the terminator.
    std::uint32_t step = 0;
    if (lane_id() == 0) {
      while (step < 256 && at + step < limit && text[at + step] != 0) ++step;
    }
    step = warp_broadcast(step);
    at += step;
    if (step < 256) return at;
  }
  return limit;
}

/// Closes the descriptor of an open that was answered after its caller had given up, over the
/// channel of that open, which the caller holds. All lanes of one warp call. The channel may take
/// the next request, as `sequence`; or `error` is -EIO or -ETIMEDOUT, and it is returned.
struct late_close {
  std::int32_t error;
  std::uint32_t sequence;
};
GPUFS_STAGE inline late_close close_late_open(fs_ref const* handle, channel c,
                                              std::int32_t descriptor) {
  fs_ref const& fs = *handle;
  rpc::request r;
  r.op = rpc::operation::close;
  r.file = descriptor;
  r.channel = c.number;
  r.sequence = c.sequence;
  submit(fs, r);
  std::int32_t error = 0;
  if (lane_id() == 0) {
    bool answered = false;
    std::int32_t const result = await(fs, c, answered);
    count(fs, counter::requests);
    if (answered) {
      next_request(fs.control_channels, c);
    } else {
      error = result;
      return_channel(fs.control_channels, c, false);
    }
  }
  return {warp_broadcast(error), warp_broadcast(c.sequence)};
}

/// Sends one request over a control channel and waits for the answer; `before` fills staging,
/// `after` reads it. All lanes of one warp call; all get the result.
template <class Before, class After>
__device__ __forceinline__ std::int32_t control_call(fs_ref const& fs, rpc::request r,
                                                     Before&& before, After&& after) {
  unsigned const lane = lane_id();
  channel c;
  std::int32_t late = 0;
  std::int32_t result = acquire_channel(fs, fs.control_channels, c, &late);
  late = warp_broadcast(late);
  // Of all that these channels are for only an open has a result above 0.
  if (result == 0 && late > 0) {
    late_close const closed = close_late_open(fs.self, c, late);
    result = closed.error;
    c.sequence = closed.sequence;
  }
  if (result != 0) return result;
  r.channel = c.number;
  r.sequence = c.sequence;
  r.staging = staging_offset(fs.control_channels, c);
  std::byte* const staging = staging_bytes(fs, fs.control_channels, c);
  before(staging);
  __syncwarp();
  submit<carries::staged_data>(fs, r);
  bool answered = false;
  if (lane == 0) {
    result = await(fs, c, answered);
    count(fs, counter::requests);
    if (!answered && result == -ETIMEDOUT) count(fs, counter::timeouts);
  }
  result = warp_broadcast(result);
  __syncwarp();  // all lanes come after lane 0's acquire
  if (result >= 0) after(staging);
  __syncwarp();
  if (lane == 0) return_channel(fs.control_channels, c, answered);
  return result;
}

/// Sends a request that carries a path. All lanes of one warp call.
__device__ __forceinline__ std::int32_t path_call(fs_ref const& fs, rpc::operation op,
                                                  char const* path, std::uint64_t first,
                                                  std::uint64_t second) {
  std::uint32_t const length = warp_strlen(path, PATH_MAX);
  if (length >= PATH_MAX) return -ENAMETOOLONG;
  rpc::request r;
  r.op = op;
  r.length = length;
  r.argument[0] = first;
  r.argument[1] = second;
  return control_call(
      fs, r,
      [&](std::byte* staging) {
        for (std::uint32_t i = lane_id(); i < length; i += warp_size)
          staging[i] = static_cast<std::byte>(path[i]);
      },
      [](std::byte const*) {});
}

/// Runs `call` in the group's first warp and gives its result to every thread. Groups of less than
/// a warp get -EINVAL.
template <class Group, class Call>
__device__ __forceinline__ std::int32_t in_first_warp(Group const& g, Call&& call) {
  using ops = group_ops<Group>;
  if (ops::warps(g) == 0) return -EINVAL;
  std::int32_t result = 0;
  if (ops::warp(g) == 0) result = call();
  return static_cast<std::int32_t>(
      static_cast<std::uint32_t>(ops::broadcast(g, static_cast<std::uint32_t>(result))));
}

/// A descriptor's file as it is now: from its record, unless `known` is of it, and for files that
/// are written from what callers share.
struct found_file {
  used_file file;
  std::int32_t error;
};
GPUFS_STAGE inline found_file find_file(fs_ref const* handle, std::int32_t fd, used_file known) {
  std::int32_t error = known.fd == fd ? 0 : load_record_together(*handle, fd, known);
  if (error == 0 && known.place != 0) error = load_shared(*handle, known);
  return {known, error};
}

/// use_file() of a descriptor that is not the current one, or of a file that is written: then uid
/// and size may have changed.
template <class Group>
__device__ __forceinline__ std::int32_t look_at_file(io_context<Group>& io, std::int32_t fd) {
  std::uint64_t seen[4] = {};
  if (io.group().thread_rank() == 0) {
    found_file const found =
        fd < 0 ? found_file{{}, -EBADF} : find_file(io.fs().self, fd, io.file());
    seen[0] = static_cast<std::uint32_t>(found.error) | std::uint64_t(found.file.place) << 32;
    seen[1] = found.file.uid;
    seen[2] = found.file.size;
    seen[3] = found.file.flags;
  }
  io_context<Group>::ops::broadcast(io.group(), seen);
  auto const error = static_cast<std::int32_t>(static_cast<std::uint32_t>(seen[0]));
  io.file() = {error == 0 ? fd : -1, static_cast<std::uint32_t>(seen[0] >> 32), seen[1], seen[2],
               seen[3]};
  return error;
}

/// Makes `fd` the context's current file. All threads of the group call. Returns 0 or -EBADF.
template <class Group>
__device__ __forceinline__ std::int32_t use_file(io_context<Group>& io, std::int32_t fd) {
  used_file const& file = io.file();
  if (file.fd == fd && fd >= 0 && file.place == 0) return 0;
  return look_at_file(io, fd);
}

}  // namespace detail

template <class Group>
__device__ int gopen(io_context<Group>& io, char const* path, int flags, unsigned mode) {
  io.file().fd = -1;  // what this context knows of a descriptor may be of before this open
  return detail::in_first_warp(io.group(), [&] {
    return detail::path_call(io.fs(), rpc::operation::open, path, static_cast<std::uint32_t>(flags),
                             mode);
  });
}

template <class Group>
__device__ int gclose(io_context<Group>& io, int fd) {
  io_context<Group>::ops::sync(io.group());
  if (io.file().fd == fd) io.file().fd = -1;
  return detail::in_first_warp(io.group(), [&] {
    rpc::request r;
    r.op = rpc::operation::close;
    r.file = fd;
    return detail::control_call(
        io.fs(), r, [](std::byte*) {}, [](std::byte const*) {});
  });
}

template <class Group>
__device__ int gfstat(io_context<Group>& io, int fd, file_status* status) {
  std::uint64_t word[sizeof(file_status) / 8] = {};
  std::int32_t const result = detail::in_first_warp(io.group(), [&] {
    rpc::request r;
    r.op = rpc::operation::stat;
    r.file = fd;
    return detail::control_call(
        io.fs(), r, [](std::byte*) {},
        [&](std::byte const* staging) {
          auto const* from = reinterpret_cast<unsigned long long const*>(staging);
          for (unsigned i = 0; i < sizeof(file_status) / 8; ++i) word[i] = __ldcv(from + i);
        });
  });
  if (result != 0) return result;
  for (auto& w : word) w = io_context<Group>::ops::broadcast(io.group(), w);
  // What gwrite has added and the host's file does not have yet belongs to it.
  if (detail::use_file(io, fd) == 0 && io.file().place != 0 &&
      (io.file().flags & rpc::open_write_once) == 0)
    word[0] = io.file().size;
  status->size = word[0];
  status->device = word[1];
  status->inode = word[2];
  status->mtime_ns = static_cast<std::int64_t>(word[3]);
  status->ctime_ns = static_cast<std::int64_t>(word[4]);
  status->mode = word[5];
  status->block_size = word[6];
  status->reserved = 0;
  return 0;
}

/// One empty round trip to the daemon, for measuring. Collective. Returns 0, -ETIMEDOUT or -EIO.
template <class Group>
[[nodiscard]] __device__ int rpc_nop(io_context<Group>& io) {
  return detail::in_first_warp(io.group(), [&] {
    return detail::control_call(
        io.fs(), rpc::request{}, [](std::byte*) {}, [](std::byte const*) {});
  });
}

}  // namespace gpufs
