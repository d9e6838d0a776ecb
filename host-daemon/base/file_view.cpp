#include <host-daemon/base/file_view.hpp>
#include <host-daemon/base/guarded_copy.hpp>

#include <algorithm>
#include <bit>
#include <new>

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace gpufs::daemon {

namespace {

// The word of a part: the version of the file for which the kernel was asked, above the number of
// bytes that may be copied, 0 if none may. The word is 0 until the kernel has been asked.
constexpr unsigned bytes_bits = 24;
constexpr std::uint64_t bytes_mask = (std::uint64_t{1} << bytes_bits) - 1;
static_assert(file_view::part_bytes <= bytes_mask);

constexpr unsigned first_stretch_bits = 30;

// Limits of all views together, as a process may have some 65,000 mappings in 128 TiB.
constexpr std::uint64_t most_mappings = 1024, most_mapped = std::uint64_t{16} << 40;
constinit std::mutex counting;
std::uint64_t mappings = 0, mapped = 0;  // under `counting`

// After so many copies of a part it is looked whether SIGBUS is still ours.
constexpr std::uint32_t copies_between_looks = 16;

constexpr long xfs_magic = 0x58465342;

// Where a mapping shows what read(2) shows, from one cache of pages. Others, network file systems
// above all, look at the server when they read, but not when a mapping is used.
bool is_local(int fd) noexcept {
  struct statfs of {};
  if (::fstatfs(fd, &of) != 0) return false;
  switch (static_cast<unsigned long>(of.f_type)) {
    case EXT4_SUPER_MAGIC:
    case xfs_magic:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case RAMFS_MAGIC: return true;
    default: return false;
  }
}

void give_back_mapping(std::uint64_t bytes) noexcept {
  std::lock_guard const lock{counting};
  --mappings;
  mapped -= bytes;
}

bool reserve_mapping(std::uint64_t bytes) noexcept {
  std::lock_guard const lock{counting};
  if (mappings >= most_mappings || bytes > most_mapped - mapped) return false;
  ++mappings;
  mapped += bytes;
  return true;
}

// Returns null if it cannot be mapped. Bytes beyond the end of the file are not accessed, see
// ask().
std::byte const* map_stretch(int fd, std::uint64_t first, std::uint64_t bytes) noexcept {
  // Without access at first: a process that locks all its memory would read all of it in.
  void* const at = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, fd, off_t(first));
  if (at == MAP_FAILED) return nullptr;
  ::munlock(at, bytes);
  ::madvise(at, bytes, MADV_RANDOM);  // a fault reads nothing ahead
  if (::mprotect(at, bytes, PROT_READ) == 0) return static_cast<std::byte const*>(at);
  ::munmap(at, bytes);
  return nullptr;
}

}  // namespace

file_view::~file_view() {
  for (auto& place : stretches_) {
    auto const* const s = place.load(std::memory_order_relaxed);
    if (s == nullptr) continue;
    if (s->mapping != nullptr) {
      ::munmap(const_cast<std::byte*>(s->mapping), s->bytes);
      give_back_mapping(s->bytes);
    }
    delete s;
  }
}

bool file_view::copy(std::span<std::byte> to, std::uint64_t offset, std::uint64_t version,
                     cachestat_function const& asked) noexcept {
  if (to.size() > longest_copy) return false;
  // Counts that get lost do no harm.
  if (auto const n = reads_.load(std::memory_order_relaxed); n < reads_before_mapping) {
    reads_.store(n + 1, std::memory_order_relaxed);
    return false;
  }
  auto const* const s = stretch_of(offset);
  if (s == nullptr) return false;
  auto const within = offset - s->first;
  auto const number = within / part_bytes;
  auto& w = s->parts[number];
  auto word = w.word.load(std::memory_order_relaxed);
  auto const reads = w.reads.load(std::memory_order_relaxed) + 1;
  w.reads.store(reads, std::memory_order_relaxed);
  auto const most = word == 0                  ? reads_before_asking
                    : (word & bytes_mask) == 0 ? reads_while_not
                                               : reads_while_cached;
  bool const is_old = word != 0 && (word ^ version << bytes_bits) >> bytes_bits != 0;
  if (is_old || reads > most) word = ask(*s, w, number, version, asked);
  if (reads % copies_between_looks == 0 && !guard_copies()) return false;
  if (within % part_bytes + to.size() > (word & bytes_mask)) return false;
  return guarded_copy(to.data(), s->mapping + within, to.size());
}

void file_view::let_go(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  constexpr std::uint64_t page = 4096;
  for (auto const& place : stretches_) {
    // Pairs with the release in make_stretch().
    auto const* const s = place.load(std::memory_order_acquire);
    if (s == nullptr || s->mapping == nullptr) continue;
    auto const begin = std::max(offset / page * page, s->first) - s->first;
    auto const end = std::min(offset + std::min(bytes, ~offset), s->first + s->bytes);
    if (end > s->first + begin)
      ::madvise(const_cast<std::byte*>(s->mapping + begin), end - s->first - begin, MADV_DONTNEED);
  }
}

file_view::stretch const* file_view::stretch_of(std::uint64_t offset) noexcept {
  auto const number = unsigned(std::bit_width(offset >> first_stretch_bits));
  if (number >= most_stretches) return nullptr;
  // Pairs with the release in make_stretch().
  auto const* s = stretches_[number].load(std::memory_order_acquire);
  if (s == nullptr) s = make_stretch(number);
  return s != nullptr && s->mapping != nullptr ? s : nullptr;
}

// A stretch that cannot be mapped has no mapping, and is not tried again.
file_view::stretch const* file_view::make_stretch(unsigned number) noexcept {
  std::lock_guard const lock{making_};
  if (auto const* const made = stretches_[number].load(std::memory_order_relaxed)) return made;
  auto* const s = new (std::nothrow) stretch;
  if (s == nullptr) return nullptr;
  s->bytes = std::uint64_t{1} << (first_stretch_bits + (number > 0 ? number - 1 : 0));
  s->first = number > 0 ? s->bytes : 0;
  if (can_be_viewed() && guard_copies() && reserve_mapping(s->bytes)) {
    s->parts.reset(new (std::nothrow) part[s->bytes / part_bytes]);
    if (s->parts != nullptr) s->mapping = map_stretch(fd_, s->first, s->bytes);
    if (s->mapping == nullptr) give_back_mapping(s->bytes);
  }
  stretches_[number].store(s, std::memory_order_release);
  return s;
}

bool file_view::can_be_viewed() const noexcept {
  struct ::stat status {};
  return ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) && is_local(fd_);
}

// Asks the kernel about a part. Returns its new word. Threads may ask side by side; the last one
// to store is right, and so are the others.
std::uint64_t file_view::ask(stretch const& s, part& w, std::uint64_t number, std::uint64_t version,
                             cachestat_function const& asked) const noexcept {
  w.reads.store(0, std::memory_order_relaxed);
  auto const begin = s.first + number * part_bytes;
  std::uint64_t bytes = 0;
  struct ::stat status {};
  if (guard_copies() && ::fstat(fd_, &status) == 0 && begin < std::uint64_t(status.st_size)) {
    bytes = std::min(part_bytes, std::uint64_t(status.st_size) - begin);
    if (!seems_cached(asked, fd_, begin, bytes)) bytes = 0;
  }
  auto const word = version << bytes_bits | bytes;
  w.word.store(word, std::memory_order_relaxed);
  return word;
}

}  // namespace gpufs::daemon
