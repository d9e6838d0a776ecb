// gopen, gclose, gfstat and the nop that measures the ring: one request each, made by the group's first warp.
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

/// Sends one request over a control channel and waits for the answer; `before` fills staging, `after` reads it. All lanes of one warp
/// call; all get the result.
template <class Before, class After>
__device__ __forceinline__ std::int32_t control_call(fs_ref const& fs, rpc::request r, Before&& before, After&& after) {
  unsigned const lane = lane_id();
  channel c;
  std::int32_t result = acquire_channel(fs, fs.control_channels, c);
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
  if (lane == 0) {
    if (answered) {
      release_channel(fs.control_channels, c);
    } else {
      abandon_channel(fs.control_channels, c);
    }
  }
  return result;
}

/// Runs `call` in the group's first warp and gives its result to every thread. Groups of less than a warp get -EINVAL.
template <class Group, class Call>
__device__ __forceinline__ std::int32_t in_first_warp(Group const& g, Call&& call) {
  using ops = group_ops<Group>;
  if (ops::warps(g) == 0) return -EINVAL;
  std::int32_t result = 0;
  if (ops::warp(g) == 0) result = call();
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(ops::broadcast(g, static_cast<std::uint32_t>(result))));
}

/// Reads a descriptor's record out of pinned memory. All lanes of one warp call. Returns 0 or -EBADF.
__device__ __forceinline__ std::int32_t load_record(fs_ref const& fs, std::int32_t fd, used_file& out) {
  std::uint32_t const index = rpc::descriptor_index(fd);
  std::uint32_t const generation = rpc::descriptor_generation(fd);
  if (fd < 0 || generation == 0 || index >= fs.shared.max_open_files) return -EBADF;
  rpc::open_file_record& record = fs.shared.open_files[index];
  // The registry stores tag = 0, fields, tag = generation, each a release of the one before: if the tag is right before and after, the
  // fields between belong to it (generations recur only after 32767 reuses of the slot).
  auto tag = [&] { return atomic_ref<std::uint64_t, scope::system>(record.tag).load(memory_order_acquire); };
  if (tag() != generation) return -EBADF;
  std::uint64_t const uid = atomic_ref<std::uint64_t, scope::system>(record.uid).load(memory_order_acquire);
  std::uint64_t const size = atomic_ref<std::uint64_t, scope::system>(record.size).load(memory_order_acquire);
  if (tag() != generation) return -EBADF;
  out = {fd, uid, size};
  return 0;
}

/// Makes `fd` the context's current file. All threads of the group call. Returns 0 or -EBADF.
template <class Group>
__device__ __forceinline__ std::int32_t use_file(io_context<Group>& io, std::int32_t fd) {
  used_file& file = io.file();
  if (file.fd == fd && fd >= 0) return 0;
  used_file fresh;
  std::int32_t const error = in_first_warp(io.group(), [&] {
    std::int32_t e = 0;
    if (lane_id() == 0) e = load_record(io.fs(), fd, fresh);
    return warp_broadcast(e);
  });
  if (error != 0) return error;
  file.uid = io_context<Group>::ops::broadcast(io.group(), fresh.uid);
  file.size = io_context<Group>::ops::broadcast(io.group(), fresh.size);
  file.fd = fd;
  return 0;
}

}  // namespace detail

template <class Group>
__device__ int gopen(io_context<Group>& io, char const* path, int flags) {
  io.file().fd = -1;  // what this context knows of a descriptor may be of before this open
  return detail::in_first_warp(io.group(), [&]() -> std::int32_t {
    std::uint32_t const length = detail::warp_strlen(path, PATH_MAX);
    if (length >= PATH_MAX) return -ENAMETOOLONG;
    rpc::request r;
    r.op = rpc::operation::open;
    r.length = length;
    r.argument[0] = static_cast<std::uint64_t>(static_cast<std::uint32_t>(flags));
    return detail::control_call(
        io.fs(), r,
        [&](std::byte* staging) {
          for (std::uint32_t i = lane_id(); i < length; i += warp_size) staging[i] = static_cast<std::byte>(path[i]);
        },
        [](std::byte const*) {});
  });
}

template <class Group>
__device__ int gclose(io_context<Group>& io, int fd) {
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
