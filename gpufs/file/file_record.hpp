// Loads descriptors' records from pinned memory. Callers that come together share one load.
#pragma once

#include <gpufs/base/settled.hpp>
#include <gpufs/device.hpp>
#include <gpufs/file/sizes.hpp>
#include <gpufs/fs_ref.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::file {

using namespace base;

/// A group's knowledge of the descriptor that it used last. An open descriptor always names the
/// same file.
struct used_file {
  std::int32_t fd = -1;
  /// 1 + index of the file's shared_file; 0: the file is not written, and version and size stay
  std::uint32_t write_index = 0;
  std::uint64_t version = 0;
  std::uint64_t size = 0;
  std::uint32_t flags = 0;    ///< of its open
  std::uint32_t changes = 0;  ///< *fs_ref::file_changes before the record was loaded
};

__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> file_changes(fs_ref const& fs) {
  return atomic_ref<std::uint32_t, scope::device>(*fs.file_changes);
}

/// Whether a file that was not written may be written now, or have another version. Its record then
/// tells. Any thread calls.
/// A caller that comes after a gwrite sees it: load_shared() has raised the number before the
/// gwrite began. A caller that comes after a gopen sees what the daemon knew when it answered that.
/// Changes of files that are written are in their shared_file.
__device__ __forceinline__ bool is_outdated(fs_ref const& fs, used_file const& file) {
  return file.write_index == 0 && file_changes(fs).load(memory_order_relaxed) != file.changes;
}

/// Tells all contexts that files have got new versions, unless `count`, the daemon's count of such
/// changes at a gopen, is known here. One thread calls.
__device__ __forceinline__ void tell_changes(fs_ref const& fs, std::uint64_t count) {
  atomic_ref<std::uint64_t, scope::device> const told(*fs.told_changes);
  // Pairs with the release below: a thread that finds the count finds the number raised.
  if (told.load(memory_order_acquire) >= count) return;
  // Release as in adopt(): a thread that sees the number finds the records as the daemon's answer
  // left them, or newer.
  file_changes(fs).fetch_add(1, memory_order_release);
  told.fetch_max(count, memory_order_release);
}

/// The last load of the records that share this entry. There are a few, in GPU memory.
struct alignas(64) record_share {
  /// twice the number of the load that stored the fields; odd while they are stored
  std::uint64_t generation;
  std::uint64_t begun;  ///< loads that have begun
  std::uint64_t fd_and_write_index;
  std::uint64_t version;
  std::uint64_t size;
  std::uint64_t flags;
  std::uint32_t lock;  ///< held by the thread that loads
  std::uint32_t reserved[3];
};
static_assert(sizeof(record_share) == record_share_bytes);

/// Loads a descriptor's record from pinned memory. One thread calls. Returns 0 or -EBADF.
/// `renewed`, if given, gets the word of that name. It is as new as the version, or newer.
__device__ __forceinline__ std::int32_t load_record(fs_ref const& fs, std::int32_t fd,
                                                    used_file& out,
                                                    std::uint64_t* renewed = nullptr) {
  std::uint32_t const index = rpc::descriptor_index(fd);
  std::uint32_t const generation = rpc::descriptor_generation(fd);
  if (fd < 0 || generation == 0 || index >= fs.link.shared.max_open_files) return -EBADF;
  rpc::open_file_record& record = fs.link.shared.open_files[index];
  // The registry stores tag 0, the fields, then the generation as tag, each with a release. If the
  // tag is right before and after, the fields between belong to it. A generation comes back only
  // after the record was used 32767 times.
  auto const load = [](std::uint64_t& word) {
    return atomic_ref<std::uint64_t, scope::system>(word).load(memory_order_acquire);
  };
  if (load(record.tag) != generation) return -EBADF;
  std::uint64_t const version = load(record.version);
  std::uint64_t const size = load(record.size);
  std::uint64_t const flags = load(record.flags);
  std::uint64_t const write_index = load(record.write_index);
  if (renewed != nullptr) *renewed = load(record.renewed);
  if (load(record.tag) != generation) return -EBADF;
  out = {fd,   static_cast<std::uint32_t>(write_index), version,
         size, static_cast<std::uint32_t>(flags),       out.changes};
  return 0;
}

