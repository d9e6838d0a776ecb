// Files that are written: the start and end of writing, and the host's own changes to their
// contents.
#include <host-daemon/base/interrupted.hpp>
#include <host-daemon/base/no_size_signal.hpp>
#include <host-daemon/base/open_kind.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <bit>
#include <cerrno>
#include <climits>
#include <iterator>
#include <new>

#include <sys/stat.h>

namespace gpufs::daemon {

namespace {

// The kinds of opens whose descriptors share the version of a file.
constexpr int kinds[] = {O_RDONLY, O_WRONLY, O_RDWR, O_WRONLY | O_APPEND, O_RDWR | O_APPEND};

}  // namespace

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
  (once_write_index != 0 ? w.file->once_write_index : w.file->write_index) =
      once_write_index != 0 ? once_write_index : opened.write_index;
  // Pages of an earlier open with O_GWRONCE may still be dirty. They keep their version, so that no
  // page gets a second write buffer, which could be written before the first.
  if (once_write_index != 0 && w.file->once_version == 0)
    w.file->once_version = numbers_.fresh_version();
  writes_->attach(once_write_index != 0 ? w.file->once_version.load() : opened.version, w.file);
  // The indices may have been another file's, whose errors must not stay.
  if (++w.descriptors == 1 || once_write_index != 0) writes_->show_error(*w.file);
  return w.file;
}

// The end of a descriptor for writing may give write indices back. Errors of pages that stay dirty
// must not be shown to the files that take them.
void file_registry::forget_write_indices(shard& home, key const& k, written_file& file,
                                         bool shares) noexcept {
  if (!shares) file.once_write_index = 0;
  auto const found = home.writing.find({k.device, k.inode});
  if (found != home.writing.end() && found->second.descriptors == 1) file.write_index = 0;
}

// Ends a descriptor for writing. Pages that stayed dirty keep the file and its version.
void file_registry::end_writing(shard& home, key const& k,
                                std::shared_ptr<written_file> const& file, bool clean,
                                bool shares) noexcept {
  auto const found = home.writing.find({k.device, k.inode});
  if (found == home.writing.end()) return;
  if (!clean && shares) ++found->second.kept;
  if (!clean) kept_.fetch_or(std::uint64_t(1) << home.number, std::memory_order_relaxed);
  if (--found->second.descriptors > 0 || found->second.kept > 0 || !clean) return;
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
    std::lock_guard const lock{home.mutex};
    release_kept_of(home);
  }
}

void file_registry::release_kept_of(shard& home) noexcept {
  bool any = false;
  auto& files = home.writing;
  for (auto w = files.begin(); w != files.end();) {
    auto& [which, kept] = *w;
    bool const is_kept = kept.kept > 0 || kept.descriptors == 0;
    bool const dirty = is_kept && writes_->dirty(*kept.file);
    any |= dirty;
    bool ends = false;
    if (is_kept && !dirty) {
      // All bytes are in the file by now. The file that gets the write index must not see the
      // error.
      writes_->take_error(*kept.file);
      for (; kept.kept > 0; --kept.kept) home.versions.close(which.device, which.inode, true);
      ends = kept.descriptors == 0;
      if (ends) writes_->forget(*kept.file);
    }
    w = ends ? files.erase(w) : std::next(w);
  }
  if (!any) kept_.fetch_and(~(std::uint64_t(1) << home.number), std::memory_order_relaxed);
}

int file_registry::flush_all() noexcept {
  int const result = writes_ != nullptr ? writes_->flush(nullptr) : 0;
  release_kept();
  return result;
}

void file_registry::update_records(shard& home, key const& k,
                                   content_versions::validation const& opened) noexcept {
  auto const w = home.writing.find({k.device, k.inode});
  if (w != home.writing.end()) {
    try {
      writes_->attach(opened.version, w->second.file);
    } catch (std::bad_alloc const&) {
      return;  // the old version stays in use: the pages it names are as old as its last open
    }
  }
  for (int const kind : kinds) {
    auto const found = home.open.find({k.device, k.inode, kind});
    if (found == home.open.end()) continue;
    using record = rpc::open_file_record;
    // The version comes last: a device thread that acquires it sees the other words at least as
    // new. Then the epoch, so that the device loads its copies again.
    records_.store(found->second, &record::size, opened.size);
    records_.store(found->second, &record::write_index, opened.write_index);
    records_.store(found->second, &record::renewed, opened.renewed ? 1 : 0);
    records_.store(found->second, &record::version, opened.version);
  }
  records_.bump_epoch();
}

std::int32_t file_registry::finish_close(std::int32_t descriptor) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return -EBADF;
  bool const shares = shares_pages(k.access);
  writes_->flush(file.get());
  int error = writes_->take_error(*file);
  if (int const refused = file->host->end_writes(); error == 0) error = refused;
  // The bytes that this descriptor wrote are in the file, not in the pages of others.
  if (!shares) static_cast<void>(look_at(k, *file->host, look::renews));
  std::shared_ptr<stored_file const> last;
  auto const held = find(descriptor);
  if (!held) return -EBADF;
  auto& home = *held.home;
  bool const clean = !writes_->dirty(*file);
  if (file->changed) home.versions.written(k.device, k.inode);
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
  end_writing(home, k, file, clean, shares);
  remove(held, descriptor);
  return error;
}

