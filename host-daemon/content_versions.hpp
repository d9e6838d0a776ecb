// Which version of a file's contents is meant: gives each (device, inode) a uid that changes when
// the file may have changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

namespace gpufs::daemon {

/// What a file looked like when it was validated.
struct file_stamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;  ///< nanoseconds since the epoch
  std::int64_t ctime_ns = 0;

  friend bool operator==(file_stamp const&, file_stamp const&) = default;
};

/// True if a change made right after `stamp` was taken, at `now_ns`, might leave the stamp as it
/// is: file systems stamp by the clock's tick (10 ms at the slowest), or by 2 s where stamps are
/// whole seconds.
[[nodiscard]] bool is_young(file_stamp const& stamp, std::int64_t now_ns) noexcept;

/// Remembers the version of open files, and of the most recently closed ones up to `capacity`. Not
/// thread-safe.
class content_versions {
 public:
  /// `places`: open files that can be written at once, numbers that device code knows them by.
  explicit content_versions(std::size_t capacity, std::uint32_t places = 0);

  struct validation {
    std::uint64_t uid;    ///< never 0, never reused
    std::uint64_t size;   ///< bytes, as of the newest validation
    bool changed;         ///< the uid is new
    std::uint32_t place;  ///< 1 + a number below `places` that no other open file has, if this one
                          ///< is or was written; else 0
  };

  /// An open of the file that `stamp` describes: the uid stays if nothing can have changed since
  /// the last validation, else it is new. `order` numbers validations by the time *before* their
  /// stamps were taken; one overtaken by a later one adopts its result. While it is open for
  /// writing a file is not validated: what changes it is we ourselves. The first open for writing
  /// gives it a new uid, since pages that were cached before are cached as far as the file went,
  /// not in full. Throws std::bad_alloc, having changed nothing.
  validation open(file_stamp const& stamp, std::int64_t now_ns, std::uint64_t order,
                  bool for_writing = false);

  /// The end of one open() of (device, inode).
  void close(std::uint64_t device, std::uint64_t inode, bool for_writing = false) noexcept;

  /// What the file looks like after we have written to it: the next open compares with this.
  void written(file_stamp const& stamp, std::int64_t now_ns) noexcept;

  /// Gives an open file a new uid, and this size. {0, 0, false, 0} if it is not open.
  validation renew(std::uint64_t device, std::uint64_t inode, std::uint64_t size) noexcept;

  [[nodiscard]] bool is_open(std::uint64_t device, std::uint64_t inode) const noexcept;

  /// A uid that no file has.
  [[nodiscard]] std::uint64_t fresh_uid() noexcept { return ++last_uid_; }
  /// A place that no file has, or 0; to be given back.
  [[nodiscard]] std::uint32_t take_place() noexcept;
  void give_place_back(std::uint32_t place) noexcept;

  /// Files remembered, open or closed.
  [[nodiscard]] std::size_t size() const noexcept { return versions_.size(); }

 private:
  struct key {
    std::uint64_t device, inode;
    friend bool operator==(key const&, key const&) = default;
  };
  struct key_hash {
    std::size_t operator()(key const& k) const noexcept {
      return std::size_t((k.inode ^ k.device << 40 ^ k.device >> 24) * 0x9e3779b97f4a7c15ull);
    }
  };
  struct version {
    std::uint64_t uid = 0;
    file_stamp stamp;
    bool settled =
        false;  // no: the stamp was young when it was taken, so the next open cannot trust it
    std::uint64_t order = 0;    // of the newest validation
    std::uint64_t users = 0;    // open() less close()
    std::uint64_t writers = 0;  // of these, for writing
    bool was_written =
        false;  // since it got this uid, or open for writing: its pages are cached in full
    std::uint32_t place = 0;                 // while it is open
    std::list<key>::iterator place_in_list;  // open_ or closed_
  };

  std::size_t capacity_;
  std::uint64_t last_uid_ = 0;
  std::unordered_map<key, version, key_hash> versions_;
  std::list<key>
      open_;  // each version has a place in one of the two, so that moving it allocates nothing
  std::vector<std::uint32_t> free_places_;
  std::list<key> closed_;  // least recently closed first
};

}  // namespace gpufs::daemon