enum class shared_record : std::uint32_t {
  taken,
  not_yet,     ///< no load that began late enough has ended
  another_fd,  ///< it is another descriptor's
};

/// Takes the result of a load that began after `begun` loads had begun. One thread calls.
__device__ __forceinline__ shared_record take_shared_record(record_share& share,
                                                            std::uint64_t begun, std::int32_t fd,
                                                            used_file& out) {
  auto const word = [](std::uint64_t& w) { return atomic_ref<std::uint64_t, scope::device>(w); };
  // Pairs with the last store in share_record().
  std::uint64_t const generation = word(share.generation).load(memory_order_acquire);
  if (generation % 2 != 0 || generation / 2 <= begun) return shared_record::not_yet;
  std::uint64_t const name = word(share.fd_and_write_index).load(memory_order_relaxed);
  std::uint64_t const version = word(share.version).load(memory_order_relaxed);
  std::uint64_t const size = word(share.size).load(memory_order_relaxed);
  std::uint64_t const flags = word(share.flags).load(memory_order_relaxed);
  if (load_behind(share.generation, static_cast<std::uint32_t>(name | version | size | flags)) !=
      generation)
    return shared_record::not_yet;
  if (static_cast<std::int32_t>(static_cast<std::uint32_t>(name)) != fd)
    return shared_record::another_fd;
  out = {fd,   static_cast<std::uint32_t>(name >> 32), version,
         size, static_cast<std::uint32_t>(flags),      out.changes};
  return shared_record::taken;
}

/// Stores the result of load `number` for other callers. The holder of the lock calls.
__device__ __forceinline__ void share_record(record_share& share, std::uint64_t number,
                                             used_file const& file) {
  auto const word = [](std::uint64_t& w) { return atomic_ref<std::uint64_t, scope::device>(w); };
  // Pairs with load_behind() of readers that do not see this value. The fields' stores come after
  // their loads.
  await_loads(static_cast<std::uint32_t>(
      word(share.generation).exchange(2 * number - 1, memory_order_acquire)));
  word(share.fd_and_write_index)
      .store(static_cast<std::uint32_t>(file.fd) | std::uint64_t(file.write_index) << 32,
             memory_order_relaxed);
  word(share.version).store(file.version, memory_order_relaxed);
  word(share.size).store(file.size, memory_order_relaxed);
  word(share.flags).store(file.flags, memory_order_relaxed);
  settle(share.fd_and_write_index, share.version, share.size, share.flags);
  word(share.generation).store(2 * number, after_settling);
}

/// load_record() for callers that may need the same record at once, as all blocks of a kernel do at
/// its start. The GPU's loads of one line of host memory are answered one after the other. The six
/// loads of each of a thousand blocks would take 7 ms. One load serves all callers that were there
/// before it began. One thread calls. Returns 0 or -EBADF; sets out.changes in either case.
__device__ __forceinline__ std::int32_t load_record_together(fs_ref const& fs, std::int32_t fd,
                                                             used_file& out) {
  record_share& share = fs.records[rpc::descriptor_index(fd) % record_shares];
  atomic_ref<std::uint64_t, scope::device> loads(share.begun);
  atomic_ref<std::uint32_t, scope::device> lock(share.lock);
  // Pairs with the releases in adopt() and tell_changes(): the record is at least as new as the
  // number.
  out.changes = file_changes(fs).load(memory_order_acquire);
  std::uint64_t const begun = loads.load(memory_order_relaxed);
  // The holder of the lock makes a few loads and never waits, so this wait is bounded.
  for (unsigned pause = 0;; backoff(pause)) {
    shared_record const shared = take_shared_record(share, begun, fd, out);
    if (shared == shared_record::taken) return 0;
    if (shared == shared_record::another_fd) return load_record(fs, fd, out);
    // Pairs with the store below: versions grow.
    if (lock.exchange(1, memory_order_acquire) != 0) continue;
    std::uint64_t const number = loads.fetch_add(1, memory_order_relaxed) + 1;
    await_loads(static_cast<std::uint32_t>(number));  // count a load as begun before it begins
    std::int32_t const error = load_record(fs, fd, out);
    if (error == 0) share_record(share, number, out);
    lock.store(0, after_settling);
    return error;
  }
}

}  // namespace gpufs::file
