// Open files: opening and validating, sharing descriptors, the records the device reads.
#include <host-daemon/file_registry.hpp>
#include <host-daemon/open_kind.hpp>
#include <host-daemon/write_back.hpp>

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::daemon {

namespace {

constexpr std::uint32_t last_generation = 32767;

// Descriptors of the process beyond those of the registry: rings, the device driver, the program's
// own.
constexpr rlim_t other_files = 256;

constexpr int allowed_flags = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | write_once |
                              O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_LARGEFILE;

std::int64_t wall_clock() {
  ::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds(now);
}

int check_flags(int flags, bool writable) {
  if ((flags & ~allowed_flags) != 0 || (flags & O_ACCMODE) == O_ACCMODE) return -EINVAL;
  if ((for_writing(flags) || (flags & (O_CREAT | O_TRUNC)) != 0) && !writable) return -EROFS;
  if ((flags & write_once) != 0 && (flags & O_APPEND) != 0) return -EINVAL;
  return !for_writing(flags) && (flags & (O_TRUNC | O_APPEND)) != 0 ? -EINVAL : 0;
}

rpc::shared_region const& checked(rpc::shared_region const& region) {
  if (region.open_files == nullptr || region.control == nullptr)
    throw std::invalid_argument{
        "file_registry: the region has no open-file records or no control block"};
  if (region.max_open_files < 1 || region.max_open_files > 65536)
    throw std::invalid_argument{fmt::format(
        "file_registry: max_open_files={}: must be from 1 to 65536", region.max_open_files)};
  return region;
}

}  // namespace

file_registry::file_registry(rpc::shared_region const& region, registry_settings settings,
                             write_back* writes)
    : region_{checked(region)},
      settings_{std::move(settings)},
      writes_{region.writes.count != 0 ? writes : nullptr},
      entries_(region.max_open_files),
      versions_{settings_.remembered_files, std::uint32_t(region.max_open_files)},
      live_(region.max_open_files) {
  if (!settings_.stat)
    settings_.stat = [](int fd, struct ::stat& out) { return ::fstat(fd, &out); };
  if (!settings_.now_ns) settings_.now_ns = wall_clock;
  last_free_ = std::uint32_t(entries_.size() - 1);
  for (std::uint32_t i = 0; i < last_free_; ++i) entries_[i].next_free = i + 1;
  raise_file_limit();
}

file_registry::~file_registry() {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].users > 0) store_word(region_.open_files[i].tag, 0);
}

void file_registry::raise_file_limit() {
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  rlim_t const needed = region_.max_open_files + other_files;
  rlim_t const wanted =
      needed + region_.max_open_files;  // files that are read with O_DIRECT have two descriptors
  if (limit.rlim_cur >= wanted) return;
  auto const before = limit.rlim_cur;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (limit.rlim_cur > before && ::setrlimit(RLIMIT_NOFILE, &limit) == 0) {
    notes_.push_back(
        fmt::format("raised the process's limit of open files from {} to {} for max_open_files={}",
                    before, limit.rlim_cur, region_.max_open_files));
  } else {
    limit.rlim_cur = before;
  }
  if (limit.rlim_cur < needed)
    notes_.push_back(
        fmt::format("fewer than max_open_files={} files can be open: the process's limit is {}; "
                    "raise the hard limit "
                    "(ulimit -Hn) or lower max_open_files",
                    region_.max_open_files, limit.rlim_cur));
}

std::int32_t file_registry::open(std::string_view path, int flags, unsigned mode) noexcept {
  if (path.size() > PATH_MAX - 1) return -ENAMETOOLONG;
  if (path.find('\0') != std::string_view::npos) return -EINVAL;
  if ((flags & write_once) != 0) flags = (flags & ~O_ACCMODE) | O_WRONLY;
  if (int const error = check_flags(flags, writes_ != nullptr)) return error;
  try {
    return (flags & (O_TRUNC | O_EXCL)) != 0 ? open_truncating(std::string{path}, flags, mode)
                                             : open_checked(std::string{path}, flags, mode);
  } catch (std::bad_alloc const&) {
    return -ENOMEM;
  }
}

