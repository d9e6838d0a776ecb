// Shared addresses of the emulated device: two memory files, one for the CPU's bytes and one for
// the device's. One of them lies at the shared address, both lie elsewhere for the library.
#include <gpufs/base/above_stderr.hpp>
#include <gpufs/device/emulated/capacity.hpp>
#include <gpufs/device/shared_range.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpufs::device_memory {

namespace {

// Sanitizers know only so many addresses.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t most_bytes = 256ull << 30;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
constexpr std::uint64_t most_bytes = 256ull << 30;
#else
constexpr std::uint64_t most_bytes = 16ull << 40;
#endif
#else
constexpr std::uint64_t most_bytes = 16ull << 40;
#endif

constexpr int both = PROT_READ | PROT_WRITE;

// By the system call itself. ThreadSanitizer would take the memory behind an address that is mapped
// anew for other memory, and forget who has used it.
void* map(void* at, std::uint64_t bytes, int protection, int flags, int fd, std::uint64_t offset) {
  auto const result = ::syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
  if (result == -1) return MAP_FAILED;
  auto* const mapped = reinterpret_cast<void*>(result);
  // A core file would have memory for every hole of it.
  ::madvise(mapped, bytes, MADV_DONTDUMP);
  // A child of fork() would write to the parent's objects, unseen.
  if ((flags & MAP_SHARED) != 0) ::madvise(mapped, bytes, MADV_DONTFORK);
  return mapped;
}

bool gives_back(int file, std::uint64_t at, std::uint64_t bytes) {
  return ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(at), off_t(bytes)) ==
         0;
}

[[noreturn]] void fail(char const* what) {
  throw device_error(
      std::string("shared memory: ") + what + ": " + std::strerror(errno) +
      "; lower address_space, or raise the limits on memory and files (ulimit -v, -f)");
}

}  // namespace

struct shared_range::implementation {
  struct attached_file {
    std::uint64_t bytes;
    int fd;  ///< closed by detach()
    std::uint64_t offset;
  };

  /// What the device has at addresses.
  struct piece {
    std::uint64_t bytes;
    bool is_host;  ///< the CPU's side
  };

  int host_file = -1;
  int device_file = -1;
  std::mutex mutex;
  std::map<std::uint64_t, piece> pieces;         ///< by their place; needs the mutex
  std::map<std::uint64_t, attached_file> files;  ///< by their place; needs the mutex

  /// The file that is the CPU's side of `at`, and the offset there.
  std::pair<int, std::uint64_t> host_side(std::uint64_t at) {
    std::lock_guard const lock(mutex);
    auto const next = files.upper_bound(at);
    if (next != files.begin()) {
      auto const& [first, file] = *std::prev(next);
      if (at - first < file.bytes) return {file.fd, file.offset + (at - first)};
    }
    return {host_file, at};
  }

  /// The piece that has `at`, from there on. No bytes: the device has nothing there.
  piece piece_at(std::uint64_t at) {
    std::lock_guard const lock(mutex);
    auto const next = pieces.upper_bound(at);
    if (next == pieces.begin()) return {0, false};
    auto const& [first, p] = *std::prev(next);
    return {p.bytes - std::min(p.bytes, at - first), p.is_host};
  }

  void remove(std::uint64_t at) {
    std::lock_guard const lock(mutex);
    auto const p = pieces.extract(at);
    if (p.empty() || p.mapped().is_host) return;
    emulated::give_memory(p.mapped().bytes);
  }

  /// Where the first piece of [at, at + bytes) begins. Nothing: there is none.
  std::optional<std::uint64_t> first_in(std::uint64_t at, std::uint64_t bytes) {
    std::lock_guard const lock(mutex);
    auto const found = pieces.lower_bound(at);
    if (found == pieces.end() || found->first >= at + bytes) return std::nullopt;
    return found->first;
  }

