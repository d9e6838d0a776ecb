// Open files of one filesystem: descriptors that all opens of a file share, and the records that
// devices read.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/rpc/wire_format.hpp>

#include <host-daemon/backend/storage_backend.hpp>
#include <host-daemon/base/request_recorder.hpp>
#include <host-daemon/files/close_log.hpp>
#include <host-daemon/files/content_versions.hpp>
#include <host-daemon/files/free_places.hpp>
#include <host-daemon/files/record_tables.hpp>
#include <host-daemon/files/registry_shard.hpp>
#include <host-daemon/files/version_numbers.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

namespace gpufs::daemon {

class write_back;
struct write_back_part;

struct registry_settings {
  /// The number of closed files whose version is remembered. Their pages stay warm.
  std::size_t remembered_files = 65536;
  /// The storage that files come from. Empty: the host's file systems.
  std::shared_ptr<storage_backend> storage{};
  /// Where opens and syncs are recorded, null: nowhere. It must outlive the registry.
  request_recorder* requests = nullptr;
  /// How to stat an open file. Empty: as the storage does. Returns 0, or -1 and errno.
  std::function<int(int fd, struct ::stat&)> stat{};
  /// The wall clock, nanoseconds since the epoch. Empty: CLOCK_REALTIME.
  std::function<std::int64_t()> now_ns{};
};

/// Asked once, just before bytes of a file are destroyed, or its error is taken to be told. False:
/// the caller has given up. Then the bytes, or the error, stay, and the call returns -ETIMEDOUT.
/// Empty: the caller waits.
using may_begin = std::function<bool()>;

/// All public functions are thread-safe. Only the constructor throws.
///
/// Locks. Files are spread over shards by (device, inode), so all that concerns one file is in one
/// shard. A shard's lock guards its members, the entries of its open descriptors, and their
/// records. Threads that use different files rarely meet at a lock. open(), borrow() and close()
/// take one each.
/// - Order: names_, truncated_, a shard, then locks inside write_back or version_numbers, which
///   call nothing here. No thread holds the locks of two shards.
/// - Functions about all files visit the shards one after the other. What they say of a file holds
///   for the moment of the visit.
/// - Files are opened, looked at, truncated and closed outside the shards' locks. So a file system
///   that hangs stops no other file. If two opens of a file race, the numbers of validations tell
///   which look is newer. Only write_back::attach() may reach the system under a lock.
/// - No lock: the free places, the log of closes, and is_open().
class file_registry {
 public:
  /// Stores what device code knows of open files in `records`.
  /// `writes`, which must outlive it, writes dirty pages. Null, or regions without write buffers:
  /// files cannot be opened for writing.
  /// Raises the soft limit of open files (RLIMIT_NOFILE) as needed and allowed; notes() says so.
  explicit file_registry(record_tables records, registry_settings settings = {},
                         write_back* writes = nullptr);

  /// Closes all files that are still open.
  ~file_registry();
  file_registry(file_registry const&) = delete;
  file_registry& operator=(file_registry const&) = delete;

  /// Opens a regular file as gopen does; include/gpufs/io.hpp describes `flags` and `mode`.
  /// O_NOFOLLOW, O_CLOEXEC, O_NONBLOCK, O_NOCTTY, O_LARGEFILE are allowed, too.
  /// Opens of one file (device, inode) share a descriptor if they have the same access, O_APPEND
  /// and O_GWRONCE. It lives until it has been closed as often as it was opened.
  /// If the file has changed since its last open, its records get a new version.
  /// Returns the descriptor (> 0), or
  ///   -EROFS writing, with no write buffers | -ENAMETOOLONG
  ///   -EINVAL other flags, O_TRUNC without access for writing, a NUL byte in the path
  ///   -EISDIR | -EOPNOTSUPP neither file nor directory | -EFBIG more than 2^48 bytes
  ///   -ENFILE max_open_files are open | -ENOMEM | as open(2), fstat(2), ftruncate(2)
  /// O_TRUNC drops the dirty pages of a file that nobody has open, and asks `begin` before. While a
  /// file is cut, by O_TRUNC or truncate(), opens wait that do not share a written descriptor.
  /// While another process has a lease of the file, open() waits, and returns -ETIMEDOUT if
  /// write-back ends meanwhile; or it asks the holder to let go, and returns 0: call it again.
  enum class leased { waits, returns };
  [[nodiscard]] std::int32_t open(std::string_view path, int flags, unsigned mode = 0,
                                  may_begin const& begin = {},
                                  leased what = leased::waits) noexcept;

