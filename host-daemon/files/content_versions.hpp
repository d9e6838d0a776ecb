// Versions of the contents of files: each (device, inode) has one, and it changes when the file may
// have changed.
#pragma once

#include <host-daemon/files/file_id.hpp>
#include <host-daemon/files/version_numbers.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

#include <sys/stat.h>

namespace gpufs::daemon {

/// The status of a file when it was validated.
struct file_stamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;  ///< nanoseconds since the epoch
  std::int64_t ctime_ns = 0;

  friend bool operator==(file_stamp const&, file_stamp const&) = default;
};

[[nodiscard]] inline std::int64_t nanoseconds(::timespec const& t) noexcept {
  return std::int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

[[nodiscard]] inline file_stamp stamp_of(struct ::stat const& s) noexcept {
  return {.device = s.st_dev,
          .inode = s.st_ino,
          .size = std::uint64_t(s.st_size),
          .mtime_ns = nanoseconds(s.st_mtim),
          .ctime_ns = nanoseconds(s.st_ctim)};
}

/// Returns true if a change right after `stamp` was taken, at `now_ns`, might leave the stamp the
/// same. File systems stamp by the clock's tick (at most 10 ms), or by 2 s where stamps are whole
/// seconds.
[[nodiscard]] bool is_young(file_stamp const& stamp, std::int64_t now_ns) noexcept;

/// Remembers the versions of open files, and of those that were closed last, as many as `numbers`
/// allows. Not thread-safe. Tables that share `numbers` may be used at the same time.
class content_versions {
 public:
  /// `numbers` must outlive it.
  explicit content_versions(version_numbers& numbers) : numbers_{numbers} {
    // Files that were closed long ago are in no processor's cache. A search should look at few.
    versions_.max_load_factor(0.5f);
  }

  struct validation {
    std::uint64_t version;  ///< never 0, never reused, mostly of the same series as before
    std::uint64_t size;     ///< bytes, as of the newest look at the file
    bool changed;           ///< the version is new
    /// A write index that no other open file has, if this file is or was written since it was
    /// opened; else 0.
    std::uint32_t write_index;
    /// renew() gave it this version. Gwrites to pages of an earlier one may still come.
    bool renewed;
  };

  /// Counts an open of the file that `stamp` describes. The version stays if the file cannot have
  /// changed since the last validation; else it is new.
  /// `order` numbers validations by the time before their stamps were taken. A validation that a
  /// later one has overtaken adopts its result.
  /// A file that is open for writing is not validated: its changes are our own. Its first open for
  /// writing gives it a new version, since pages cached before are cached up to the end of the file
  /// only.
  /// `backing`: as stored_file::block_backing(), the same at each open of a file. If it is not 0,
  /// a file that was written, and is closed, gets a new version at its next open for reading.
  /// Throws std::bad_alloc, and has changed nothing then.
  validation open(file_stamp const& stamp, std::int64_t now_ns, std::uint64_t order,
                  bool for_writing = false, std::uint8_t backing = 0);

  /// Ends one open() of (device, inode).
  void close(std::uint64_t device, std::uint64_t inode, bool for_writing = false) noexcept;

  /// Says that we have written the file since its last validation. The next open that validates it
  /// takes it for changed. Our own writes change the stamp, and others' changes in the same tick of
  /// the file system's clock, or between two looks of ours, cannot be told from them.
  void written(std::uint64_t device, std::uint64_t inode) noexcept;

  /// Gives an open file a new version. Returns version 0 if it is not open.
  /// `size` and `order` are as in resize().
  validation renew(std::uint64_t device, std::uint64_t inode, std::uint64_t size,
                   std::uint64_t order) noexcept;

  /// Notes the size of an open file. Returns as renew(), with the version as it is.
  /// `order` numbers looks by the time before them, as in open(). A size that a later look has
  /// overtaken is not used.
  validation resize(std::uint64_t device, std::uint64_t inode, std::uint64_t size,
                    std::uint64_t order) noexcept;

  /// Returns whether the file is open for writing, so that open() does not validate it.
  [[nodiscard]] bool is_written(std::uint64_t device, std::uint64_t inode) const noexcept;

  /// Returns the file's write index as open() does, or 0.
  [[nodiscard]] std::uint32_t write_index(std::uint64_t device, std::uint64_t inode) const noexcept;

  /// Returns open() less close() of the file.
  [[nodiscard]] std::uint64_t opens(std::uint64_t device, std::uint64_t inode) const noexcept;

  /// Returns the number of files that are remembered, open or closed.
  [[nodiscard]] std::size_t size() const noexcept { return versions_.size(); }

 private:
  // The version after `version`, which may be 0: of its series, unless that is used up.
  [[nodiscard]] std::uint64_t version_after(std::uint64_t version, std::uint8_t backing) noexcept {
    return rpc::series_of(version) == rpc::series_of(version + 1) && version != 0
               ? version + 1
               : numbers_.fresh_version(backing);
  }

  struct file_entry {
    std::uint64_t version = 0;
    std::uint8_t backing = 0;
    file_stamp stamp;
    bool settled = false;          // false: the stamp was young, so the next open cannot trust it
    std::uint64_t order = 0;       // of the newest validation
    std::uint64_t size = 0;        // as of the newest look,
    std::uint64_t size_order = 0;  // and the number of that look
    std::uint64_t users = 0;       // open() less close()
    std::uint64_t writers = 0;     // of these, for writing
    // It is open for writing, or was since it got this version. Its pages are cached in full.
    bool was_written = false;
    bool renewed = false;
    std::uint32_t write_index = 0;               // while it is open
    std::list<file_id>::iterator place_in_list;  // open_ or closed_
  };

  file_entry& opened(file_id const& k, bool& is_new);

  version_numbers& numbers_;
  std::unordered_map<file_id, file_entry, file_id_hash> versions_;
  // Each version is in open_ or in closed_, so moving it from one to the other allocates nothing.
  std::list<file_id> open_;
  std::list<file_id> closed_;  // least recently closed first
};

}  // namespace gpufs::daemon
