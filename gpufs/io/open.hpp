// gopen, gclose and gfstat. The group's first warp makes one request for each.
#pragma once

#include <gpufs/file.hpp>
#include <gpufs/file/take_version.hpp>
#include <gpufs/io/control_call.hpp>
#include <gpufs/io/io_context.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

namespace io {

using namespace base;

/// Runs `call` in the group's first warp, once all threads have come, and returns its result in
/// every thread. Groups smaller than a warp get -EINVAL.
template <class Group, class Call>
__device__ __forceinline__ std::int32_t in_first_warp(Group const& g, Call&& call) {
  using ops = group_ops<Group>;
  if (ops::warps(g) == 0) return -EINVAL;
  ops::sync(g);
  std::int32_t result = 0;
  if (ops::warp(g) == 0) result = call();
  return ops::broadcast(g, result);
}

/// A descriptor's file as it is now. It comes from the descriptor's record, unless `known` is of
/// that descriptor and not outdated. For a written file, version and size come from the record that
/// callers share. Any thread calls.
struct found_file {
  file::used_file file;
  std::int32_t error;
};
GPUFS_LIBRARY_STAGE found_file find_file(fs_ref const* __restrict__ handle, std::int32_t fd,
                                         file::used_file known) {
  bool const current = known.fd == fd && !file::is_outdated(*handle, known);
  std::int32_t error = current ? 0 : file::load_record_together(*handle, fd, known);
  if (error == 0 && known.write_index != 0) error = file::load_shared(*handle, known);
  return {known, error};
}

/// A found_file without its descriptor, which all threads know.
struct file_look {
  std::int32_t error = 0;
  std::uint32_t write_index = 0;
  std::uint64_t version = 0;
  std::uint64_t size = 0;
  std::uint32_t flags = 0;
  std::uint32_t changes = 0;
};

/// The slow half of use_file(): `fd` is not the current file, or its version and size may have
/// changed. All threads of the group call. The look comes after the group has met: a thread that
/// comes late may know of a gwrite to a version that came meanwhile, and the call must see it.
template <class Group>
__device__ __forceinline__ std::int32_t look_at_file(io_context<Group>& io, std::int32_t fd) {
  file_look look;
  io_context<Group>::ops::sync(io.group());
  if (io.group().thread_rank() == 0) {
    found_file const found =
        fd < 0 ? found_file{{}, -EBADF} : find_file(io.handle(), fd, io.file());
    look = {found.error,     found.file.write_index, found.file.version,
            found.file.size, found.file.flags,       found.file.changes};
  }
  look = io_context<Group>::ops::broadcast(io.group(), look);
  io.file() = {look.error == 0 ? fd : -1,
               look.write_index,
               look.version,
               look.size,
               look.flags,
               look.changes};
  return look.error;
}

/// Whether `fd` is the current file, and only is_outdated() can tell that its record has changed.
/// Any thread calls.
__device__ __forceinline__ bool is_known(file::used_file const& file, std::int32_t fd) {
  return file.fd == fd && fd >= 0 && file.write_index == 0;
}

/// Opens a file, and lets all contexts know of the versions that the daemon tells with its answer.
/// All lanes of one warp call. Returns as gopen.
///
/// Contexts that know a file as not written look at file_changes, and others at its shared_file. So
/// the shared_file must have the version before gopen returns. It may fail to take it, while dirty
/// pages cannot be written; then the next access tries again.
__device__ __forceinline__ std::int32_t open_and_tell(fs_ref const& fs, char const* path,
                                                      std::uint32_t flags, std::uint32_t mode) {
  std::uint64_t changes = 0;
  file::used_file opened;
  std::int32_t const result = path_call(
      fs, rpc::operation::open, path, flags, mode, [&](std::byte const*, rpc::completion& answer) {
        if (lane_id() != 0) return;
        // This thread has acquired the answer, and these words come before it.
        auto const load = [](std::uint64_t& word) {
          return atomic_ref<std::uint64_t, scope::system>(word).load(memory_order_relaxed);
        };
        changes = load(answer.changes);
        opened.version = load(answer.version);
        opened.write_index = static_cast<std::uint32_t>(load(answer.write_index));
      });
  if (result > 0 && lane_id() == 0) {
    file::tell_changes(fs, changes);
    opened.fd = result;
    if (opened.write_index != 0) static_cast<void>(find_file(fs.self, result, opened));
  }
  __syncwarp();  // all lanes return together
  return result;
}

/// Makes `fd` the context's current file. All threads of the group call. Has a group barrier.
/// Returns 0 or -EBADF.
template <class Group>
__device__ __forceinline__ std::int32_t use_file(io_context<Group>& io, std::int32_t fd) {
  file::used_file const& file = io.file();
  if (is_known(file, fd)) {
    // Each thread looks behind what it knows of. All leave by the same path.
    bool const outdated = file::is_outdated(io.fs(), file);
    if (!io_context<Group>::ops::any(io.group(), outdated)) return 0;
  }
  return look_at_file(io, fd);
}

}  // namespace io

template <class Group>
__device__ int gopen(io_context<Group>& io, char const* path, int flags, unsigned mode) {
  io.file().fd = -1;  // the context may know this descriptor as it was before this open
  return io::in_first_warp(io.group(), [&] {
    return io::open_and_tell(io.fs(), path, static_cast<std::uint32_t>(flags), mode);
  });
}

template <class Group>
__device__ int gclose(io_context<Group>& io, int fd) {
  if (io.file().fd == fd) io.file().fd = -1;
  return io::in_first_warp(io.group(),
                           [&] { return io::plain_call(io.fs(), rpc::operation::close, fd); });
}

template <class Group>
__device__ int gfstat(io_context<Group>& io, int fd, file_status* status) {
  std::uint64_t word[sizeof(file_status) / 8] = {};
  std::int32_t const result = io::in_first_warp(io.group(), [&] {
    rpc::request r;
    r.op = rpc::operation::stat;
    r.file = fd;
    return io::control_call(
        io.fs(), r, [](std::byte*) {},
        [&](std::byte const* staging, rpc::completion&) {
          auto const* from = reinterpret_cast<unsigned long long const*>(staging);
          for (unsigned i = 0; i < sizeof(file_status) / 8; ++i) word[i] = __ldcv(from + i);
        });
  });
  if (result != 0) return result;
  for (auto& w : word) w = io_context<Group>::ops::broadcast(io.group(), w);
  // gwrite may have made the file longer than the host file is so far.
  if (std::int32_t const error = io::use_file(io, fd); error != 0) return error;
  if (io.file().write_index != 0 && (io.file().flags & rpc::open_write_once) == 0)
    word[0] = base::most(word[0], io.file().size);
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

}  // namespace gpufs