// O_TRUNC and O_EXCL do nothing to a file that is open here.
std::int32_t file_registry::open_truncating(std::string const& path, int flags, unsigned mode) {
  std::lock_guard const one_at_a_time{truncating_};
  struct ::stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    std::lock_guard const lock{mutex_};
    release_kept({status.st_dev, status.st_ino, 0});
    if (versions_.is_open(status.st_dev, status.st_ino)) flags &= ~(O_TRUNC | O_EXCL);
  }
  return open_checked(path, flags, mode);
}

std::int32_t file_registry::open_checked(std::string const& path, int flags, unsigned mode) {
  auto const order = validations_.fetch_add(1, std::memory_order_relaxed) + 1;
  int const fd = open_host_file(path, flags, mode);
  if (fd < 0) return fd;
  std::shared_ptr<host_file const> host;
  try {
    host = std::make_shared<host_file const>(fd);
  } catch (...) {
    ::close(fd);
    throw;
  }
  struct ::stat status {};
  if (settings_.stat(fd, status) != 0) return -errno;
  if (int const error = kind_error(status.st_mode)) return error;
  if ((flags & O_TRUNC) != 0 && status.st_size != 0) {
    if (::ftruncate(fd, 0) != 0 || settings_.stat(fd, status) != 0) return -errno;
  }
  if (std::uint64_t(status.st_size) > rpc::payload_mask + 1)
    return -EFBIG;  // offsets travel in 48 bits
  // With O_NONBLOCK io_uring would answer EAGAIN, where the file system cannot read without
  // waiting, instead of waiting elsewhere.
  if (::fcntl(fd, F_SETFL, 0) != 0) return -errno;
  return share_or_insert(std::move(host), path, status, kind_of(flags), settings_.now_ns(), order);
}

std::int32_t file_registry::share_or_insert(std::shared_ptr<host_file const> host,
                                            std::string const& path, struct ::stat const& status,
                                            int access, std::int64_t now_ns, std::uint64_t order) {
  key const k{status.st_dev, status.st_ino, access};
  bool const writes = for_writing(access);
  std::lock_guard const lock{mutex_};
  release_kept(k);
  auto const shared = open_.find(k);
  if (shared == open_.end() && first_free_ == none) return -ENFILE;
  auto const version = versions_.open(stamp_of(status), now_ns, order, shares_pages(access));
  if (shared != open_.end()) {
    auto const index = shared->second;
    auto& e = entries_[index];
    ++e.users;
    if (version.changed) update_records(k, version);
    return rpc::make_descriptor(index, e.generation);
  }
  bool const once = (access & write_once) != 0;
  auto const once_place = once ? versions_.take_place() : 0;
  std::shared_ptr<written_file> file;
  if ((once ? once_place : version.place) == 0 && writes) {
    versions_.close(k.device, k.inode, shares_pages(access));
    return -ENFILE;  // files with dirty pages that cannot be written hold the places
  }
  auto const index = first_free_;
  try {
    if (writes) file = start_writing(k, host, path, version, once_place);
    open_.emplace(k, index);
  } catch (...) {
    if (file) end_writing(k, file, true, shares_pages(access));
    versions_.give_place_back(once_place);
    versions_.close(k.device, k.inode, shares_pages(access));
    throw;
  }
  auto& e = entries_[index];
  first_free_ = e.next_free;
  if (first_free_ == none) last_free_ = none;
  e.generation = e.generation % last_generation + 1;
  e.users = 1;
  e.file = k;
  e.host = std::move(host);
  e.writes = std::move(file);
  e.once_place = once_place;
  e.once_uid = once ? versions_.fresh_uid() : 0;
  if (once) writes_->attach(e.once_uid, e.writes);
  publish(index,
          once ? content_versions::validation{e.once_uid, version.size, true, once_place} : version,
          access);
  if (version.changed) update_records(k, version);  // the file's other descriptors
  return rpc::make_descriptor(index, e.generation);
}

void file_registry::publish(std::uint32_t index, content_versions::validation const& version,
                            int access) noexcept {
  auto& record = region_.open_files[index];
  store_word(record.uid, version.uid);
  store_word(record.size, version.size);
  store_word(record.flags, std::uint64_t(access));
  store_word(record.advice, std::uint64_t(advice::normal));
  store_word(record.place, version.place);
  // Pairs with the device's acquire of the tag: who sees this generation sees the fields above.
  store_word(record.tag, entries_[index].generation);
  // Pairs with the acquire in is_open().
  live_[index].store(entries_[index].generation, std::memory_order_release);
}

