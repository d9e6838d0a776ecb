// Open files of one filesystem: descriptors that all opens of a file share, and the records that
// devices read.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/rpc/wire_format.hpp>

#include <host-daemon/backend/storage_backend.hpp>
#include <host-daemon/files/content_versions.hpp>
#include <host-daemon/files/record_tables.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct stat;

namespace gpufs::daemon {

class write_back;
struct write_back_part;
struct written_file;

struct registry_settings {
  /// The number of closed files whose version is remembered. Their pages stay warm.
  std::size_t remembered_files = 65536;
  /// The storage that files come from. Empty: the host's file systems.
  std::shared_ptr<storage_backend> storage{};
  /// How to stat an open file. Empty: as the storage does. Returns 0, or -1 and errno.
  std::function<int(int fd, struct ::stat&)> stat{};
  /// The wall clock, nanoseconds since the epoch. Empty: CLOCK_REALTIME.
  std::function<std::int64_t()> now_ns{};
};

/// Asked once, just before bytes of a file are destroyed. False: they must not be, and the call
/// returns -ETIMEDOUT. Empty: they may be.
using may_begin = std::function<bool()>;

/// All public functions are thread-safe. Only the constructor throws. System calls are made outside
/// the lock.
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
  /// O_TRUNC drops the dirty pages of a file that nobody has open, and asks `begin` before.
  [[nodiscard]] std::int32_t open(std::string_view path, int flags, unsigned mode = 0,
                                  may_begin const& begin = {}) noexcept;

  /// Ends one open. The last close of a descriptor for writing writes the file's dirty pages first,
  /// and blocks meanwhile. Reads under way end as they would have.
  /// Returns 0, -EBADF, or the error of the write-back (the descriptor is closed anyway).
  std::int32_t close(std::int32_t descriptor) noexcept;

  /// close() in two parts, for callers that must not block. begin_close() returns as close(), or 1:
  /// then finish_close() must be called, and it blocks.
  std::int32_t begin_close(std::int32_t descriptor) noexcept;
  std::int32_t finish_close(std::int32_t descriptor) noexcept;

  /// Writes the file's dirty pages and makes the file durable. Blocks. Returns 0, -EBADF, or the
  /// file's first unreported error.
  std::int32_t sync(std::int32_t descriptor) noexcept;

  /// Writes the file's dirty pages, but not those of O_GWRONCE, and stores the host file's size in
  /// its records. Blocks. Returns 0, -EBADF, as fstat(2), or the file's first unreported error,
  /// which stays unreported.
  std::int32_t flush(std::int32_t descriptor) noexcept;

  /// Writes the dirty pages of all files. Blocks. Returns 0, or -EIO or -ETIMEDOUT if some bytes
  /// stay dirty.
  int flush_all() noexcept;

  /// Writes dirty pages, sets the size, and gives the file a new version. Blocks. Returns 0,
  /// -EBADF, -EINVAL (not open for writing), as ftruncate(2), or the error of the write-back. With
  /// an error nothing is truncated, and dirty pages stay dirty.
  std::int32_t truncate(std::int32_t descriptor, std::uint64_t size,
                        may_begin const& begin = {}) noexcept;

  /// Writes dirty pages, then has `writer` write to the host file, and gives the file a new version
  /// if it returns true. Blocks. Returns 0, -EBADF (not open for writing), or the error of the
  /// dirty pages; then `writer` was not called. `writer` throws nothing.
  std::int32_t write(std::int32_t descriptor,
                     std::function<bool(stored_file const&)> const& writer) noexcept;

  /// Drops the file's dirty pages and its error, and gives it a new version. Returns 0, -EBADF, or
  /// -EINVAL (not open for writing).
  std::int32_t discard(std::int32_t descriptor) noexcept;

  /// Removes a name, as unlink(2). Open descriptors keep the file. Returns 0, -EINVAL (NUL byte in
  /// the path), -ENAMETOOLONG, or as unlink(2).
  std::int32_t unlink(std::string_view path) noexcept;

  /// Stores the file's status as it is now, with the bytes that gwrite has added. Returns 0,
  /// -EBADF, or as fstat(2).
  [[nodiscard]] std::int32_t stat(std::int32_t descriptor, rpc::file_status& out) const noexcept;

  /// Passes advice on to the operating system.
  /// normal, random, sequential  For the whole file. The descriptor's record notes it until the
  /// descriptor is closed for good.
  /// willneed, dontneed  For the range. Length 0: to the end.
  /// Returns 0, -EBADF, -EINVAL (other advice, a negative offset or length), or as
  /// posix_fadvise(2).
  std::int32_t advise(std::int32_t descriptor, std::int64_t offset, std::int64_t length,
                      advice what) noexcept;

  /// Returns the path of an open file with this version, for messages. The operating system tells
  /// it as it is now. Empty: no such file is open.
  [[nodiscard]] std::string name_of(std::uint64_t version) const noexcept;

  /// Returns the most descriptors that can be open.
  [[nodiscard]] std::size_t capacity() const noexcept { return live_.size(); }

  /// Returns the number of open descriptors. A shared one counts once.
  [[nodiscard]] std::size_t open_count() const noexcept;

  /// The adjustments that were made, and their reasons: one sentence each.
  [[nodiscard]] std::vector<std::string> const& notes() const noexcept { return notes_; }

  // The functions below are for daemon threads. They keep borrowed files between requests, and give
  // them back when the log of closes says so.

  /// Returns the file behind `descriptor`, which stays open while it is borrowed. Null: the
  /// descriptor is not open.
  [[nodiscard]] std::shared_ptr<stored_file const> borrow(std::int32_t descriptor) const noexcept;

