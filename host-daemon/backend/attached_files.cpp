#include <host-daemon/backend/attached_files.hpp>

#include <cerrno>
#include <string_view>
#include <utility>

#include <fcntl.h>

namespace gpufs::daemon {

namespace {

// Between two looks whether a descriptor is open: an open that began before detach() may end in
// one, and tells nobody.
constexpr std::chrono::milliseconds look_again{1};

}  // namespace

opened_file attached_files::open(std::string const& path, int flags, unsigned mode) {
  if (!is_ours(path)) return below_->open(path, flags, mode);
  if ((flags & (O_CREAT | O_TRUNC | O_APPEND)) != 0) return {nullptr, -EINVAL};
  auto name = path.substr(prefix_.size());
  std::shared_ptr<stored_file const> file;
  {
    std::lock_guard const lock{mutex_};
    auto const found = entries_.find(name);
    if (found == entries_.end()) return {nullptr, -ENOENT};
    if (found->second.leaves) return {nullptr, -EBUSY};
    file = found->second.file;
    ++found->second.uses;
  }
  auto const* const pointer = file.get();
  std::shared_ptr<use const> counted;
  try {
    counted = std::make_shared<use const>(*this, name, std::move(file));
  } catch (...) {
    file.reset();
    end_use(name);
    throw;
  }
  opened_file opened{};
  if (int const error = pointer->status(opened.status)) return {nullptr, error};
  if ((flags & O_ACCMODE) != O_RDONLY && (opened.status.st_mode & 0222) == 0)
    return {nullptr, -EROFS};
  opened.file = {std::move(counted), pointer};
  return opened;
}

void attached_files::end_use(std::string const& name) noexcept {
  {
    std::lock_guard const lock{mutex_};
    // It is there: a file with uses is not detached.
    --entries_.find(name)->second.uses;
  }
  ended_.notify_all();
}

int attached_files::status(std::string const& path, struct ::stat& out) noexcept {
  if (!is_ours(path)) return below_->status(path, out);
  std::lock_guard const lock{mutex_};
  auto const found = entries_.find(std::string_view{path}.substr(prefix_.size()));
  return found == entries_.end() ? -ENOENT : found->second.file->status(out);
}

int attached_files::unlink(std::string const& path) noexcept {
  return is_ours(path) ? -EINVAL : below_->unlink(path);
}

int attached_files::attach(std::string const& name, std::shared_ptr<stored_file const> file) {
  std::lock_guard const lock{mutex_};
  return entries_.try_emplace(name, entry{std::move(file)}).second ? 0 : -EEXIST;
}

std::shared_ptr<stored_file const> attached_files::find(std::string const& name) const {
  std::lock_guard const lock{mutex_};
  auto const found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second.file;
}

// From the mark on no open begins. An open under way has a use. It ends without a descriptor, and
// its use ends, or with one, which in_use() sees. in_use() takes locks under which uses may end, so
// it is called without the lock.
int attached_files::detach(std::string const& name, std::function<bool()> const& in_use,
                           std::chrono::milliseconds longest) {
  auto const end = std::chrono::steady_clock::now() + longest;
  std::shared_ptr<stored_file const> last;  // destroyed without the lock
  std::unique_lock lock{mutex_};
  auto const found = entries_.find(name);
  if (found == entries_.end()) return -ENOENT;
  auto& entry = found->second;
  if (entry.leaves) return -EBUSY;
  entry.leaves = true;
  while (entry.uses != 0) {
    lock.unlock();
    bool const busy = in_use() || std::chrono::steady_clock::now() > end;
    lock.lock();
    if (busy && entry.uses != 0) {
      entry.leaves = false;
      return -EBUSY;
    }
    if (entry.uses != 0) ended_.wait_for(lock, look_again);
  }
  last = std::move(entry.file);
  entries_.erase(found);
  return 0;
}

}  // namespace gpufs::daemon