  /// Never waits. Returns as open(), or 0: open() must be called, it would wait or truncate.
  [[nodiscard]] std::int32_t try_open(std::string_view path, int flags, unsigned mode = 0) noexcept;

  /// Ends one open. A close of a descriptor for writing that may be its last writes the file's
  /// dirty pages first, and blocks meanwhile. Reads under way end as they would have.
  /// Returns 0, -EBADF, or the error of the write-back (the descriptor is closed anyway).
  std::int32_t close(std::int32_t descriptor) noexcept;

  /// close() in two parts, for callers that must not block. begin_close() returns as close(), or 1:
  /// then finish_close() must be called, and it blocks. It closes also if the caller has given up.
  std::int32_t begin_close(std::int32_t descriptor) noexcept;
  std::int32_t finish_close(std::int32_t descriptor, may_begin const& begin = {}) noexcept;

  /// Writes the file's dirty pages and makes the file durable. Blocks. Returns 0, -EBADF, or the
  /// file's first unreported error.
  std::int32_t sync(std::int32_t descriptor, may_begin const& begin = {}) noexcept;

  /// Writes the file's dirty pages, but not those of O_GWRONCE, and stores the host file's size in
  /// its records. Blocks. Returns 0, -EBADF, as fstat(2), or the file's first unreported error,
  /// which stays unreported.
  std::int32_t flush(std::int32_t descriptor) noexcept;

  /// Writes all dirty pages, but drops those of files that have neither a name nor a descriptor.
  /// Blocks. Returns 0, or -EIO or -ETIMEDOUT if some bytes stay dirty.
  int flush_all() noexcept;

  /// Writes dirty pages, sets the size, and gives the file a new version. Blocks. Returns 0,
  /// -EBADF, -EINVAL (not open for writing), rpc::other_gate_needed, -ENOMEM, as ftruncate(2), or
  /// the write-back's error. With an error nothing is truncated, and dirty pages stay dirty.
  std::int32_t truncate(std::int32_t descriptor, truncation& what,
                        may_begin const& begin = {}) noexcept;

  /// Writes dirty pages, then has `writer` write to the host file, and gives the file a new version
  /// if it returns true. Blocks. Returns 0, -EBADF (not open for writing), or the error of the
  /// dirty pages; then `writer` was not called. `writer` throws nothing.
  std::int32_t write(std::int32_t descriptor,
                     std::function<bool(stored_file const&)> const& writer) noexcept;

  /// Drops the file's dirty pages and its error, and gives it a new version. Returns 0, -EBADF,
  /// -EINVAL (not open for writing), or -ETIMEDOUT (a page stayed in use, and dirty).
  std::int32_t discard(std::int32_t descriptor) noexcept;

  /// Removes a name, as unlink(2). Open descriptors keep the file. Returns 0, -EINVAL (NUL byte in
  /// the path), -ENAMETOOLONG, or as unlink(2).
  std::int32_t unlink(std::string_view path) noexcept;

  /// Stores the file's status as it is now, with the bytes that gwrite has added. Waits for gwrites
  /// under way. Returns 0, -EBADF, or as fstat(2).
  [[nodiscard]] std::int32_t stat(std::int32_t descriptor, rpc::file_status& out) const noexcept;