void file_registry::bump_epoch() noexcept {
  // Pairs with the device's acquire of the epoch: who sees the new one sees the records as they are
  // now.
  std::atomic_ref<std::uint64_t>{region_.control->epoch}.fetch_add(1, std::memory_order_release);
}

std::int32_t file_registry::close(std::int32_t descriptor) noexcept {
  auto const result = begin_close(descriptor);
  return result == 1 ? finish_close(descriptor) : result;
}

std::int32_t file_registry::begin_close(std::int32_t descriptor) noexcept {
  std::shared_ptr<host_file const> last;  // destroyed after the lock is given back
  std::lock_guard const lock{mutex_};
  auto* const e = find(descriptor);
  if (e == nullptr) return -EBADF;
  if (e->users == 1 && e->writes) return 1;
  versions_.close(e->file.device, e->file.inode, shares_pages(e->file.access));
  if (--e->users > 0) return 0;
  last = std::move(e->host);
  remove(rpc::descriptor_index(descriptor), descriptor);
  return 0;
}

// Takes a descriptor back that nobody uses any more.
void file_registry::remove(std::uint32_t index, std::int32_t descriptor) noexcept {
  auto& e = entries_[index];
  store_word(region_.open_files[index].tag, 0);
  live_[index].store(0, std::memory_order_release);
  bump_epoch();
  open_.erase(e.file);
  e.next_free = none;
  (last_free_ == none ? first_free_ : entries_[last_free_].next_free) = index;
  last_free_ = index;
  auto const n = closes_.load(std::memory_order_relaxed);
  close_log_[n % log_length].store(descriptor, std::memory_order_release);
  // Pairs with the acquire in closes().
  closes_.store(n + 1, std::memory_order_release);
}

std::int32_t file_registry::stat(std::int32_t descriptor, rpc::file_status& out) const noexcept {
  auto const host = borrow(descriptor);
  if (!host) return -EBADF;
  struct ::stat s {};
  if (settings_.stat(host->fd(), s) != 0) return -errno;
  auto stamp = stamp_of(s);
  // What gwrite has added and the file does not have yet belongs to it.
  if (auto const file = written(descriptor, nullptr, false))
    stamp.size = std::max(stamp.size, writes_->dirty_end(*file));
  out = {.size = stamp.size,
         .device = stamp.device,
         .inode = stamp.inode,
         .mtime_ns = stamp.mtime_ns,
         .ctime_ns = stamp.ctime_ns,
         .mode = s.st_mode,
         .block_size = std::uint64_t(s.st_blksize),
         .reserved = 0};
  return 0;
}

std::size_t file_registry::open_count() const noexcept {
  std::lock_guard const lock{mutex_};
  return open_.size();
}

std::string file_registry::name_of(std::uint64_t uid) const noexcept {
  try {
    std::lock_guard const lock{mutex_};
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      auto const& e = entries_[i];
      if (e.users == 0 || std::atomic_ref<std::uint64_t>{region_.open_files[i].uid}.load(
                              std::memory_order_relaxed) != uid)
        continue;
      return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(e.host->fd()))
          .string();
    }
  } catch (std::exception const&) {  // a message without a name is better than none
  }
  return {};
}

file_registry::entry* file_registry::find(std::int32_t descriptor) noexcept {
  return const_cast<entry*>(std::as_const(*this).find(descriptor));
}

file_registry::entry const* file_registry::find(std::int32_t descriptor) const noexcept {
  auto const index = rpc::descriptor_index(descriptor);
  if (descriptor <= 0 || index >= entries_.size()) return nullptr;
  auto const& e = entries_[index];
  return e.users > 0 && e.generation == rpc::descriptor_generation(descriptor) ? &e : nullptr;
}

std::shared_ptr<host_file const> file_registry::borrow(std::int32_t descriptor) const noexcept {
  std::lock_guard const lock{mutex_};
  auto const* const e = find(descriptor);
  return e != nullptr ? e->host : nullptr;
}

bool file_registry::is_open(std::int32_t descriptor) const noexcept {
  auto const index = rpc::descriptor_index(descriptor);
  auto const generation = rpc::descriptor_generation(descriptor);
  if (descriptor <= 0 || generation == 0 || index >= live_.size()) return false;
  // Pairs with the release in publish() and close().
  return live_[index].load(std::memory_order_acquire) == generation;
}

}  // namespace gpufs::daemon
