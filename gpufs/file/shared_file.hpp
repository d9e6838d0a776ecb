// State of a written file that all callers share: version, size, writers and truncation.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/file/file_record.hpp>
#include <gpufs/file/sizes.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/handle/deadline.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::file {

/// A written file's record in GPU memory, found by its write index. It is about file version
/// `version`. A caller with another version reads the descriptor's record again.
struct shared_file {
  std::uint64_t version;
  std::uint64_t size;     ///< bytes, with the ranges of all posted gwrites and started appends
  std::uint32_t lock;     ///< held while version and size are taken from the record
  std::uint32_t writers;  ///< groups in gwrite
  std::uint32_t truncating;
  std::uint32_t reserved;
};
static_assert(sizeof(shared_file) == shared_file_bytes);

/// Updates version and size of a written file. One thread calls. Returns 0 or -EBADF.
__device__ __forceinline__ std::int32_t load_shared(fs_ref const& fs, used_file& file) {
  for (;;) {
    shared_file& shared = fs.writes.files[file.write_index - 1];
    atomic_ref<std::uint64_t, scope::device> version(shared.version);
    atomic_ref<std::uint64_t, scope::device> size(shared.size);
    // Pairs with the release below: a thread that sees the version sees its size.
    if (version.load(memory_order_acquire) == file.version) {
      file.size = size.load(memory_order_relaxed);
      return 0;
    }
    atomic_ref<std::uint32_t, scope::device> lock(shared.lock);
    // Pairs with the release below. The holder reads one record and never waits, so this wait is
    // bounded.
    for (unsigned pause = 0; lock.exchange(1, memory_order_acquire) != 0;) backoff(pause);
    std::int32_t const error = load_record(fs, file.fd, file);
    bool const place_stayed =
        error == 0 && file.write_index != 0 && &fs.writes.files[file.write_index - 1] == &shared;
    if (place_stayed && version.load(memory_order_relaxed) != file.version) {
      // Release pairs with the acquire in load_record_together(): a thread that sees the number
      // finds the record of this version. No caller gets the version before the number grows.
      file_changes(fs).fetch_add(1, memory_order_release);
      size.store(file.size, memory_order_relaxed);
      version.store(file.version, memory_order_release);
    }
    lock.store(0, memory_order_release);
    if (error != 0 || file.write_index == 0) return error;
  }
}

/// Returns the error of a write-back that no gfsync or gclose has reported: -errno, or 0. One
/// thread calls.
__device__ __forceinline__ std::int32_t earlier_write_error(fs_ref const& fs,
                                                            used_file const& file) {
  atomic_ref<std::uint64_t, scope::system> const failed(
      fs.link.shared.writes.errors[file.write_index - 1]);
  return -static_cast<std::int32_t>(failed.load(memory_order_relaxed));
}

/// Joins the writers of the file. One thread calls. Returns false if the file is being truncated or
/// has another version.
__device__ __forceinline__ bool join_writers(fs_ref const& fs, used_file const& file) {
  shared_file& shared = fs.writes.files[file.write_index - 1];
  atomic_ref<std::uint32_t, scope::device> writers(shared.writers);
  // Sequentially consistent, as in begin_truncation(). If a writer joins while a truncation begins,
  // at least one of them sees the other.
  writers.fetch_add(1, memory_order_seq_cst);
  if (atomic_ref<std::uint32_t, scope::device>(shared.truncating).load(memory_order_seq_cst) == 0 &&
      atomic_ref<std::uint64_t, scope::device>(shared.version).load(memory_order_acquire) ==
          file.version) {
    return true;
  }
  writers.fetch_sub(1, memory_order_release);
  return false;
}

/// The outcome of a try to join a file's writers. A negative value is the error that prevents it.
enum class join_result : std::int32_t {
  joined = 0,
  look_again = 1,  ///< the file is being truncated or has another version
};
__device__ __forceinline__ join_result failed_join(std::int32_t error) {
  return static_cast<join_result>(error);
}
/// Returns the error of a failed try, or 0.
__device__ __forceinline__ std::int32_t join_error(join_result result) {
  return result < join_result::joined ? static_cast<std::int32_t>(result) : 0;
}

/// Joins the writers of the file, unless an earlier write-back has failed. One thread calls.
__device__ __forceinline__ join_result try_join(fs_ref const& fs, used_file const& file) {
  std::int32_t const failed = earlier_write_error(fs, file);
  if (failed != 0) return failed_join(failed);
  return join_writers(fs, file) ? join_result::joined : join_result::look_again;
}

/// Leaves the writers of the file. One thread calls. Pairs with the look at `writers` in
/// begin_truncation(): all posts of this writer are there.
__device__ __forceinline__ void leave_writers(fs_ref const& fs, used_file const& file) {
  atomic_ref<std::uint32_t, scope::device>(fs.writes.files[file.write_index - 1].writers)
      .fetch_sub(1, memory_order_release);
}

/// Stops new writers and waits until none is left. One thread calls. Returns 0, -ETIMEDOUT or -EIO.
/// After an error this call stops no writer.
__device__ __forceinline__ std::int32_t begin_truncation(fs_ref const& fs, used_file const& file) {
  shared_file& shared = fs.writes.files[file.write_index - 1];
  atomic_ref<std::uint32_t, scope::device> truncating(shared.truncating);
  if (int const error = handle::spin_until(fs, handle::device_pause_ns, [&] {
        return truncating.exchange(1, memory_order_seq_cst) == 0;
      }))
    return error;
  int const error = handle::spin_until(fs, handle::device_pause_ns, [&] {
    return atomic_ref<std::uint32_t, scope::device>(shared.writers).load(memory_order_seq_cst) == 0;
  });
  if (error != 0) truncating.store(0, memory_order_release);
  return error;
}

__device__ __forceinline__ void end_truncation(fs_ref const& fs, used_file const& file) {
  atomic_ref<std::uint32_t, scope::device>(fs.writes.files[file.write_index - 1].truncating)
      .store(0, memory_order_release);
}

}  // namespace gpufs::file