  /// Returns true if `descriptor` is open. Costs one load. It may miss a close that runs at the
  /// same time.
  [[nodiscard]] bool is_open(std::int32_t descriptor) const noexcept;

  /// Returns the number of descriptors that were taken back so far.
  // Pairs with the release in remove(): a thread that sees the count sees the log entries and
  // generations that were written before it.
  [[nodiscard]] std::uint64_t closes() const noexcept {
    return closes_.load(std::memory_order_acquire);
  }

  static constexpr std::uint64_t log_length = 1024;

  /// Returns the descriptor that close number `n` (from 0) took back. It counts only if closes() <
  /// n + log_length afterwards.
  // Pairs with the release in remove(): a thread that reads an entry of a later lap finds that
  // closes() has grown, too.
  [[nodiscard]] std::int32_t closed_descriptor(std::uint64_t n) const noexcept {
    return close_log_[n % log_length].load(std::memory_order_acquire);
  }

 private:
  struct key {
    std::uint64_t device, inode;
    int access;
    friend bool operator==(key const&, key const&) = default;
  };
  struct key_hash {
    std::size_t operator()(key const& k) const noexcept {
      return std::size_t(
          (k.inode ^ k.device << 40 ^ k.device >> 24 ^ std::uint64_t(k.access) << 61) *
          0x9e3779b97f4a7c15ull);
    }
  };
  static constexpr std::uint32_t none = ~0u;
  struct inode {
    std::uint64_t device, inode;
    friend bool operator==(struct inode const&, struct inode const&) = default;
  };
  struct inode_hash {
    std::size_t operator()(struct inode const& i) const noexcept {
      return key_hash{}({i.device, i.inode, 0});
    }
  };
  // A file that is open for writing, or was and has dirty pages that could not be written.
  struct writing {
    std::shared_ptr<written_file> file;
    std::uint64_t descriptors = 0;  // open for writing
    // Opens in versions_ that stay for the sake of pages that were dirty after the last close.
    std::uint64_t kept = 0;
  };
  struct entry {
    std::uint32_t generation = 0;  // of its last descriptor
    std::uint64_t users = 0;       // open() less close(); 0 = the entry is free
    key file{};
    std::shared_ptr<stored_file const> host;
    std::shared_ptr<written_file> writes;  // null: not open for writing
    std::uint32_t once_write_index = 0;    // O_GWRONCE: a write index of its own
    std::uint32_t next_free = none;
  };

  std::int32_t open_checked(std::string const& path, int flags, unsigned mode,
                            may_begin const& begin);
  std::int32_t open_truncating(std::string const& path, int flags, unsigned mode,
                               may_begin const& begin);
  bool is_in_use(struct ::stat const& status, std::shared_ptr<written_file>& kept) noexcept;
  int truncate_opened(stored_file const& host, may_begin const& begin,
                      struct ::stat& status) noexcept;
  std::int32_t share_or_insert(std::shared_ptr<stored_file const> host, std::string const& path,
                               struct ::stat const& status, int access, std::int64_t now_ns,
                               std::uint64_t order);
  std::shared_ptr<written_file> start_writing(key const& k,
                                              std::shared_ptr<stored_file const> const& host,
                                              std::string const& path,
                                              content_versions::validation const& opened,
                                              std::uint32_t once_write_index);
  void end_writing(key const& k, std::shared_ptr<written_file> const& file, bool clean,
                   bool shares) noexcept;
  void release_kept() noexcept;
  void update_records(key const& k, content_versions::validation const& opened) noexcept;
  [[nodiscard]] int flush_or_error(written_file const& file, write_back_part const& part) noexcept;
  [[nodiscard]] int status_of(stored_file const& file, struct ::stat& out) const noexcept;
  enum class look { renews, resizes };
  int look_at(key const& k, stored_file const& file, look what,
              std::optional<std::uint64_t> known = {}) noexcept;
  [[nodiscard]] std::shared_ptr<written_file> written(std::int32_t descriptor, key* which,
                                                      bool for_writing) const noexcept;
  void remove(std::uint32_t index, std::int32_t descriptor) noexcept;
  entry* find(std::int32_t descriptor) noexcept;
  entry const* find(std::int32_t descriptor) const noexcept;
  void raise_file_limit();
  void publish(std::uint32_t index, content_versions::validation const& opened,
               int access) noexcept;

  record_tables records_;  // written under the mutex
  registry_settings settings_;
  write_back* writes_;
  std::vector<std::string> notes_;
  // Locked during opens with O_TRUNC or O_EXCL: these look first whether the file is open.
  std::mutex truncating_;

  mutable std::mutex mutex_;  // guards the seven below
  std::vector<entry> entries_;
  // First in, first out: so a generation recurs as late as possible.
  std::uint32_t first_free_ = 0, last_free_ = 0;
  std::unordered_map<key, std::uint32_t, key_hash> open_;
  content_versions versions_;
  std::unordered_map<inode, writing, inode_hash> writing_;
  bool any_kept_ = false;  // some file of writing_ may have no descriptor, or be kept

  std::atomic<std::uint64_t> validations_{0};  // numbers opens before they look at the file
  // By index: the generation of the open descriptor, 0 = none. Written under the mutex.
  std::vector<std::atomic<std::uint32_t>> live_;
  std::atomic<std::uint64_t> closes_{0};  // written under the mutex
  std::array<std::atomic<std::int32_t>, log_length> close_log_{};
};

}  // namespace gpufs::daemon