  /// stat() for the device, which knows by itself how long gwrite has made a file, but for
  /// O_GWRONCE. Waits for no gwrite. Returns as stat(), or 1: then stat() must be called.
  [[nodiscard]] std::int32_t try_stat(std::int32_t descriptor,
                                      rpc::file_status& out) const noexcept;

  /// Passes advice on to the operating system.
  /// normal, random, sequential  For the whole file. The descriptor's record notes it until the
  /// descriptor is closed for good.
  /// willneed, dontneed  For the range. Length 0: to the end.
  /// Returns 0, -EBADF, -EINVAL (other advice, `offset`, `length` < 0), or as posix_fadvise(2).
  std::int32_t advise(std::int32_t descriptor, std::int64_t offset, std::int64_t length,
                      advice what) noexcept;

  /// Returns the path of an open file with this version, for messages. The operating system tells
  /// it as it is now. Empty: no such file is open.
  [[nodiscard]] std::string name_of(std::uint64_t version) const noexcept;

  /// Returns the most descriptors that can be open.
  [[nodiscard]] std::size_t capacity() const noexcept { return records_.size(); }

  /// Returns the number of open descriptors at one moment of the call. A shared one counts once.
  /// One that is being opened or closed by then may count.
  [[nodiscard]] std::size_t open_count() const noexcept {
    return capacity() - std::size_t(free_.size());
  }

  /// Returns how many opens of a file (device, inode) have not been closed, at one moment of the
  /// call. Pages that stay dirty count as an open of their file.
  [[nodiscard]] std::uint64_t opens(std::uint64_t device, std::uint64_t inode) noexcept;

  /// The adjustments that were made, and their reasons: one sentence each.
  [[nodiscard]] std::vector<std::string> const& notes() const noexcept { return notes_; }

  // The functions below are for daemon threads. They keep borrowed files between requests, and give
  // them back when the log of closes says so.

  /// Returns the file behind `descriptor`, which stays open while it is borrowed. Null: the
  /// descriptor is not open.
  [[nodiscard]] std::shared_ptr<stored_file const> borrow(std::int32_t descriptor) const noexcept;

  /// Returns the access of `descriptor`, with O_APPEND and O_GWRONCE, or -EBADF.
  [[nodiscard]] std::int32_t access_of(std::int32_t descriptor) const noexcept;

  /// Returns whether `descriptor` is open. Costs one load. It may miss a close under way.
  [[nodiscard]] bool is_open(std::int32_t descriptor) const noexcept;

  /// Returns how many descriptors were taken back. A thread that sees the count finds them closed.
  [[nodiscard]] std::uint64_t closes() const noexcept { return closes_.count(); }

  /// Returns the descriptor that close number `n` (from 0) took back, close_log::not_yet, or
  /// close_log::lost.
  [[nodiscard]] std::int32_t closed_descriptor(std::uint64_t n) const noexcept {
    return closes_.descriptor(n);
  }

 private:
  using key = open_key;
  using shard = registry_shard;
  // An open descriptor, and the lock of its shard. Empty: the descriptor is not open.
  struct held_entry {
    std::unique_lock<std::mutex> lock{};
    shard* home = nullptr;
    open_entry* of = nullptr;
    explicit operator bool() const noexcept { return of != nullptr; }
    open_entry* operator->() const noexcept { return of; }
  };

  struct opener;
  [[nodiscard]] opened_file open_recorded(std::string const& path, int flags, unsigned mode,
                                          opener const& who);
  struct file_look {  // what fstat said, and the number of that look
    struct ::stat status;
    std::int64_t now_ns;
    std::uint64_t order;
  };

