// State of a written file that all callers share: version, size, writers, and the gate that keeps
// them out.
#pragma once

#include <gpufs/base/settled.hpp>
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
///
/// All dirty pages of the file have this version, but those of O_GWRONCE. So a page has one write
/// buffer, and write-back needs no order among versions.
struct shared_file {
  std::uint64_t version;
  std::uint64_t size;     ///< bytes, with the ranges of all posted gwrites and started appends
  std::uint32_t writers;  ///< groups in gwrite
  /// 1: a caller truncates the file or takes a newer version, and no group may join the writers
  std::uint32_t gate;
  std::uint64_t untaken;  ///< not 0: a newer version could not be taken (take_version.hpp)
};
static_assert(sizeof(shared_file) == shared_file_bytes);

__device__ __forceinline__ shared_file& shared_of(fs_ref const& fs, used_file const& file) {
  return fs.writes.files[file.write_index - 1];
}

/// Whether the gate was open; it is closed now. One thread calls. Sequentially consistent, as in
/// join_writers(). If a writer joins while the gate closes, at least one of them sees the other.
__device__ __forceinline__ bool try_close_gate(shared_file& shared) {
  return atomic_ref<std::uint32_t, scope::device>(shared.gate).exchange(1, memory_order_seq_cst) ==
         0;
}
/// The one that closed it calls. Pairs with the acquire of the next one that closes it.
__device__ __forceinline__ void open_gate(shared_file& shared) {
  atomic_ref<std::uint32_t, scope::device>(shared.gate).store(0, memory_order_release);
}

/// Waits until the gate is open. One thread calls. Returns 0, -ETIMEDOUT or -EIO.
__device__ __forceinline__ std::int32_t await_gate(fs_ref const& fs, shared_file& shared) {
  return handle::spin_until(fs, handle::device_pause_ns, [&] {
    return atomic_ref<std::uint32_t, scope::device>(shared.gate).load(memory_order_relaxed) == 0;
  });
}

/// Waits until no group is in gwrite. One thread calls; it has closed the gate. Returns 0,
/// -ETIMEDOUT or -EIO. Pairs with leave_writers(): all posts of these groups are there.
__device__ __forceinline__ std::int32_t await_writers(fs_ref const& fs, shared_file& shared) {
  return handle::spin_until(fs, handle::device_pause_ns, [&] {
    return atomic_ref<std::uint32_t, scope::device>(shared.writers).load(memory_order_seq_cst) == 0;
  });
}

__device__ __forceinline__ atomic_ref<std::uint64_t, scope::device> untaken_of(
    shared_file& shared) {
  return atomic_ref<std::uint64_t, scope::device>(shared.untaken);
}

/// Sets version and size of the shared record. The one that closed the gate calls. What has been
/// noted of a version that could not be taken is dropped behind the version, with release: see
/// load_size(). A note that somebody makes meanwhile stays.
__device__ __forceinline__ void adopt(fs_ref const& fs, shared_file& shared, std::uint64_t version,
                                      std::uint64_t size) {
  // Release pairs with the acquire in load_record_together(): a thread that sees the number finds
  // the record of this version. No caller gets the version before the number grows.
  file_changes(fs).fetch_add(1, memory_order_release);
  std::uint64_t noted = untaken_of(shared).load(memory_order_relaxed);
  atomic_ref<std::uint64_t, scope::device> const current(shared.version);
  // No file has version 0. Pairs with load_size(): a reader that does not see it has loaded its
  // size before.
  await_loads(static_cast<std::uint32_t>(current.exchange(0, memory_order_acquire)));
  atomic_ref<std::uint64_t, scope::device>(shared.size).store(size, memory_order_relaxed);
  current.store(version, memory_order_release);
  untaken_of(shared).compare_exchange_strong(noted, 0, memory_order_release, memory_order_relaxed);
}

/// Loads the size that version `version` of the file has. Any thread calls; it has acquired the
/// version, or has a size of it. Returns false if the file has another version by now. `noted`: of
/// shared_file::untaken, which the caller has loaded before. So the look at the version is behind
/// both loads: a caller that finds the note dropped finds the version that was taken.
__device__ __forceinline__ bool load_size(shared_file& shared, std::uint64_t version,
                                          std::uint64_t& size, std::uint64_t noted = 0) {
  std::uint64_t const now =
      atomic_ref<std::uint64_t, scope::device>(shared.size).load(memory_order_relaxed);
  if (load_behind(shared.version, static_cast<std::uint32_t>(now ^ noted)) != version) return false;
  // Appends that failed at the same time may have gone beyond what offsets can say.
  size = least(now, rpc::payload_mask + 1);
  return true;
}

/// Returns the error of a write-back that no gfsync or gclose has reported: -errno, or 0. One
/// thread calls.
__device__ __forceinline__ std::int32_t earlier_write_error(fs_ref const& fs,
                                                            used_file const& file) {
  atomic_ref<std::uint64_t, scope::system> const failed(
      fs.link.shared.writes.errors[file.write_index - 1]);
  return -static_cast<std::int32_t>(failed.load(memory_order_relaxed));
}

/// Joins the writers of the file. One thread calls. Returns false if the gate is closed or the file
/// has another version.
__device__ __forceinline__ bool join_writers(fs_ref const& fs, used_file const& file) {
  shared_file& shared = shared_of(fs, file);
  atomic_ref<std::uint32_t, scope::device> writers(shared.writers);
  // Else the callers that find it closed again and again would keep the count above 0.
  if (atomic_ref<std::uint32_t, scope::device>(shared.gate).load(memory_order_relaxed) != 0)
    return false;
  // Sequentially consistent, as in try_close_gate() and await_writers().
  writers.fetch_add(1, memory_order_seq_cst);
  if (atomic_ref<std::uint32_t, scope::device>(shared.gate).load(memory_order_seq_cst) == 0 &&
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
  look_again = 1,  ///< the gate is closed or the file has another version
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

/// Leaves the writers of the file. One thread calls. Pairs with await_writers(): all posts of this
/// writer are there.
__device__ __forceinline__ void leave_writers(fs_ref const& fs, used_file const& file) {
  atomic_ref<std::uint32_t, scope::device>(shared_of(fs, file).writers)
      .fetch_sub(1, memory_order_release);
}

}  // namespace gpufs::file
