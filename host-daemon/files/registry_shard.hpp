// One shard of the file registry: what it knows of a part of the files.
#pragma once

#include <host-daemon/backend/stored_file.hpp>
#include <host-daemon/files/content_versions.hpp>
#include <host-daemon/files/file_id.hpp>
#include <host-daemon/files/version_numbers.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace gpufs::daemon {

struct written_file;

/// Opens with the same key share a descriptor.
struct open_key {
  std::uint64_t device, inode;
  int access;
  friend bool operator==(open_key const&, open_key const&) = default;
};
struct open_key_hash {
  std::size_t operator()(open_key const& k) const noexcept {
    return std::size_t(file_id_hash::mix(k.device, k.inode ^ std::uint64_t(k.access) << 61));
  }
};

/// A file that is open for writing, or was and has dirty pages that could not be written.
struct writing_file {
  std::shared_ptr<written_file> file;
  std::uint64_t descriptors = 0;  ///< open for writing
  /// Opens in the versions that stay for the sake of pages that were dirty after the last close.
  std::uint64_t kept = 0;
  /// Pages of O_GWRONCE were dirty after the last close of such a descriptor. When they are
  /// written, the file gets another version.
  bool once_kept = false;
};

/// A descriptor of the registry. While it is free it belongs to the thread that takes or gives its
/// place, else to its shard. Entries of different shards lie side by side, so each has cache lines
/// of its own.
struct alignas(64) open_entry {
  /// open_word() of the open descriptor, or 0. Only a thread with the shard's lock changes it.
  std::atomic<std::uint32_t> open_as{0};
  std::uint32_t generation = 0;  ///< of its last descriptor
  std::uint64_t users = 0;       ///< open() less close()
  std::uint64_t closing = 0;     ///< of `users`: ends that write dirty pages first
  open_key file{};
  std::shared_ptr<stored_file const> host;
  std::shared_ptr<written_file> writes;  ///< null: not open for writing
  std::uint32_t once_write_index = 0;    ///< O_GWRONCE: a write index of its own
};

// The number of a shard and a generation, which is less than 2^15.
inline std::uint32_t open_word(std::uint32_t shard, std::uint32_t generation) noexcept {
  return shard << 16 | generation;
}
inline std::uint32_t shard_number(std::uint32_t open_word) noexcept { return open_word >> 16; }
inline std::uint32_t generation_of(std::uint32_t open_word) noexcept { return open_word & 0xffff; }

/// A truncation that device code asks for.
struct truncation {
  std::uint64_t size;  ///< bytes
  /// Whose writers wait beside those of the descriptor's own write index; 0: no others.
  std::uint32_t kept_out = 0;

  // Set by file_registry::truncate(): what descriptors without O_GWRONCE have now; all 0: nothing
  // new. If the result is rpc::other_gate_needed: the write index whose writers must wait, too.
  std::uint32_t write_index = 0;
  std::uint64_t version = 0, new_size = 0;
};

struct alignas(64) registry_shard {
  registry_shard(std::uint32_t n, version_numbers& numbers) : number{n}, versions{numbers} {}

  std::uint32_t const number;
  std::mutex mutex;  ///< guards all below, and the entries that are in `open`
  std::unordered_map<open_key, std::uint32_t, open_key_hash> open;  ///< descriptor indices
  content_versions versions;
  std::unordered_map<file_id, writing_file, file_id_hash> writing;
  /// Looks with a lower number may have come before bytes that this filesystem wrote or cut off,
  /// to a file that it does not write any more. Such a file is looked at again.
  std::uint64_t changed_at = 0;
  /// Files that are being truncated. Meanwhile they get no write index and give none back: opens
  /// and closes that would change it wait.
  std::unordered_set<file_id, file_id_hash> truncating;
  std::condition_variable truncated;

  void await_truncation(std::unique_lock<std::mutex>& lock, file_id const& file) {
    truncated.wait(lock, [&] { return !truncating.contains(file); });
  }
};

}  // namespace gpufs::daemon