  std::int32_t open_as(std::string_view path, int flags, unsigned mode, opener const& who) noexcept;
  std::int32_t open_checked(std::string const& path, int flags, unsigned mode, opener const& who);
  std::int32_t open_truncating(std::string const& path, int flags, unsigned mode,
                               opener const& who);
  bool is_in_use(struct ::stat const& status, std::shared_ptr<written_file>& kept,
                 bool truncates = false);
  std::optional<std::int32_t> write_kept(struct ::stat const& status, int kind,
                                         bool waits) noexcept;
  int truncate_opened(stored_file const& host, may_begin const& begin, struct ::stat const& status,
                      bool has_place, std::unique_lock<std::mutex>& one_at_a_time);
  std::int32_t begin_truncating(key const& k, truncation& what);
  void end_truncating(std::uint64_t device, std::uint64_t inode) noexcept;
  std::optional<std::int32_t> share_or_insert(std::shared_ptr<stored_file const> const& host,
                                              std::string const& path, int access, bool waits,
                                              file_look const& seen, reserved_place& place);
  std::int32_t insert(shard& home, key const& k, std::uint32_t index,
                      std::shared_ptr<stored_file const> const& host, std::string const& path,
                      content_versions::validation const& opened);
  void forget_write_indices(shard& home, key const& k, written_file& file, bool shares) noexcept;
  std::shared_ptr<written_file> start_writing(shard& home, key const& k,
                                              std::shared_ptr<stored_file const> const& host,
                                              std::string const& path,
                                              content_versions::validation const& opened,
                                              std::uint32_t once_write_index);
  void undo_writing(shard& home, key const& k, bool once) noexcept;
  void end_writing(shard& home, key const& k, std::shared_ptr<written_file> const& file, bool clean,
                   bool shares, bool told) noexcept;
  void release_kept() noexcept;
  void drop_if_nameless(std::shared_ptr<written_file> const& file) noexcept;
  void drop_nameless() noexcept;
  [[nodiscard]] std::shared_ptr<written_file> release_kept_of(shard& home) noexcept;
  bool update_records(shard& home, key const& k,
                      content_versions::validation const& opened) noexcept;
  [[nodiscard]] int flush_or_error(written_file const& file, write_back_part const& part) noexcept;
  [[nodiscard]] std::int32_t status_from(std::int32_t descriptor, std::uint64_t dirty_end,
                                         rpc::file_status& out) const noexcept;
  [[nodiscard]] int status_of(stored_file const& file, struct ::stat& out) const noexcept;
  enum class look { renews, resizes };
  int look_at(key const& k, stored_file const& file, look what,
              std::optional<std::uint64_t> known = {}, truncation* told = nullptr) noexcept;
  [[nodiscard]] std::shared_ptr<written_file> written(std::int32_t descriptor, key* which,
                                                      bool for_writing) const noexcept;
  void remove(held_entry const& held, std::int32_t descriptor) noexcept;
  [[nodiscard]] held_entry find(std::int32_t descriptor) const noexcept;
  [[nodiscard]] shard& shard_of(std::uint64_t device, std::uint64_t inode) const noexcept {
    return shards_[file_id_hash::mix(device, inode) >> 58 & (shards_.size() - 1)];
  }
  void raise_file_limit();
  void publish(shard const& home, std::uint32_t index, content_versions::validation const& opened,
               int access) noexcept;

  static constexpr std::size_t most_shards = 64;
  record_tables records_;  // each record is written under the lock of its descriptor's shard
  registry_settings settings_;
  write_back* writes_;
  std::vector<std::string> notes_;
  // Locked during opens with O_EXCL, by their names, and with O_TRUNC, by their files: these look
  // first whether the file is open here. Many, so that a file system that hangs stops few others.
  std::array<std::mutex, 64> names_, truncated_;
  std::unique_ptr<open_entry[]> entries_;
  version_numbers numbers_;
  mutable std::deque<shard> shards_;  // 1 or most_shards of them
  // Bit n: shard n may have a file that is kept. Written under the shard's lock.
  std::atomic<std::uint64_t> kept_{0};
  // First in, first out: so a generation recurs as late as possible.
  free_places free_;
  close_log closes_;
  alignas(64) std::atomic<std::uint64_t> validations_{0};  // numbers looks at files
  [[nodiscard]] std::uint64_t next_look() noexcept {
    return validations_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
};

}  // namespace gpufs::daemon
