// Descriptors' records in pinned memory, and how many callers that want one at once load it once.
#pragma once

#include <gpufs/cache/settled.hpp>
#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs {

/// What a group knows of the descriptor it used last. Descriptors never change what they refer to
/// while they are open.
struct used_file {
  std::int32_t fd = -1;
  std::uint32_t place = 0;  ///< 1 + index of the file's shared_file; 0: the file is not written,
                            ///< and uid and size stay
  std::uint64_t uid = 0;
  std::uint64_t size = 0;
  std::uint64_t flags = 0;  ///< of its open
};

/// One of a few in GPU memory: what was loaded last of the records that share it.
struct alignas(64) record_share {
  std::uint64_t
      version;  ///< twice the number of the load that the fields are of; odd while they are stored
  std::uint64_t begun;  ///< how many loads have begun
  std::uint64_t fd_and_place;
  std::uint64_t uid;
  std::uint64_t size;
  std::uint64_t flags;
  std::uint32_t lock;  ///< of who loads
  std::uint32_t reserved[3];
};
static_assert(sizeof(record_share) == record_share_bytes);

namespace detail {

/// Reads a descriptor's record out of pinned memory. One thread calls. Returns 0 or -EBADF.
__device__ __forceinline__ std::int32_t load_record(fs_ref const& fs, std::int32_t fd,
                                                    used_file& out) {
  std::uint32_t const index = rpc::descriptor_index(fd);
  std::uint32_t const generation = rpc::descriptor_generation(fd);
  if (fd < 0 || generation == 0 || index >= fs.shared.max_open_files) return -EBADF;
  rpc::open_file_record& record = fs.shared.open_files[index];
  // The registry stores tag = 0, fields, tag = generation, each a release of the one before: if the
  // tag is right before and after, the fields between belong to it (generations recur only after
  // 32767 reuses of the slot).
  auto const load = [](std::uint64_t& word) {
    return atomic_ref<std::uint64_t, scope::system>(word).load(memory_order_acquire);
  };
  if (load(record.tag) != generation) return -EBADF;
  std::uint64_t const uid = load(record.uid);
  std::uint64_t const size = load(record.size);
  std::uint64_t const flags = load(record.flags);
  std::uint64_t const place = load(record.place);
  if (load(record.tag) != generation) return -EBADF;
  out = {fd, static_cast<std::uint32_t>(place), uid, size, flags};
  return 0;
}

/// What others have loaded since `begun` loads had begun: 0, -EAGAIN (nothing yet), or -EXDEV
/// (another descriptor's). One thread calls.
__device__ __forceinline__ std::int32_t take_shared_record(record_share& share, std::uint64_t begun,
                                                           std::int32_t fd, used_file& out) {
  auto const word = [](std::uint64_t& w) { return atomic_ref<std::uint64_t, scope::device>(w); };
  // Acquire pairs with the last store in share_record().
  std::uint64_t const version = word(share.version).load(memory_order_acquire);
  if (version % 2 != 0 || version / 2 <= begun) return -EAGAIN;
  std::uint64_t const name = word(share.fd_and_place).load(memory_order_relaxed);
  std::uint64_t const uid = word(share.uid).load(memory_order_relaxed);
  std::uint64_t const size = word(share.size).load(memory_order_relaxed);
  std::uint64_t const flags = word(share.flags).load(memory_order_relaxed);
  if (load_behind(share.version, static_cast<std::uint32_t>(name | uid | size | flags)) != version)
    return -EAGAIN;
  if (static_cast<std::int32_t>(static_cast<std::uint32_t>(name)) != fd) return -EXDEV;
  out = {fd, static_cast<std::uint32_t>(name >> 32), uid, size, flags};
  return 0;
}

/// Stores load number `number`. The holder of the lock calls.
__device__ __forceinline__ void share_record(record_share& share, std::uint64_t number,
                                             used_file const& file) {
  auto const word = [](std::uint64_t& w) { return atomic_ref<std::uint64_t, scope::device>(w); };
  // Acquire pairs with load_behind() of readers who do not see it: the fields' stores come after
  // their loads.
  await_loads(static_cast<std::uint32_t>(
      word(share.version).exchange(2 * number - 1, memory_order_acquire)));
  word(share.fd_and_place)
      .store(static_cast<std::uint32_t>(file.fd) | std::uint64_t(file.place) << 32,
             memory_order_relaxed);
  word(share.uid).store(file.uid, memory_order_relaxed);
  word(share.size).store(file.size, memory_order_relaxed);
  word(share.flags).store(file.flags, memory_order_relaxed);
  settle(share.fd_and_place, share.uid, share.size, share.flags);
  word(share.version).store(2 * number, after_settling);
}

/// load_record() for one of many callers that may want the same record at once, as all blocks of a
/// kernel do at its beginning: the GPU's loads of one line of host memory are answered one after
/// the other, so that the six loads of a thousand blocks would take 7 ms. A load serves all who
/// were there before it began. One thread calls. Returns 0 or -EBADF.
__device__ __forceinline__ std::int32_t load_record_together(fs_ref const& fs, std::int32_t fd,
                                                             used_file& out) {
  record_share& share = fs.records[rpc::descriptor_index(fd) % record_shares];
  atomic_ref<std::uint64_t, scope::device> loads(share.begun);
  atomic_ref<std::uint32_t, scope::device> lock(share.lock);
  std::uint64_t const begun = loads.load(memory_order_relaxed);
  // The holder of the lock makes a few loads and never waits, so that this wait is bounded.
  for (unsigned pause = 0;; backoff(pause)) {
    std::int32_t const taken = take_shared_record(share, begun, fd, out);
    if (taken == 0) return 0;
    if (taken == -EXDEV) return load_record(fs, fd, out);
    // Acquire pairs with the release below: versions grow.
    if (lock.exchange(1, memory_order_acquire) != 0) continue;
    std::uint64_t const number = loads.fetch_add(1, memory_order_relaxed) + 1;
    await_loads(static_cast<std::uint32_t>(number));  // a load counts as begun before it begins
    std::int32_t const error = load_record(fs, fd, out);
    if (error == 0) share_record(share, number, out);
    lock.store(0, after_settling);
    return error;
  }
}

}  // namespace detail

}  // namespace gpufs
