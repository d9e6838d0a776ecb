// What all callers share about a file that is written: its size as of the last gwrite, and who is
// writing while it is truncated.
#pragma once

#include <gpufs/cache/geometry.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/io/file_record.hpp>
#include <gpufs/wait.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

/// One per place, in GPU memory. It speaks of file version `uid`; who finds another one than its
/// own asks the descriptor's record again.
struct shared_file {
  std::uint64_t uid;
  std::uint64_t size;     ///< bytes, with all that gwrite has posted
  std::uint32_t lock;     ///< held while uid and size are taken over from the record
  std::uint32_t writers;  ///< groups within gwrite
  std::uint32_t truncating;
  std::uint32_t reserved;
};
static_assert(sizeof(shared_file) == shared_file_bytes);

namespace detail {

/// Brings uid and size of a file that is written up to date. One thread calls. Returns 0 or -EBADF.
__device__ __forceinline__ std::int32_t load_shared(fs_ref const& fs, used_file& file) {
  for (;;) {
    shared_file& shared = fs.writes.files[file.place - 1];
    atomic_ref<std::uint64_t, scope::device> uid(shared.uid);
    atomic_ref<std::uint64_t, scope::device> size(shared.size);
    // Pairs with the release below: who sees the uid sees its size.
    if (uid.load(memory_order_acquire) == file.uid) {
      file.size = size.load(memory_order_relaxed);
      return 0;
    }
    atomic_ref<std::uint32_t, scope::device> lock(shared.lock);
    // The holder reads one record and never waits, so this wait is bounded. Pairs with the release
    // below.
    for (unsigned pause = 0; lock.exchange(1, memory_order_acquire) != 0;) backoff(pause);
    std::int32_t const error = load_record(fs, file.fd, file);
    bool const place_stayed =
        error == 0 && file.place != 0 && &fs.writes.files[file.place - 1] == &shared;
    if (place_stayed && uid.load(memory_order_relaxed) != file.uid) {
      size.store(file.size, memory_order_relaxed);
      uid.store(file.uid, memory_order_release);
    }
    lock.store(0, memory_order_release);
    if (error != 0 || file.place == 0) return error;
  }
}

/// The error of a write-back of the file that nobody has been told of by a gfsync or gclose:
/// -errno, or 0. One thread calls.
__device__ __forceinline__ std::int32_t earlier_write_error(fs_ref const& fs,
                                                            used_file const& file) {
  atomic_ref<std::uint64_t, scope::system> const failed(fs.shared.writes.errors[file.place - 1]);
  return -static_cast<std::int32_t>(failed.load(memory_order_relaxed));
}

/// Joins the writers of the file. One thread calls. False: it is being truncated, or is another
/// version now.
__device__ __forceinline__ bool join_writers(fs_ref const& fs, used_file const& file) {
  shared_file& shared = fs.writes.files[file.place - 1];
  atomic_ref<std::uint32_t, scope::device> writers(shared.writers);
  // Sequentially consistent, with begin_truncation(): of a writer that joins and a truncation that
  // begins, one sees the other.
  writers.fetch_add(1, memory_order_seq_cst);
  if (atomic_ref<std::uint32_t, scope::device>(shared.truncating).load(memory_order_seq_cst) == 0 &&
      atomic_ref<std::uint64_t, scope::device>(shared.uid).load(memory_order_acquire) == file.uid) {
    return true;
  }
  writers.fetch_sub(1, memory_order_release);
  return false;
}

/// Pairs with begin_truncation(): all that this writer posted is there.
__device__ __forceinline__ void leave_writers(fs_ref const& fs, used_file const& file) {
  atomic_ref<std::uint32_t, scope::device>(fs.writes.files[file.place - 1].writers)
      .fetch_sub(1, memory_order_release);
}

/// Keeps writers away from the file and waits until none is left. One thread calls. Returns 0, or
/// -ETIMEDOUT or -EIO, and then nobody is kept away.
__device__ __forceinline__ std::int32_t begin_truncation(fs_ref const& fs, used_file const& file) {
  shared_file& shared = fs.writes.files[file.place - 1];
  atomic_ref<std::uint32_t, scope::device> truncating(shared.truncating);
  if (int const error = spin_until(
          fs, device_pause_ns, [&] { return truncating.exchange(1, memory_order_seq_cst) == 0; }))
    return error;
  int const error = spin_until(fs, device_pause_ns, [&] {
    return atomic_ref<std::uint32_t, scope::device>(shared.writers).load(memory_order_seq_cst) == 0;
  });
  if (error != 0) truncating.store(0, memory_order_release);
  return error;
}

__device__ __forceinline__ void end_truncation(fs_ref const& fs, used_file const& file) {
  atomic_ref<std::uint32_t, scope::device>(fs.writes.files[file.place - 1].truncating)
      .store(0, memory_order_release);
}

}  // namespace detail

}  // namespace gpufs
