// Open files: what the host does to their contents on behalf of kernels and programs.
#include <host-daemon/file_registry.hpp>

#include <algorithm>
#include <cerrno>
#include <new>

#include <host-daemon/write_back.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::daemon {

namespace {

constexpr std::uint64_t longest_write = std::uint64_t(1) << 30;

}  // namespace

// What is written of the descriptor's file, if it is: by this descriptor, or (not for_writing) by any.
std::shared_ptr<written_file> file_registry::written(std::int32_t descriptor, key* which, bool for_writing) const noexcept {
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
  return ::fdatasync(host->fd()) == 0 || errno == EINVAL || errno == EROFS ? 0 : -errno;
}

// The file is not what its pages say: they are left behind under their uid.
void file_registry::renew(key const& k, int fd) noexcept {
  struct ::stat status {};
  bool const stated = settings_.stat(fd, status) == 0;
  std::lock_guard const lock{mutex_};
  if (!stated) return;
  auto const version = versions_.renew(k.device, k.inode, std::uint64_t(status.st_size));
  if (version.uid != 0) update_records(k, version);
  for (auto& e : entries_) {  // those with a uid of their own
    if (e.users == 0 || e.once_uid == 0 || e.file.device != k.device || e.file.inode != k.inode) continue;
    e.once_uid = versions_.fresh_uid();
    try {
      writes_->attach(e.once_uid, e.writes);
    } catch (std::bad_alloc const&) {
      continue;
    }
    auto& record = region_.open_files[std::size_t(&e - entries_.data())];
    std::atomic_ref<std::uint64_t>{record.size}.store(std::uint64_t(status.st_size), std::memory_order_release);
    std::atomic_ref<std::uint64_t>{record.uid}.store(e.once_uid, std::memory_order_release);
  }
}

std::int32_t file_registry::truncate(std::int32_t descriptor, std::uint64_t size) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return borrow(descriptor) ? -EINVAL : -EBADF;
  writes_->discard(*file, size);  // whole pages beyond the new end need not be written
  writes_->flush(file.get());     // an error stays with the file
  if (::ftruncate(file->host->fd(), off_t(size)) != 0) return -errno;
  renew(k, file->host->fd());
  return 0;
}

std::int64_t file_registry::write(std::int32_t descriptor, void const* bytes, std::uint64_t count, std::uint64_t offset) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return -EBADF;
  constexpr std::uint64_t most = rpc::payload_mask + 1;
  if (offset >= most || count > most - offset) return -EFBIG;
  writes_->flush(file.get());
  std::uint64_t done = 0;
  int error = 0;
  while (done < count && error == 0) {
    auto const n = ::pwrite(file->host->fd(), static_cast<std::byte const*>(bytes) + done, std::min(count - done, longest_write),
                            off_t(offset + done));
    if (n > 0) done += std::uint64_t(n);
    if (n == 0) error = EIO;
    if (n < 0 && errno != EINTR) error = errno;
  }
  if (done != 0) renew(k, file->host->fd());
  return done != 0 || error == 0 ? std::int64_t(done) : -error;
}

std::int32_t file_registry::discard(std::int32_t descriptor) noexcept {
  key k{};
  auto const file = written(descriptor, &k, true);
  if (!file) return borrow(descriptor) ? -EINVAL : -EBADF;
  writes_->discard(*file);
  writes_->take_error(*file);
  renew(k, file->host->fd());
  return 0;
}

}  // namespace gpufs::daemon
