// Open files of one filesystem: descriptors shared by all who open the same file, and the records
// the device reads.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/rpc/wire_format.hpp>

#include <host-daemon/content_versions.hpp>
#include <host-daemon/host_file.hpp>

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
struct written_file;

struct registry_settings {
  std::size_t remembered_files =
      65536;  ///< closed files whose version is remembered, so that their pages stay warm
  std::function<int(int fd, struct ::stat&)>
      stat{};  ///< how to stat an open file; empty = fstat(2). 0, or -1 with errno
  std::function<std::int64_t()>
      now_ns{};  ///< wall clock, nanoseconds since the epoch; empty = CLOCK_REALTIME
};

/// All public functions are thread-safe; none throws but the constructor. System calls are made
/// outside the lock.
class file_registry {
 public:
  /// Serves region.open_files (region.max_open_files entries, 1..65536, zeroed) and region.control,
  /// which must outlive it. Raises the soft limit of open files (RLIMIT_NOFILE) as far as needed
  /// and allowed, and notes what it did. Throws std::invalid_argument if the region is not as it
  /// must be. `writes`: writes dirty pages back; null, or a region without write buffers: files
  /// cannot be opened for writing. Must outlive it.
  explicit file_registry(rpc::shared_region const& region, registry_settings settings = {},
                         write_back* writes = nullptr);

  /// Closes what is still open.
  ~file_registry();
  file_registry(file_registry const&) = delete;
  file_registry& operator=(file_registry const&) = delete;

  /// Opens a regular file as gopen does (include/gpufs/io.hpp says what `flags` and `mode` may be).
  /// Opens of one file (device, inode) with the same access, O_APPEND and O_GWRONCE share a
  /// descriptor, which lives until it has been closed as often as it was opened. If the file has
  /// changed since its last open, its records get a new uid. O_NOFOLLOW, O_CLOEXEC, O_NONBLOCK,
  /// O_NOCTTY, O_LARGEFILE are allowed too. Returns the descriptor (> 0), or -EROFS (writing with
  /// no write buffers), -EINVAL (other flags; O_TRUNC without access for writing; NUL byte in the
  /// path), -ENAMETOOLONG, -EISDIR, -EOPNOTSUPP (neither file nor directory), -EFBIG (more than
  /// 2^48 bytes), -ENFILE (max_open_files are open), -ENOMEM, or what open(2), fstat(2) and
  /// ftruncate(2) say (-ENOENT, -EEXIST, -EACCES, -EMFILE, -ELOOP, ...).
  [[nodiscard]] std::int32_t open(std::string_view path, int flags, unsigned mode = 0) noexcept;

  /// Undoes one open; the last one of a descriptor for writing writes the file's dirty pages first.
  /// Returns 0, -EBADF, or what kept pages from being written (it is closed all the same). Reads
  /// under way still end as they would have. Blocks while it writes.
  std::int32_t close(std::int32_t descriptor) noexcept;

  /// The same in two parts, for those that must not block: what close() returns, or 1 =
  /// finish_close() must be called, and blocks.
  std::int32_t begin_close(std::int32_t descriptor) noexcept;
  std::int32_t finish_close(std::int32_t descriptor) noexcept;

  /// Writes the file's dirty pages and makes it durable. Returns 0, -EBADF or the file's first
  /// error that nobody has been told. Blocks.
  std::int32_t sync(std::int32_t descriptor) noexcept;

  /// Writes dirty pages, sets the size, and gives the file a new uid. Returns 0, -EBADF, -EINVAL
  /// (not open for writing), or what ftruncate(2) says. Blocks.
  std::int32_t truncate(std::int32_t descriptor, std::uint64_t size) noexcept;

  /// Writes dirty pages, then these bytes, and gives the file a new uid. Returns `count` or -errno
  /// as pwrite(2). Blocks.
  std::int64_t write(std::int32_t descriptor, void const* bytes, std::uint64_t count,
                     std::uint64_t offset) noexcept;

  /// Drops the file's dirty pages and its error, and gives it a new uid. Returns 0, -EBADF, -EINVAL
  /// (not open for writing).
  std::int32_t discard(std::int32_t descriptor) noexcept;

  /// The file's status now (not as of the last open). Returns 0, or -EBADF, or what fstat(2) says.
  [[nodiscard]] std::int32_t stat(std::int32_t descriptor, rpc::file_status& out) const noexcept;

  /// normal, random, sequential: noted in the descriptor's record until it is closed for good, and
  /// passed on to the operating system for the whole file. willneed, dontneed: passed on for the
  /// range (length 0 = to the end). Returns 0, or -EBADF, -EINVAL (another advice, a negative
  /// offset or length), or what posix_fadvise(2) says.
  std::int32_t advise(std::int32_t descriptor, std::int64_t offset, std::int64_t length,
                      advice what) noexcept;

