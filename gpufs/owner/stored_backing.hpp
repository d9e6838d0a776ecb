// An ordinary file behind a shared object.
#pragma once

#include <gpufs/mapping/backing_file.hpp>

#include <host-daemon/backend/host_storage.hpp>
#include <host-daemon/backend/stored_file.hpp>
#include <host-daemon/base/interrupted.hpp>
#include <host-daemon/base/no_size_signal.hpp>
#include <host-daemon/base/os_page_cache.hpp>
#include <host-daemon/files/content_versions.hpp>
#include <host-daemon/files/file_id.hpp>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>

#include <sys/stat.h>
#include <sys/uio.h>

namespace gpufs::owner {

/// Files that have a writable object in this process.
class written_files {
 public:
  bool add(daemon::file_id const& file) {
    std::lock_guard const lock(mutex_);
    return files_.insert(file).second;
  }
  void remove(daemon::file_id const& file) {
    std::lock_guard const lock(mutex_);
    files_.erase(file);
  }
  static written_files& list() {
    static auto& all = *new written_files;  // static objects may unmap when they end
    return all;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<daemon::file_id, daemon::file_id_hash> files_;
};

/// A file behind a shared object. Any thread calls.
class stored_backing final : public shared::backing_file {
 public:
  stored_backing(std::shared_ptr<daemon::stored_file const> file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}
  ~stored_backing() override {
    if (is_written_) written_files::list().remove(key_);
    if (!made_at_.empty()) static_cast<void>(daemon::host_storage().unlink(made_at_));
  }

  /// The file is new, at this path. It goes with this object, unless keep() is called.
  void goes_unless_kept(std::string path) { made_at_ = std::move(path); }
  void keep() noexcept { made_at_.clear(); }

  /// Returns false if another object writes to the file.
  bool begin_writes(daemon::file_id key) {
    key_ = key;
    is_written_ = written_files::list().add(key);
    return is_written_;
  }

  std::string const& name() const noexcept override { return name_; }
  int descriptor() const noexcept override { return file_->read_descriptor(); }

  read_result read(std::span<std::byte> to, std::uint64_t offset) const noexcept override {
    bool const is_direct = goes_direct(to, offset);
    std::uint64_t done = 0;
    if (is_direct) {
      auto const got = daemon::while_interrupted([&] { return file_->direct().read(to, offset); });
      if (got == std::int64_t(to.size())) return {got, true};
      if (got < 0) file_->direct().give_up();
    }
    while (done < to.size()) {
      auto const got =
          daemon::while_interrupted([&] { return file_->read(to.subspan(done), offset + done); });
      if (got < 0) return {got, false};
      if (got == 0) break;
      done += std::uint64_t(got);
    }
    return {std::int64_t(done), false};
  }

  int write(std::span<std::byte const> from, std::uint64_t offset) const noexcept override {
    daemon::no_size_signal const quiet;
    while (!from.empty()) {
      ::iovec const part{const_cast<std::byte*>(from.data()), from.size()};
      auto const put = daemon::while_interrupted([&] { return file_->write({&part, 1}, offset); });
      if (put < 0) return int(put);
      if (put == 0) return -EIO;
      from = from.subspan(std::size_t(put));
      offset += std::uint64_t(put);
    }
    return 0;
  }

  int sync() const noexcept override {
    return daemon::while_interrupted([&] { return file_->sync(); });
  }

  int version(shared::file_version& out) const noexcept override {
    struct ::stat status {};
    if (int const error = file_->status(status); error != 0) return error;
    out = {std::uint64_t(status.st_size), daemon::nanoseconds(status.st_mtim),
           daemon::nanoseconds(status.st_ctim)};
    return 0;
  }

  bool is_young(shared::file_version const& v) const noexcept override {
    auto const now = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    daemon::file_stamp stamp{};
    stamp.mtime_ns = v.modified;
    stamp.ctime_ns = v.changed;
    return daemon::is_young(stamp, now.count());
  }

 private:
  // Direct reads pay for large parts of which the OS page cache has little.
  bool goes_direct(std::span<std::byte const> to, std::uint64_t offset) const noexcept try {
    constexpr std::uint64_t least = 256 << 10;
    auto const& direct = file_->direct();
    auto const [unit, memory] = direct.alignment();
    if (to.size() < least || !direct.usable() || offset % unit != 0 || to.size() % unit != 0 ||
        reinterpret_cast<std::uintptr_t>(to.data()) % memory != 0)
      return false;
    auto const cached = daemon::ask_cachestat({}, descriptor(), offset, to.size());
    if (cached) return cached->cached * 2 < cached->pages;
    // Looked at in the middle: readahead of a part before this one ends earlier.
    return daemon::is_byte_cached(descriptor(), offset + to.size() / 2) == false;
  } catch (std::bad_alloc const&) {
    return false;
  }

  std::shared_ptr<daemon::stored_file const> file_;
  std::string name_;
  std::string made_at_;
  daemon::file_id key_{};
  bool is_written_ = false;
};

}  // namespace gpufs::owner
