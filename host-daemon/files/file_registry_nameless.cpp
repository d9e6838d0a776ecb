// Files that are kept for dirty pages and have lost their name.
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <mutex>

#include <sys/stat.h>

namespace gpufs::daemon {

// Drops the dirty pages of a kept file that has neither a descriptor nor a name. Nobody could ever
// write them or drop them, and as long as the file is kept, a full disk has its blocks. The
// file system may hang: call it without a lock, where a caller may block.
void file_registry::drop_if_nameless(std::shared_ptr<written_file> const& file) noexcept {
  struct ::stat status {
  }, named{};
  if (status_of(*file->host, status) != 0 || status.st_nlink != 0) return;
  // Some file systems count no links.
  if (settings_.storage->status(file->path, named) == 0 && named.st_dev == status.st_dev &&
      named.st_ino == status.st_ino)
    return;
  auto& home = shard_of(status.st_dev, status.st_ino);
  {
    std::lock_guard const lock{home.mutex};
    auto const w = home.writing.find({status.st_dev, status.st_ino});
    if (w == home.writing.end() || w->second.file != file || w->second.descriptors != 0 ||
        home.versions.opens(status.st_dev, status.st_ino) != w->second.kept)
      return;
  }
  static_cast<void>(writes_->discard(*file));
  release_kept();
}

void file_registry::drop_nameless() noexcept {
  // The n-th of the files that have no descriptor for writing. Null: there are fewer.
  auto const kept_file = [this](std::size_t n) -> std::shared_ptr<written_file> {
    for (auto left = kept_.load(std::memory_order_relaxed); left != 0; left &= left - 1) {
      auto& home = shards_[std::size_t(std::countr_zero(left))];
      std::lock_guard const lock{home.mutex};
      for (auto const& [which, w] : home.writing)
        if (w.descriptors == 0 && n-- == 0) return w.file;
    }
    return nullptr;
  };
  for (std::size_t n = 0;;) {
    auto const file = kept_file(n);
    if (!file) return;
    drop_if_nameless(file);
    if (kept_file(n) == file) ++n;
  }
}

}  // namespace gpufs::daemon