  /// The path of an open file with this uid, as the operating system has it now; empty if none is
  /// open. For messages.
  [[nodiscard]] std::string name_of(std::uint64_t uid) const noexcept;

  /// Descriptors open now (shared ones count once).
  [[nodiscard]] std::size_t open_count() const noexcept;

  /// What was adjusted and why, one sentence each.
  [[nodiscard]] std::vector<std::string> const& notes() const noexcept { return notes_; }

  // For daemon threads, which keep borrowed files between requests and give them back when the log
  // says so.

  /// The host's file behind `descriptor`, kept open while it is borrowed; null if the descriptor is
  /// not open.
  [[nodiscard]] std::shared_ptr<host_file const> borrow(std::int32_t descriptor) const noexcept;

  /// True if `descriptor` is open. One load; a close that runs at the same time may or may not be
  /// seen.
  [[nodiscard]] bool is_open(std::int32_t descriptor) const noexcept;

  /// Number of descriptors taken back so far.
  // Pairs with the release in close(): who sees the count sees the log entries and generations
  // written before it.
  [[nodiscard]] std::uint64_t closes() const noexcept {
    return closes_.load(std::memory_order_acquire);
  }

  static constexpr std::uint64_t log_length = 1024;

  /// The descriptor taken back by close number `n` (from 0). Meaningful only if closes() < n +
  /// log_length afterwards.
  // Pairs with the release in close(): who reads an entry of a later lap finds that closes() has
  // grown, too.
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
    std::uint64_t kept =
        0;  // opens in versions_ kept for pages that stayed dirty when their descriptor was closed
  };
  struct entry {
    std::uint32_t generation = 0;  // of its last descriptor
    std::uint64_t users = 0;       // open() less close(); 0 = the entry is free
    key file{};
    std::shared_ptr<host_file const> host;
    std::shared_ptr<written_file> writes;  // null: not open for writing
    std::uint64_t once_uid = 0;            // O_GWRONCE: a uid of its own, and
    std::uint32_t once_place = 0;          // a place
    std::uint32_t next_free = none;
  };

  std::int32_t open_checked(std::string const& path, int flags, unsigned mode);
  std::int32_t open_truncating(std::string const& path, int flags, unsigned mode);
  std::int32_t share_or_insert(std::shared_ptr<host_file const> host, std::string const& path,
                               struct ::stat const& status, int access, std::int64_t now_ns,
                               std::uint64_t order);
  std::shared_ptr<written_file> start_writing(key const& k,
                                              std::shared_ptr<host_file const> const& host,
                                              std::string const& path,
                                              content_versions::validation const& version,
                                              std::uint32_t once_place);
  void end_writing(key const& k, std::shared_ptr<written_file> const& file, bool clean,
                   bool shares) noexcept;
  void release_kept(key const& k) noexcept;
  void update_records(key const& k, content_versions::validation const& version) noexcept;
  void renew(key const& k, int fd) noexcept;
  [[nodiscard]] std::shared_ptr<written_file> written(std::int32_t descriptor, key* which,
                                                      bool for_writing) const noexcept;
  void remove(std::uint32_t index, std::int32_t descriptor) noexcept;
  entry* find(std::int32_t descriptor) noexcept;
  entry const* find(std::int32_t descriptor) const noexcept;
  void raise_file_limit();
  void publish(std::uint32_t index, content_versions::validation const& version,
               int access) noexcept;
  void bump_epoch() noexcept;

  rpc::shared_region region_;
  registry_settings settings_;
  write_back* writes_;
  std::vector<std::string> notes_;
  std::mutex truncating_;  // held over opens with O_TRUNC or O_EXCL: whether a file is open decides
                           // what they do

  mutable std::mutex mutex_;  // guards the six below
  std::vector<entry> entries_;
  std::uint32_t first_free_ = 0,
                last_free_ = 0;  // first in, first out: a generation recurs as late as possible
  std::unordered_map<key, std::uint32_t, key_hash> open_;
  content_versions versions_;
  std::unordered_map<inode, writing, inode_hash> writing_;

  std::atomic<std::uint64_t> validations_{0};  // numbers opens before they look at the file
  std::vector<std::atomic<std::uint32_t>>
      live_;  // per index: generation of the open descriptor, 0 = none. Written under the mutex
  std::atomic<std::uint64_t> closes_{0};  // written under the mutex
  std::array<std::atomic<std::int32_t>, log_length> close_log_{};
};

}  // namespace gpufs::daemon
