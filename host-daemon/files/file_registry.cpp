// Open files: the descriptors that are given out, their end, and look-ups.
#include <host-daemon/backend/host_storage.hpp>
#include <host-daemon/base/open_kind.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <new>
#include <utility>

#include <sys/resource.h>
#include <sys/stat.h>

namespace gpufs::daemon {

namespace {

// Descriptors of the process that are not the registry's: rings, the device driver, the program.
constexpr rlim_t other_files = 256;

std::int64_t wall_clock() {
  ::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds(now);
}

// Where the generations of a registry's descriptors begin. Those of a process's registries are far
// apart. So each registry takes the descriptors of another for stale ones of its own.
std::uint32_t fresh_generation() {
  static std::atomic<std::uint32_t> registries{0};
  constexpr std::uint64_t apart = 20249;  // the golden section of last_generation
  return std::uint32_t(registries.fetch_add(1, std::memory_order_relaxed) * apart %
                       rpc::last_generation);
}

}  // namespace

file_registry::file_registry(record_tables records, registry_settings settings, write_back* writes)
    : records_{std::move(records)},
      settings_{std::move(settings)},
      writes_{records_.writable() ? writes : nullptr},
      entries_(records_.size()),
      versions_{settings_.remembered_files, std::uint32_t(records_.size())},
      live_(records_.size()) {
  if (!settings_.storage) settings_.storage = std::make_shared<host_storage>();
  if (!settings_.now_ns) settings_.now_ns = wall_clock;
  auto const first = fresh_generation();
  last_free_ = std::uint32_t(entries_.size() - 1);
  for (std::uint32_t i = 0; i < last_free_; ++i) entries_[i].next_free = i + 1;
  for (auto& e : entries_) e.generation = first;
  raise_file_limit();
}

file_registry::~file_registry() {
  for (std::uint32_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].users > 0) records_.store(i, &rpc::open_file_record::tag, 0);
}

void file_registry::raise_file_limit() {
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  rlim_t const needed = records_.size() + other_files;
  rlim_t const wanted =
      needed + records_.size();  // a file that is read with O_DIRECT has two descriptors
  if (limit.rlim_cur >= wanted) return;
  auto const before = limit.rlim_cur;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (limit.rlim_cur > before && ::setrlimit(RLIMIT_NOFILE, &limit) == 0) {
    notes_.push_back(
        fmt::format("raised the process's limit of open files from {} to {} for max_open_files={}",
                    before, limit.rlim_cur, records_.size()));
  } else {
    limit.rlim_cur = before;
  }
  if (limit.rlim_cur < needed)
    notes_.push_back(
        fmt::format("fewer than max_open_files={} files can be open: the process's limit is {}; "
                    "raise the hard limit "
                    "(ulimit -Hn) or lower max_open_files",
                    records_.size(), limit.rlim_cur));
}

std::int32_t file_registry::close(std::int32_t descriptor) noexcept {
  auto const result = begin_close(descriptor);
  return result == 1 ? finish_close(descriptor) : result;
}

std::int32_t file_registry::begin_close(std::int32_t descriptor) noexcept {
  std::shared_ptr<stored_file const> last;  // destroyed after the lock is given back
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

// Takes back a descriptor that has no users any more.
void file_registry::remove(std::uint32_t index, std::int32_t descriptor) noexcept {
  auto& e = entries_[index];
  records_.store(index, &rpc::open_file_record::tag, 0);
  live_[index].store(0, std::memory_order_release);
  records_.bump_epoch();
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
  if (int const error = status_of(*host, s)) return error;
  auto stamp = stamp_of(s);
  // Bytes that gwrite has added belong to the file, even if the host file lacks them.
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

// Returns 0 or -errno.
int file_registry::status_of(stored_file const& file, struct ::stat& out) const noexcept {
  if (!settings_.stat) return file.status(out);
  return settings_.stat(file.read_descriptor(), out) == 0 ? 0 : -errno;
}

std::size_t file_registry::open_count() const noexcept {
  std::lock_guard const lock{mutex_};
  return open_.size();
}

std::string file_registry::name_of(std::uint64_t version) const noexcept {
  try {
    std::lock_guard const lock{mutex_};
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
      auto const& e = entries_[i];
      if (e.users == 0 || records_.load(i, &rpc::open_file_record::version) != version) continue;
      return std::filesystem::read_symlink("/proc/self/fd/" +
                                           std::to_string(e.host->read_descriptor()))
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

std::shared_ptr<stored_file const> file_registry::borrow(std::int32_t descriptor) const noexcept {
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
