// Gates of a file that is truncated. Writers through O_GWRONCE have a write index of their own, and
// so a gate of their own.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/file/shared_file.hpp>
#include <gpufs/fs_ref.hpp>

#include <cstdint>

namespace gpufs::file {

/// The write indices of a file whose writers a truncation keeps out. 0: none.
struct kept_out {
  std::uint32_t own;    ///< of the descriptor that truncates
  std::uint32_t other;  ///< of descriptors with O_GWRONCE, if `own` is not, or of all but these
};

/// Closes a gate and waits until no group is in gwrite. One thread calls. Returns 0, -ETIMEDOUT or
/// -EIO. After an error the gate is as before.
__device__ __forceinline__ std::int32_t keep_out(fs_ref const& fs, std::uint32_t write_index) {
  if (write_index == 0) return 0;
  shared_file& shared = fs.writes.files[write_index - 1];
  if (int const error =
          handle::spin_until(fs, handle::device_pause_ns, [&] { return try_close_gate(shared); }))
    return error;
  int const error = await_writers(fs, shared);
  if (error != 0) open_gate(shared);
  return error;
}
__device__ __forceinline__ void let_in(fs_ref const& fs, std::uint32_t write_index) {
  if (write_index != 0) open_gate(fs.writes.files[write_index - 1]);
}

/// Stops new writers and waits until none is left. One thread calls. Returns 0, -ETIMEDOUT or -EIO.
/// After an error this call stops no writer.
///
/// Of two gates the one of the lower index comes first, so no two callers wait for each other. A
/// caller that has a gate and no second one (take_version()) waits for writers only.
__device__ __forceinline__ std::int32_t begin_truncation(fs_ref const& fs, kept_out const& who) {
  std::uint32_t const first = base::least(who.own, who.other),
                      second = base::most(who.own, who.other);
  if (std::int32_t const error = keep_out(fs, first); error != 0) return error;
  std::int32_t const error = keep_out(fs, second);
  if (error != 0) let_in(fs, first);
  return error;
}

/// What the daemon says of a file that it has truncated: version and size, and the write index of
/// descriptors without O_GWRONCE. 0: none of these is or was open for writing.
struct truncated_file {
  std::uint32_t write_index = 0;
  std::uint64_t version = 0;
  std::uint64_t size = 0;
};

/// Tells all contexts of a truncation. The one that began it calls. Nothing is dirty, since the
/// gates are closed, so the new version can be taken at once.
__device__ __forceinline__ void tell_truncation(fs_ref const& fs, kept_out const& who,
                                                truncated_file const& now) {
  if (now.write_index != 0 && (now.write_index == who.own || now.write_index == who.other)) {
    adopt(fs, fs.writes.files[now.write_index - 1], now.version, now.size);
  } else {
    // Release as in adopt().
    file_changes(fs).fetch_add(1, memory_order_release);
  }
}

/// Lets writers in again.
__device__ __forceinline__ void end_truncation(fs_ref const& fs, kept_out const& who) {
  let_in(fs, who.own);
  let_in(fs, who.other);
}

}  // namespace gpufs::file