  /// Keeps a copy of a file's descriptor, and returns it. There was none. Throws device_error.
  int keep_file(std::uint64_t at, attached_file file) {
    std::lock_guard const lock(mutex);
    auto const made = files.emplace(at, file).first;
    made->second.fd = ::fcntl(file.fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (made->second.fd >= 0) return made->second.fd;
    files.erase(made);  // which leaves errno
    fail("dup");
  }
  /// Returns whether there was one.
  bool forget_file(std::uint64_t at) {
    std::lock_guard const lock(mutex);
    auto const file = files.extract(at);
    if (file.empty()) return false;
    ::close(file.mapped().fd);
    return true;
  }
  ~implementation() {
    if (host_file >= 0) ::close(host_file);
    if (device_file >= 0) ::close(device_file);
  }
};

shared_range::shared_range(std::uint64_t bytes, bool)
    : implementation_(std::make_unique<implementation>()) {
  if (bytes == 0) return;
  auto& files = *implementation_;
  files.host_file = base::above_stderr(::memfd_create("gpufs shared, host", MFD_CLOEXEC));
  if (files.host_file < 0) fail("memfd_create");
  files.device_file = base::above_stderr(::memfd_create("gpufs shared, device", MFD_CLOEXEC));
  if (files.device_file < 0) fail("memfd_create");
  for (bytes_ = std::min(bytes, most_bytes);; bytes_ = bytes_ / 2 / granularity * granularity) {
    errno = EFBIG;  // as ftruncate(2) would say
    if (bytes_ <= longest_file() && ::ftruncate(files.host_file, off_t(bytes_)) == 0 &&
        ::ftruncate(files.device_file, off_t(bytes_)) == 0) {
      // One reservation for all three, so that each of them is aligned alike.
      void* const all = map(nullptr, 3 * bytes_ + granularity, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (all != MAP_FAILED) {
        auto const first = reinterpret_cast<std::uintptr_t>(all);
        reserved_ = static_cast<std::byte*>(all);
        base_ = reserved_ + ((granularity - first % granularity) % granularity);
        host_ = base_ + bytes_;
        device_ = host_ + bytes_;
        if (map(host_, bytes_, both, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, files.host_file, 0) !=
                MAP_FAILED &&
            map(device_, bytes_, both, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, files.device_file,
                0) != MAP_FAILED)
          return;
        ::munmap(all, 3 * bytes_ + granularity);
      }
    }
    if (bytes_ / 2 < least_bytes) fail("no addresses");
  }
}

shared_range::~shared_range() {
  if (reserved_ != nullptr) ::munmap(reserved_, 3 * bytes_ + granularity);
}

void shared_range::attach(std::uint64_t at, std::uint64_t bytes) {
  if (map(base_ + at, rounded_up(bytes, host_page), PROT_READ, MAP_SHARED | MAP_FIXED,
          implementation_->host_file, at) == MAP_FAILED)
    fail("mmap");
}

void shared_range::attach_file(std::uint64_t at, std::uint64_t bytes, int fd,
                               std::uint64_t file_offset) {
  set_host_side(at, bytes, fd, file_offset);
}

void shared_range::set_host_side(std::uint64_t at, std::uint64_t bytes, int fd,
                                 std::uint64_t file_offset) {
  auto& own = *implementation_;
  std::uint64_t const length = rounded_up(bytes, host_page);
  bool const is_file = fd >= 0;
  int const from = is_file ? own.keep_file(at, {length, fd, file_offset}) : own.host_file;
  auto const map_host = [&](int file, std::uint64_t first, int to) {
    return map(host_ + at, length, to, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, first);
  };
  std::uint64_t const offset = is_file ? file_offset : at;
  bool const is_mapped = map_host(from, offset, is_file ? PROT_READ : both) != MAP_FAILED;
  bool const is_done = is_mapped && map(base_ + at, length, is_file ? PROT_READ : PROT_NONE,
                                        MAP_SHARED | MAP_FIXED, from, offset) != MAP_FAILED;
  int const error = errno;
  if (is_file && is_mapped && !is_done) map_host(own.host_file, at, both);  // needs no mappings
  if (is_file != is_done) own.forget_file(at);  // the new one, or the one before
  errno = error;
  if (!is_done) fail("mmap");
  // Memory of zeros may follow. What cannot be given back is cleared then.
  if (!gives_back(own.host_file, at, length) && !is_file) std::memset(host_ + at, 0, length);
}

// The device's file has holes where nothing was added, so all of it is zeros.
void shared_range::add_device(std::uint64_t at, std::uint64_t bytes, std::uint64_t) {
  emulated::take_memory(bytes);
  try {
    std::lock_guard const lock(implementation_->mutex);
    implementation_->pieces.emplace(at, implementation::piece{bytes, false});
  } catch (...) {
    emulated::give_memory(bytes);
    throw;
  }
}

void shared_range::remove_device(std::uint64_t at) noexcept {
  auto const bytes = implementation_->piece_at(at).bytes;
  implementation_->remove(at);
  if (!gives_back(implementation_->device_file, at, bytes)) std::memset(device_ + at, 0, bytes);
}

bool shared_range::add_host(std::uint64_t at, std::uint64_t bytes, bool is_written) noexcept try {
  bytes = rounded_up(bytes, host_page);
  if (is_written && protect(at, bytes, host_access::read_write) != 0) return false;
  std::lock_guard const lock(implementation_->mutex);
  implementation_->pieces.emplace(at, implementation::piece{bytes, true});
  return true;
} catch (std::bad_alloc const&) {
  return false;
}

void shared_range::remove_host(std::uint64_t at) noexcept { implementation_->remove(at); }

std::vector<std::pair<std::uint64_t, std::uint64_t>> shared_range::host_data(
    std::uint64_t at, std::uint64_t bytes) const {
  return data_of(implementation_->host_file, at, bytes);
}

void shared_range::drop_host(std::uint64_t at, std::uint64_t bytes) noexcept {
  bytes = rounded_up(bytes, host_page);
  if (!gives_back(implementation_->host_file, at, bytes)) std::memset(host_ + at, 0, bytes);
}

void shared_range::detach(std::uint64_t at, std::uint64_t bytes) noexcept {
  std::uint64_t const length = rounded_up(bytes, host_page);
  map(base_ + at, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
      0);
  if (implementation_->forget_file(at))
    map(host_ + at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
        implementation_->host_file, at);
  // The next object here has zeros.
  if (!gives_back(implementation_->host_file, at, length)) std::memset(host_ + at, 0, length);
  if (!gives_back(implementation_->device_file, at, length)) std::memset(device_ + at, 0, length);
  // As on a GPU, others can have the memory only now.
  while (auto const piece = implementation_->first_in(at, length)) implementation_->remove(*piece);
}

int shared_range::protect(std::uint64_t at, std::uint64_t bytes, host_access to) noexcept {
  return ::mprotect(base_ + at, bytes, protection_for(to)) == 0 ? 0 : errno;
}

bool shared_range::pin(std::uint64_t, std::uint64_t) noexcept { return true; }
void shared_range::unpin(std::uint64_t) noexcept {}
void shared_range::populate(std::uint64_t, std::uint64_t) noexcept {}

void shared_range::begin_use(std::uint64_t at, std::uint64_t bytes, bool writes) {
  if constexpr (!hands_over) return;
  int const protection = writes ? PROT_READ | PROT_WRITE : PROT_READ;
  for (auto const end = at + bytes; at < end;) {
    auto const [room, is_host] = implementation_->piece_at(at);
    if (room == 0)
      throw device_error("shared memory: the device has no memory for what a call uses");
    auto const some = std::min(room, end - at);
    auto const [fd, offset] =
        is_host ? implementation_->host_side(at) : std::pair{implementation_->device_file, at};
    if (map(base_ + at, some, protection, MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED)
      fail("mmap");
    at += some;
  }
}

bool shared_range::end_use(std::uint64_t at, std::uint64_t bytes) noexcept {
  if constexpr (!hands_over) return true;
  auto const [fd, offset] = implementation_->host_side(at);
  return map(base_ + at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, offset) != MAP_FAILED;
}

}  // namespace gpufs::device_memory
