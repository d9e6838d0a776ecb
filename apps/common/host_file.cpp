#include <apps/common/file_io.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/program.hpp>
#include <apps/common/worker_threads.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpufs::apps {

namespace {

[[noreturn]] void refuse(int error, std::string const& what) {
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

host_file::host_file(std::string path, int extra_flags) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | extra_flags);
  if (fd_ < 0) refuse(errno, path_);
  struct stat status {};
  int const error = ::fstat(fd_, &status) == 0 ? 0 : errno;
  if (error != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd_);
    if (error != 0) refuse(error, path_);
    throw usage_error(path_ + ": must be a regular file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

host_file::host_file(std::string path, std::string kernel_path) : host_file(std::move(path)) {
  kernel_path_ = std::move(kernel_path);
}

host_file::~host_file() {
  if (fd_ >= 0) ::close(fd_);
}

host_file::host_file(host_file&& other) noexcept
    : path_(std::move(other.path_)),
      kernel_path_(std::move(other.kernel_path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_) {}

void host_file::read(void* buffer, std::size_t count, std::uint64_t offset) const {
  auto const got = read_at(fd_, {static_cast<std::byte*>(buffer), count}, offset);
  if (got < 0) refuse(static_cast<int>(-got), path_);
  auto const end = offset + static_cast<std::uint64_t>(got);
  if (end != offset + count)
    refuse(EIO, fmt::format("{}: ended at byte {}, before byte {}", path_, end, offset + count));
}

std::optional<double> host_file::cached_part() const {
  constexpr long cachestat = 451;  // glibc has no name for it yet
  struct {
    std::uint64_t offset, length;
  } range{0, size_};
  struct {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } pages{};
  if (size_ == 0 || ::syscall(cachestat, fd_, &range, &pages, 0) != 0) return std::nullopt;
  auto const page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  return std::min(1.0, static_cast<double>(pages.cached) * page / static_cast<double>(size_));
}

void host_file::drop_from_page_cache() const {
  ::fsync(fd_);  // dirty pages would stay; an error leaves the file as cached as cached_part() says
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  if (cached_part().value_or(0) < 0.01) return;
  int const control = ::open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
  if (control < 0) return;
  [[maybe_unused]] ssize_t const written = ::write(control, "1", 1);
  ::close(control);
}

void host_file::load_into_page_cache(std::uint64_t count) const {
  constexpr std::uint64_t range = 4 << 20;
  std::uint64_t const end = std::min(count, size_);
  // Read twice: at its second use the kernel moves a page from its list of new pages to that of
  // used pages. That halves the speed of the read that meets it. Warm files have it behind them.
  for (int pass = 0; pass < 2; ++pass) {
    std::atomic<std::uint64_t> next{0};
    run_on_threads(io_threads(), [&](unsigned) {
      std::vector<std::byte> buffer(range);
      for (;;) {
        std::uint64_t const at =
            next.fetch_add(range, std::memory_order_relaxed);  // a counter: orders nothing
        if (at >= end) return;
        read(buffer.data(), std::min(range, end - at), at);
      }
    });
  }
}

bool has_bytes_without_size(std::string const& path) {
  int const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  char byte = 0;
  bool const some = ::read(fd, &byte, 1) > 0;
  ::close(fd);
  return some;
}

}  // namespace gpufs::apps
