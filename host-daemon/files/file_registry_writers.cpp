// Files that are written: the start and end of writing, and files that are kept for dirty pages.
#include <host-daemon/base/open_kind.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <bit>
#include <cerrno>
#include <iterator>
#include <new>
#include <utility>

#include <fcntl.h>

namespace gpufs::daemon {

std::shared_ptr<written_file> file_registry::start_writing(
    shard& home, key const& k, std::shared_ptr<stored_file const> const& host,
    std::string const& path, content_versions::validation const& opened,
    std::uint32_t once_write_index) {
  auto& files = home.writing;
  auto found = files.find({k.device, k.inode});
  if (found == files.end()) {  // made whole first, as each step may find no memory
    writing_file made{std::make_shared<written_file>()};
    made.file->host = host;
    made.file->path = path;
    found = files.emplace(file_id{k.device, k.inode}, std::move(made)).first;
  }
  auto& w = found->second;
  // No writer that the failed sync could be told to has the file open any more.
  if (++w.descriptors == 1) w.file->not_durable = 0;
  (once_write_index != 0 ? w.file->once_write_index : w.file->write_index) =
      once_write_index != 0 ? once_write_index : opened.write_index;
  // Pages of an earlier open with O_GWRONCE may still be dirty. They keep their version, so that no
  // page gets a second write buffer, which could be written before the first.
  if (once_write_index != 0 && w.file->once_version == 0)
    w.file->once_version = numbers_.fresh_version();
  try {
    writes_->attach(once_write_index != 0 ? w.file->once_version.load() : opened.version, w.file);
  } catch (std::bad_alloc const&) {
    undo_writing(home, k, once_write_index != 0);
    throw;
  }
  // Errors of writes show at each index. It may have been another file's, whose must not stay.
  writes_->show_error(*w.file);
  return w.file;
}

// Undoes start_writing(). Pages of earlier descriptors may be dirty: they keep the file.
void file_registry::undo_writing(shard& home, key const& k, bool once) noexcept {
  auto const found = home.writing.find({k.device, k.inode});
  if (found == home.writing.end()) return;
  auto& w = found->second;
  if (once) w.file->once_write_index = 0;
  // The write index goes back. The file that takes it next must not be shown this one's errors.
  if (!once && w.descriptors == 1 && w.kept == 0) w.file->write_index = 0;
  if (--w.descriptors > 0 || w.kept > 0 || writes_->dirty(*w.file)) return;
  writes_->forget(*w.file);
  home.writing.erase(found);
}

// The end of a descriptor for writing may give write indices back. Errors of pages that stay dirty
// must not be shown to the files that take them.
void file_registry::forget_write_indices(shard& home, key const& k, written_file& file,
                                         bool shares) noexcept {
  if (!shares) file.once_write_index = 0;
  auto const found = home.writing.find({k.device, k.inode});
  if (found != home.writing.end() && found->second.descriptors == 1) file.write_index = 0;
}

// Ends a descriptor for writing. Pages that stayed dirty keep the file and its version. `told`:
// whether the caller of the close gets its result.
void file_registry::end_writing(shard& home, key const& k,
                                std::shared_ptr<written_file> const& file, bool clean, bool shares,
                                bool told) noexcept {
  auto const found = home.writing.find({k.device, k.inode});
  if (found == home.writing.end()) return;
  if (!clean && shares) ++found->second.kept;
  if (!clean && !shares) found->second.once_kept = true;
  if (!clean) kept_.fetch_or(std::uint64_t(1) << home.number, std::memory_order_relaxed);
  if (--found->second.descriptors > 0) return;
  bool const ends = found->second.kept == 0 && clean;
  if (ends || !told) write_back::say_untold(*file);
  if (!ends) return;
  writes_->forget(*file);
  home.writing.erase(found);
}

// Lets go of files that were kept for pages that are written by now, in all shards. Nobody may ever
// open such a file again: it may be unlinked. The caller has no lock of a shard.
void file_registry::release_kept() noexcept {
  // A close that happened before has its bit here. Other threads' bits may be missed; the next open
  // finds them.
  for (auto left = kept_.load(std::memory_order_relaxed); left != 0; left &= left - 1) {
    auto& home = shards_[std::size_t(std::countr_zero(left))];
    std::unique_lock lock{home.mutex};
    auto ended = release_kept_of(home);
    lock.unlock();
    write_back::end_files(std::move(ended));  // a file server may take its time
  }
}

// A page has a write buffer for descriptors with O_GWRONCE and one for others, and these are
// written in any order. So before an open for writing, pages that closes of the other kind left
// dirty must be in the file. Returns what try_open() returns, or nothing: the open can go on. The
// error stays with the file.
std::optional<std::int32_t> file_registry::write_kept(struct ::stat const& status, int kind,
                                                      bool waits) noexcept {
  if (!for_writing(kind) || kept_.load(std::memory_order_relaxed) == 0) return {};
  release_kept();
  auto& home = shard_of(status.st_dev, status.st_ino);
  std::unique_lock lock{home.mutex};
  auto const w = home.writing.find({status.st_dev, status.st_ino});
  if (w == home.writing.end()) return {};
  if (!(shares_pages(kind) ? w->second.once_kept : w->second.kept > 0)) return {};
  if (!waits) return 0;
  auto const file = w->second.file;
  lock.unlock();
  if (int const failed = flush_or_error(*file, {})) return failed;
  release_kept();
  return {};
}

// Returns the files that have no descriptor any more, for write_back::end_files().
std::shared_ptr<written_file> file_registry::release_kept_of(shard& home) noexcept {
  std::shared_ptr<written_file> last;
  bool any = false;
  auto& files = home.writing;
  for (auto w = files.begin(); w != files.end();) {
    auto& [which, kept] = *w;
    bool const is_kept = kept.kept > 0 || kept.descriptors == 0;
    bool const dirty = (is_kept || kept.once_kept) && writes_->dirty(*kept.file);
    any |= dirty;
    bool ends = false;
    if (!dirty && std::exchange(kept.once_kept, false)) {
      // Pages that were read since the close lack these bytes. Order 0: the size stays, and the
      // device asks for it.
      auto const now = home.versions.renew(which.device, which.inode, 0, 0);
      if (now.version != 0) update_records(home, {which.device, which.inode, O_RDONLY}, now);
    }
    if (is_kept && !dirty) {
      // All bytes are in the file by now. The file that gets the write index must not see the
      // error. A descriptor that is open is still told of it.
      if (kept.descriptors == 0) writes_->take_write_error(*kept.file);
      for (; kept.kept > 0; --kept.kept) home.versions.close(which.device, which.inode, true);
      home.changed_at = next_look();
      ends = kept.descriptors == 0;
      if (ends) {
        writes_->forget(*kept.file);
        kept.file->ended_before = std::exchange(last, kept.file);
      }
    }
    w = ends ? files.erase(w) : std::next(w);
  }
  if (!any) kept_.fetch_and(~(std::uint64_t(1) << home.number), std::memory_order_relaxed);
  return last;
}

std::int32_t file_registry::finish_close(std::int32_t descriptor, may_begin const& begin) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return -EBADF;
  bool const shares = shares_pages(k.access);
  int const flushed = writes_->flush(file.get());
  write_back::end_writer(*file);
  bool const told = !begin || begin();
  int error = told ? writes_->take_error(*file) : -ETIMEDOUT;
  // The bytes that this descriptor wrote are in the file, not in the pages of others.
  if (!shares) static_cast<void>(look_at(k, *file->host, look::renews));
  std::shared_ptr<stored_file const> last;
  auto held = find(descriptor);
  if (!held) return -EBADF;
  auto& home = *held.home;
  // Its write index may be kept out. The next file that gets it must not wait for this one.
  if (!shares) home.await_truncation(held.lock, {k.device, k.inode});
  bool const clean = !writes_->dirty(*file);
  if (flushed != 0 && !clean && error == 0)  // told by another call, too
    error = flushed == -ETIMEDOUT ? -EIO : flushed;
  if (file->changed) {
    home.versions.written(k.device, k.inode);
    home.changed_at = next_look();  // the flush may have come after an open looked at the file
  }
  --held->closing;
  if (--held->users > 0) {  // opened again meanwhile
    home.versions.close(k.device, k.inode, shares);
    return error;
  }
  last = std::move(held->host);
  forget_write_indices(home, k, *file, shares);  // before another file can take them
  numbers_.return_write_index(held->once_write_index);
  held->once_write_index = 0;
  held->writes.reset();
  // Pages that stayed dirty keep the version, so that the next open finds them. No open finds those
  // of O_GWRONCE.
  if (clean || !shares) home.versions.close(k.device, k.inode, shares);
  end_writing(home, k, file, clean, shares, told);
  remove(held, descriptor);
  held.lock.unlock();
  if (!clean) drop_if_nameless(file);
  return error;
}

}  // namespace gpufs::daemon
