// Opening files: flags, truncation, the storage's open.
#include <host-daemon/backend/open_with_patience.hpp>
#include <host-daemon/base/interrupted.hpp>
#include <host-daemon/base/json_string.hpp>
#include <host-daemon/base/log.hpp>
#include <host-daemon/base/open_kind.hpp>
#include <host-daemon/base/reported_error.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

namespace gpufs::daemon {

namespace {

constexpr int allowed_flags = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | write_once |
                              O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_LARGEFILE;

int check_flags(int flags, bool writable) {
  if ((flags & ~allowed_flags) != 0 || (flags & O_ACCMODE) == O_ACCMODE) return -EINVAL;
  if ((for_writing(flags) || (flags & (O_CREAT | O_TRUNC)) != 0) && !writable) return -EROFS;
  if ((flags & write_once) != 0 && (flags & O_APPEND) != 0) return -EINVAL;
  return !for_writing(flags) && (flags & O_TRUNC) != 0 ? -EINVAL : 0;
}

}  // namespace

// Who opens.
struct file_registry::opener {
  bool waits;
  may_begin const& begin;
  leased what;
};

std::int32_t file_registry::open(std::string_view path, int flags, unsigned mode,
                                 may_begin const& begin, leased what) noexcept {
  return open_as(path, flags, mode, {true, begin, what});
}

std::int32_t file_registry::try_open(std::string_view path, int flags, unsigned mode) noexcept {
  return open_as(path, flags, mode, {false, {}, leased::returns});
}

std::int32_t file_registry::open_as(std::string_view path, int flags, unsigned mode,
                                    opener const& who) noexcept {
  if (path.size() > PATH_MAX - 1) return -ENAMETOOLONG;
  if (path.find('\0') != std::string_view::npos) return -EINVAL;
  if ((flags & write_once) != 0) flags = (flags & ~O_ACCMODE) | O_WRONLY;
  if (int const error = check_flags(flags, writes_ != nullptr)) return error;
  if (!for_writing(flags)) flags &= ~O_APPEND;   // it says nothing about reads
  if ((flags & O_CREAT) == 0) flags &= ~O_EXCL;  // without O_CREAT it means nothing
  try {
    if ((flags & (O_TRUNC | O_EXCL)) == 0) return open_checked(std::string{path}, flags, mode, who);
    // To cut a long file takes a file system as long as to remove it.
    return who.waits ? open_truncating(std::string{path}, flags, mode, who) : 0;
  } catch (std::bad_alloc const&) {
    return -ENOMEM;
  }
}

// O_TRUNC and O_EXCL have no effect on a file that is open here. O_EXCL is judged by the name, and
// O_TRUNC by the file that was opened: a look at the name can fail, or be about another file.
std::int32_t file_registry::open_truncating(std::string const& path, int flags, unsigned mode,
                                            opener const& who) {
  if ((flags & O_EXCL) == 0) return open_checked(path, flags, mode, who);
  std::unique_lock one_at_a_time{names_[std::hash<std::string>{}(path) % names_.size()]};
  struct ::stat status {};
  std::shared_ptr<written_file> kept;
  if (settings_.storage->status(path, status) == 0 && is_in_use(status, kept)) {
    flags &= ~(O_TRUNC | O_EXCL);
    one_at_a_time.unlock();  // an open as any other
  }
  return open_checked(path, flags, mode, who);
}

// Returns whether a descriptor of the file is open. Opens that are only kept for dirty pages do not
// count; such a file is `kept`. If it is not in use and not empty, `truncates` keeps it so: other
// opens of it wait for end_truncating(). A truncation whose caller has gone ends first.
bool file_registry::is_in_use(struct ::stat const& status, std::shared_ptr<written_file>& kept,
                              bool truncates) {
  release_kept();
  auto& home = shard_of(status.st_dev, status.st_ino);
  std::unique_lock lock{home.mutex};
  file_id const file{status.st_dev, status.st_ino};
  for (;;) {
    auto const opens = home.versions.opens(file.device, file.inode);
    auto const w = home.writing.find(file);
    bool const only_kept =
        w != home.writing.end() && w->second.descriptors == 0 && w->second.kept == opens;
    if (only_kept) kept = w->second.file;
    if (opens != 0 && !only_kept) return true;
    if (!truncates || !home.truncating.contains(file)) {
      if (truncates && (only_kept || status.st_size != 0)) home.truncating.insert(file);
      return false;
    }
    home.await_truncation(lock, file);
    kept.reset();
  }
}

void file_registry::end_truncating(std::uint64_t device, std::uint64_t inode) noexcept {
  auto& home = shard_of(device, inode);
  std::unique_lock lock{home.mutex};
  // Before those that wait: they must not take a file that was kept for dropped pages for one that
  // is being written, and join its old version.
  auto ended = release_kept_of(home);
  home.truncating.erase({device, inode});
  home.changed_at = next_look();
  home.truncated.notify_all();
  lock.unlock();
  write_back::end_files(std::move(ended));
}

std::uint64_t file_registry::opens(std::uint64_t device, std::uint64_t inode) noexcept {
  release_kept();
  auto& home = shard_of(device, inode);
  std::lock_guard const lock{home.mutex};
  auto const w = home.writing.find({device, inode});
  return home.versions.opens(device, inode) + (w != home.writing.end() ? 1 : 0);
}

// Truncates a file that is being opened with O_TRUNC. Its look is old then. Returns 0 or -errno.
// `one_at_a_time` keeps other such opens of the file out, until this one has its descriptor. If the
// file is in use, this is an open as any other, and keeps out none.
int file_registry::truncate_opened(stored_file const& host, may_begin const& begin,
                                   struct ::stat const& status, bool has_place,
                                   std::unique_lock<std::mutex>& one_at_a_time) {
  auto const place = file_id_hash::mix(status.st_dev, status.st_ino) % truncated_.size();
  one_at_a_time = std::unique_lock{truncated_[place]};
  std::shared_ptr<written_file> kept;
  if (is_in_use(status, kept, true)) {
    one_at_a_time.unlock();
    return 0;
  }
  if (!kept && status.st_size == 0) return 0;
  struct truncating {
    file_registry& of;
    struct ::stat const& status;
    ~truncating() { of.end_truncating(status.st_dev, status.st_ino); }
  } const under_way{*this, status};
  // A refused open changes nothing. Kept pages may have a write index, which they give back.
  auto const has_index = [&, &home = shard_of(status.st_dev, status.st_ino)] {
    std::lock_guard const lock{home.mutex};
    return home.versions.write_index(status.st_dev, status.st_ino) != 0;
  };
  if (!has_place || (!numbers_.has_write_index() && !has_index())) return -ENFILE;
  if (begin && !begin()) return -ETIMEDOUT;
  auto const truncate = [&] {
    return reported_error(while_interrupted([&] { return host.truncate(0); }));
  };
  int const error = kept ? writes_->discard(*kept, 0, truncate) : truncate();
  if (error != 0) return error;
  if (kept) writes_->drop_errors(*kept);
  return 0;
}

opened_file file_registry::open_recorded(std::string const& path, int flags, unsigned mode,
                                         opener const& who) {
  auto const open = [&] {
    if (who.what == leased::returns) return settings_.storage->open(path, flags, mode);
    return open_with_patience(*settings_.storage, path, flags, mode,
                              [&] { return writes_ == nullptr || !writes_->is_ending(); });
  };
  auto* const requests = settings_.requests;
  if (requests == nullptr) return open();
  auto const begin = std::chrono::steady_clock::now();
  auto opened = open();
  auto const end = std::chrono::steady_clock::now();
  requests->record({.kind = host_request::open, .result = opened.error, .begin = begin, .end = end},
                   requests->traces() ? json_string(path) : std::string{});
  if (is_logged(log_level::debug))
    log_line(log_level::debug,
             fmt::format("open {}: {}", path,
                         opened.error == 0 ? "done" : std::strerror(-opened.error)));
  return opened;
}

std::int32_t file_registry::open_checked(std::string const& path, int flags, unsigned mode,
                                         opener const& who) {
  // A refused open changes nothing: the place is there before the file is made or cut. Without one,
  // and without a write index, only a file that is there can be opened.
  reserved_place place{free_};
  if ((flags & (O_CREAT | O_TRUNC)) != 0) {
    release_kept();
    place.reserve();
  }
  bool const makes = (flags & O_CREAT) != 0 && place.is_reserved() &&
                     (!for_writing(flags) || numbers_.has_write_index());
  if (!makes && (flags & O_EXCL) != 0) {
    struct ::stat there {};
    int const error = settings_.storage->status(path, there);
    return error == 0 ? -EEXIST : error == -ENOENT ? -ENFILE : error;
  }
  auto order = next_look();
  auto [host, refused, status, is_leased] =
      open_recorded(path, makes ? flags : flags & ~O_CREAT, mode, who);
  if (is_leased && who.what == leased::returns) return 0;
  if (refused == -ENOENT && (flags & O_CREAT) != 0 && !makes) return -ENFILE;
  if (refused != 0) return refused;
  if (settings_.stat)
    if (int const error = status_of(*host, status)) return error;
  std::unique_lock<std::mutex> one_at_a_time;
  if ((flags & O_TRUNC) != 0)
    if (int const error =
            truncate_opened(*host, who.begin, status, place.is_reserved(), one_at_a_time))
      return error;
  if (auto const refused_or_later = write_kept(status, kind_of(flags), who.waits))
    return *refused_or_later;
  for (bool again = false;; again = true) {
    if (auto const opened = share_or_insert(host, path, kind_of(flags), who.waits,
                                            {status, settings_.now_ns(), order}, place))
      return *opened;
    if (again && !who.waits) return 0;  // closes of other files may go on for long
    order = next_look();
    if (int const error = status_of(*host, status)) return error;
  }
}

}  // namespace gpufs::daemon
