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

// A shard that remembers one file too many forgets its own oldest. With few files to remember, a
// shard might have no other than the one that was closed last. Then there is one shard.
std::size_t shards_for(std::size_t remembered_files, std::size_t most) {
  constexpr std::size_t enough = 16;  // files for each shard
  return remembered_files >= most * enough ? most : 1;
}

}  // namespace

file_registry::file_registry(record_tables records, registry_settings settings, write_back* writes)
    : records_{std::move(records)},
      settings_{std::move(settings)},
      writes_{records_.writable() ? writes : nullptr},
      entries_{std::make_unique<open_entry[]>(records_.size())},
      numbers_{settings_.remembered_files, std::uint32_t(records_.size())},
      free_{std::uint32_t(records_.size())} {
  auto const shards = shards_for(settings_.remembered_files, most_shards);
  for (std::uint32_t i = 0; i < shards; ++i) shards_.emplace_back(i, numbers_);
  if (!settings_.storage) settings_.storage = std::make_shared<host_storage>();
  if (!settings_.now_ns) settings_.now_ns = wall_clock;
  auto const first = fresh_generation();
  for (std::size_t i = 0; i < capacity(); ++i) entries_[i].generation = first;
  raise_file_limit();
}

file_registry::~file_registry() {
  for (std::uint32_t i = 0; i < capacity(); ++i)
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
  auto const held = find(descriptor);
  if (!held) return -EBADF;
  if (held->writes) {
    // Each close that may be the last one writes what is dirty, also while others do so. Another
    // block may have opened the file and written to it since they looked.
    if (held->users == held->closing) return -EBADF;  // a close too many
    if (held->users == held->closing + 1) {
      ++held->closing;
      return 1;
    }
  }
  auto const& file = held->file;
  held.home->versions.close(file.device, file.inode, shares_pages(file.access));
  if (--held->users > 0) return 0;
  last = std::move(held->host);
  remove(held, descriptor);
  return 0;
}

// Takes back a descriptor that has no users any more. When its place is given back, nothing here
// touches its entry or its record again.
void file_registry::remove(held_entry const& held, std::int32_t descriptor) noexcept {
  auto const index = rpc::descriptor_index(descriptor);
  records_.store(index, &rpc::open_file_record::tag, 0);
  held->open_as.store(0, std::memory_order_release);
  records_.bump_epoch();
  held.home->open.erase(held->file);
  closes_.note(descriptor);
  free_.give(index);
}

std::int32_t file_registry::stat(std::int32_t descriptor, rpc::file_status& out) const noexcept {
  // Bytes that gwrite has added belong to the file, even if the host file lacks them. The dirty
  // pages come first: a page that is written back in between is then in both answers, not in none.
  auto const file = written(descriptor, nullptr, false);
  auto const end = file ? writes_->dirty_end(*file) : 0;
  return end ? status_from(descriptor, *end, out) : -ETIMEDOUT;
}

std::int32_t file_registry::try_stat(std::int32_t descriptor,
                                     rpc::file_status& out) const noexcept {
  auto const file = written(descriptor, nullptr, false);
  return file && file->once_version != 0 ? 1 : status_from(descriptor, 0, out);
}

std::int32_t file_registry::status_from(std::int32_t descriptor, std::uint64_t dirty_end,
                                        rpc::file_status& out) const noexcept {
  auto const host = borrow(descriptor);
  if (!host) return -EBADF;
  struct ::stat s {};
  if (int const error = status_of(*host, s)) return error;
  auto stamp = stamp_of(s);
  stamp.size = std::max(stamp.size, dirty_end);
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

std::string file_registry::name_of(std::uint64_t version) const noexcept {
  std::shared_ptr<stored_file const> host;  // keeps the descriptor open without the lock
  for (std::uint32_t i = 0; i < capacity() && !host; ++i) {
    auto const has_version = [&] {
      return records_.load(i, &rpc::open_file_record::version) == version;
    };
    auto const generation = generation_of(entries_[i].open_as.load(std::memory_order_acquire));
    if (generation == 0 || !has_version()) continue;
    if (auto const held = find(rpc::make_descriptor(i, generation)); held && has_version())
      host = held->host;
  }
  try {
    if (host && host->read_descriptor() < 0) return std::string{host->traced_name()};
    if (host)
      return std::filesystem::read_symlink("/proc/self/fd/" +
                                           std::to_string(host->read_descriptor()))
          .string();
  } catch (std::exception const&) {  // a message without a name is better than none
  }
  return {};
}

// Finds the shard by the entry's word, which names it, and locks it. While the word stays the same,
// the descriptor is open: only a thread that has this lock can change the word. If it has changed,
// the descriptor was closed meanwhile, even if its place has got another one in any shard.
file_registry::held_entry file_registry::find(std::int32_t descriptor) const noexcept {
  auto const index = rpc::descriptor_index(descriptor);
  auto const generation = rpc::descriptor_generation(descriptor);
  if (descriptor <= 0 || generation == 0 || index >= capacity()) return {};
  auto& e = entries_[index];
  auto const word = e.open_as.load(std::memory_order_relaxed);
  if (generation_of(word) != generation) return {};
  auto& home = shards_[shard_number(word)];
  std::unique_lock lock{home.mutex};
  // The lock orders this load after the change, and the entry's other members with it.
  if (e.open_as.load(std::memory_order_relaxed) != word) return {};
  return {std::move(lock), &home, &e};
}

std::shared_ptr<stored_file const> file_registry::borrow(std::int32_t descriptor) const noexcept {
  auto const held = find(descriptor);
  return held ? held->host : nullptr;
}

std::int32_t file_registry::access_of(std::int32_t descriptor) const noexcept {
  auto const held = find(descriptor);
  return held ? held->file.access : -EBADF;
}

bool file_registry::is_open(std::int32_t descriptor) const noexcept {
  auto const index = rpc::descriptor_index(descriptor);
  auto const generation = rpc::descriptor_generation(descriptor);
  if (descriptor <= 0 || generation == 0 || index >= capacity()) return false;
  // Pairs with the release in publish() and remove().
  return generation_of(entries_[index].open_as.load(std::memory_order_acquire)) == generation;
}

}  // namespace gpufs::daemon