// Returns the written file behind the descriptor: if this descriptor writes it, or (not
// for_writing) if any does.
std::shared_ptr<written_file> file_registry::written(std::int32_t descriptor, key* which,
                                                     bool for_writing) const noexcept {
  auto const held = find(descriptor);
  if (!held) return nullptr;
  if (which != nullptr) *which = held->file;
  if (held->writes || for_writing) return held->writes;
  auto const& files = held.home->writing;
  auto const found = files.find({held->file.device, held->file.inode});
  return found == files.end() ? nullptr : found->second.file;
}

std::int32_t file_registry::sync(std::int32_t descriptor) noexcept {
  if (auto const file = written(descriptor, nullptr, false)) return writes_->sync(*file);
  auto const host = borrow(descriptor);
  if (!host) return -EBADF;
  return while_interrupted([&] { return host->sync(); });
}

std::int32_t file_registry::unlink(std::string_view path) noexcept {
  if (path.size() > PATH_MAX - 1) return -ENAMETOOLONG;
  if (path.find('\0') != std::string_view::npos) return -EINVAL;
  try {
    return settings_.storage->unlink(std::string{path});
  } catch (std::bad_alloc const&) {
    return -ENOMEM;
  }
}

// Looks at the file's size, and says it to device code. With `renews` the file also gets a new
// version, as its pages do not say what the file has. They stay behind under the old version. It
// gets one even if the file cannot be looked at, since kernels would read those pages for ever.
// Then `known` is its size; without `known` it keeps its size until the next look. Returns 0 or
// -errno.
//
// gwrite may be under way, and pages of the old version may be dirty or become so. The device takes
// the new version when none is left (file::take_version), and asks for the size again. Pages of
// O_GWRONCE keep their version: nobody reads them.
int file_registry::look_at(key const& k, stored_file const& file, look what,
                           std::optional<std::uint64_t> known) noexcept {
  auto order = validations_.fetch_add(1, std::memory_order_relaxed) + 1;
  struct ::stat status {};
  int const error = status_of(file, status);
  if (error != 0 && what == look::resizes) return error;
  auto const size = error == 0 ? std::uint64_t(status.st_size) : known.value_or(0);
  if (error != 0 && !known) order = 0;  // older than any look: the size stays
  auto& home = shard_of(k.device, k.inode);
  std::lock_guard const lock{home.mutex};
  auto const now = what == look::renews ? home.versions.renew(k.device, k.inode, size, order)
                                        : home.versions.resize(k.device, k.inode, size, order);
  if (now.version != 0) update_records(home, k, now);
  return error;
}

// Writes dirty pages. Returns 0 or an error that stays with the file: gfsync reports it.
int file_registry::flush_or_error(written_file const& file, write_back_part const& part) noexcept {
  int const failed = writes_->flush(&file, part);
  if (failed == 0) return 0;
  int const first = file.error.load(std::memory_order_acquire);
  return first != 0 ? first : failed;
}

std::int32_t file_registry::flush(std::int32_t descriptor) noexcept {
  key k{};
  auto const file = written(descriptor, &k, false);
  auto const host = borrow(descriptor);
  if (!host) return -EBADF;
  if (file)
    if (int const failed = flush_or_error(*file, {.once = false})) return failed;
  return look_at(k, *host, look::resizes);
}

// A page that stays dirty would be left behind under the old version, and the next gwrite to it
// would take a second buffer. So nothing is truncated unless all pages that stay are written.
std::int32_t file_registry::truncate(std::int32_t descriptor, std::uint64_t size,
                                     may_begin const& begin) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return borrow(descriptor) ? -EINVAL : -EBADF;
  // Whole pages beyond the new end need not be written.
  if (int const failed = flush_or_error(*file, {.end = size})) return failed;
  if (begin && !begin()) return -ETIMEDOUT;
  no_size_signal const guard;
  file->changed = true;
  if (int const error = writes_->discard(*file, size, [&] {
        return while_interrupted([&] { return file->host->truncate(size); });
      }))
    return error;
  static_cast<void>(look_at(k, *file->host, look::renews, size));
  return 0;
}

std::int32_t file_registry::write(std::int32_t descriptor,
                                  std::function<bool(stored_file const&)> const& writer) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return -EBADF;
  // Earlier gwrites come before these bytes.
  if (int const failed = flush_or_error(*file, {})) return failed;
  no_size_signal const guard;
  file->changed = true;
  if (writer(*file->host)) static_cast<void>(look_at(k, *file->host, look::renews));
  return 0;
}

std::int32_t file_registry::discard(std::int32_t descriptor) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return borrow(descriptor) ? -EINVAL : -EBADF;
  writes_->discard(*file);
  writes_->take_error(*file);
  static_cast<void>(look_at(k, *file->host, look::renews));
  return 0;
}

}  // namespace gpufs::daemon
