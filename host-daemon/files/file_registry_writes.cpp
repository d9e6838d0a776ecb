// Files that are written: the start and end of writing, and the host's own changes to their
// contents.
#include <host-daemon/base/open_kind.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/no_size_signal.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <new>

#include <sys/stat.h>
#include <sys/uio.h>

namespace gpufs::daemon {

namespace {

constexpr std::uint64_t longest_write = std::uint64_t(1) << 30;

// The kinds of opens whose descriptors share the version of a file.
constexpr int kinds[] = {O_RDONLY, O_WRONLY, O_RDWR, O_WRONLY | O_APPEND, O_RDWR | O_APPEND};

}  // namespace

std::shared_ptr<written_file> file_registry::start_writing(
    key const& k, std::shared_ptr<stored_file const> const& host, std::string const& path,
    content_versions::validation const& opened, std::uint32_t once_write_index) {
  auto& w = writing_[{k.device, k.inode}];
  if (!w.file) {
    w.file = std::make_shared<written_file>();
    w.file->host = host;
    w.file->path = path;
  }
  (once_write_index != 0 ? w.file->once_write_index : w.file->write_index) =
      once_write_index != 0 ? once_write_index : opened.write_index;
  // Pages of an earlier open with O_GWRONCE may still be dirty. They keep their version, so that no
  // page gets a second write buffer, which could be written before the first.
  if (once_write_index != 0 && w.file->once_version == 0)
    w.file->once_version = versions_.fresh_version();
  writes_->attach(once_write_index != 0 ? w.file->once_version.load() : opened.version, w.file);
  ++w.descriptors;
  return w.file;
}

// Ends a descriptor for writing. Pages that stayed dirty keep the file and its version.
void file_registry::end_writing(key const& k, std::shared_ptr<written_file> const& file, bool clean,
                                bool shares) noexcept {
  auto const found = writing_.find({k.device, k.inode});
  if (found == writing_.end()) return;
  if (!clean && shares) ++found->second.kept;
  if (--found->second.descriptors > 0 || found->second.kept > 0 || !clean) return;
  writes_->forget(*file);
  writing_.erase(found);
}

void file_registry::release_kept(key const& k) noexcept {
  auto const found = writing_.find({k.device, k.inode});
  if (found == writing_.end() || (found->second.kept == 0 && found->second.descriptors > 0)) return;
  if (writes_->dirty(*found->second.file)) return;
  for (; found->second.kept > 0; --found->second.kept) versions_.close(k.device, k.inode, true);
  if (found->second.descriptors > 0) return;
  writes_->forget(*found->second.file);
  writing_.erase(found);
}

void file_registry::update_records(key const& k,
                                   content_versions::validation const& opened) noexcept {
  if (auto const w = writing_.find({k.device, k.inode}); w != writing_.end()) {
    try {
      writes_->attach(opened.version, w->second.file);
    } catch (std::bad_alloc const&) {
      return;  // the old version stays in use: the pages it names are as old as its last open
    }
  }
  for (int const kind : kinds) {
    auto const found = open_.find({k.device, k.inode, kind});
    if (found == open_.end()) continue;
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
  int const error = writes_->take_error(*file);
  // The bytes that this descriptor wrote are in the file, not in the pages of others.
  if (!shares) look_at(k, *file->host, look::renews);
  std::shared_ptr<stored_file const> last;
  std::lock_guard const lock{mutex_};
  auto* const e = find(descriptor);
  if (e == nullptr) return -EBADF;
  bool const clean = !writes_->dirty(*file);
  if (file->changed) versions_.written(k.device, k.inode);
  if (--e->users > 0) {  // opened again meanwhile
    versions_.close(k.device, k.inode, shares);
    return error;
  }
  last = std::move(e->host);
  versions_.return_write_index(e->once_write_index);
  if (!shares) file->once_write_index = 0;
  e->once_write_index = 0;
  e->writes.reset();
  // Pages that stayed dirty keep the version, so that the next open finds them. No open finds those
  // of O_GWRONCE.
  if (clean || !shares) versions_.close(k.device, k.inode, shares);
  end_writing(k, file, clean, shares);
  remove(rpc::descriptor_index(descriptor), descriptor);
  return error;
}

// Returns the written file behind the descriptor: if this descriptor writes it, or (not
// for_writing) if any does.
std::shared_ptr<written_file> file_registry::written(std::int32_t descriptor, key* which,
                                                     bool for_writing) const noexcept {
  std::lock_guard const lock{mutex_};
  auto const* const e = find(descriptor);
  if (e == nullptr) return nullptr;
  if (which != nullptr) *which = e->file;
  if (e->writes || for_writing) return e->writes;
  auto const found = writing_.find({e->file.device, e->file.inode});
  return found == writing_.end() ? nullptr : found->second.file;
}

std::int32_t file_registry::sync(std::int32_t descriptor) noexcept {
  if (auto const file = written(descriptor, nullptr, false)) return writes_->sync(*file);
  auto const host = borrow(descriptor);
  if (!host) return -EBADF;
  return host->sync();
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
// version, as its pages do not say what the file has. They stay behind under the old version.
//
// gwrite may be under way, and pages of the old version may be dirty or become so. The device takes
// the new version when none is left (file::take_version), and asks for the size again. Pages of
// O_GWRONCE keep their version: nobody reads them.
void file_registry::look_at(key const& k, stored_file const& file, look what) noexcept {
  auto const order = validations_.fetch_add(1, std::memory_order_relaxed) + 1;
  struct ::stat status {};
  if (status_of(file, status) != 0) return;
  auto const size = std::uint64_t(status.st_size);
  std::lock_guard const lock{mutex_};
  auto const now = what == look::renews ? versions_.renew(k.device, k.inode, size, order)
                                        : versions_.resize(k.device, k.inode, size, order);
  if (now.version != 0) update_records(k, now);
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
  look_at(k, *host, look::resizes);
  return 0;
}

// A page that stays dirty would be left behind under the old version, and the next gwrite to it
// would take a second buffer. So nothing is truncated unless all pages that stay are written.
std::int32_t file_registry::truncate(std::int32_t descriptor, std::uint64_t size) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return borrow(descriptor) ? -EINVAL : -EBADF;
  // Whole pages beyond the new end need not be written.
  if (int const failed = flush_or_error(*file, {.end = size})) return failed;
  no_size_signal const guard;
  file->changed = true;
  writes_->discard(*file, size);
  if (int const error = file->host->truncate(size)) return error;
  look_at(k, *file->host, look::renews);
  return 0;
}

std::int64_t file_registry::write(std::int32_t descriptor, void const* bytes, std::uint64_t count,
                                  std::uint64_t offset) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return -EBADF;
  constexpr std::uint64_t most = rpc::payload_mask + 1;
  if (offset >= most || count > most - offset) return -EFBIG;
  // Earlier gwrites come before these bytes.
  if (int const failed = flush_or_error(*file, {})) return failed;
  no_size_signal const guard;
  file->changed = true;
  std::uint64_t done = 0;
  int error = 0;
  while (done < count && error == 0) {
    ::iovec const part{const_cast<std::byte*>(static_cast<std::byte const*>(bytes)) + done,
                       std::min(count - done, longest_write)};
    auto const n = file->host->write({&part, 1}, offset + done);
    if (n > 0) done += std::uint64_t(n);
    if (n == 0) error = EIO;
    if (n < 0 && n != -EINTR) error = int(-n);
  }
  if (done != 0) look_at(k, *file->host, look::renews);
  return done != 0 || error == 0 ? std::int64_t(done) : -error;
}

std::int32_t file_registry::discard(std::int32_t descriptor) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return borrow(descriptor) ? -EINVAL : -EBADF;
  writes_->discard(*file);
  writes_->take_error(*file);
  look_at(k, *file->host, look::renews);
  return 0;
}

}  // namespace gpufs::daemon
