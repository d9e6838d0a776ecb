#include <apps/analytics/output_file.hpp>
#include <apps/common/durable.hpp>
#include <apps/common/file_io.hpp>
#include <apps/common/program.hpp>
#include <apps/common/worker_threads.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <span>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::apps::analytics {

namespace {

bool is_regular(int fd) {
  struct ::stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

bool is_same(int a, int b) {
  struct ::stat one {
  }, other{};
  return ::fstat(a, &one) == 0 && ::fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

}  // namespace

output_file::output_file(std::string const& path, std::vector<data_file> const& inputs)
    : path_(path) {
  if (path.empty()) {
    nameless_ =
        std::make_unique<temp_file>(temp_folder(), 0, [](std::uint64_t, std::span<std::byte>) {});
    path_ = nameless_->path();
  }
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw usage_error(fmt::format("--output={}: {}", path_, error_text(errno)));
  if (!is_regular(fd_)) {
    ::close(fd_);
    throw usage_error(fmt::format("--output={}: must be a regular file", path_));
  }
  for (auto const& input : inputs) {
    if (!is_same(fd_, input.file.descriptor())) continue;
    ::close(fd_);
    throw usage_error(fmt::format("--output={}: is the input {}", path_, input.file.path()));
  }
}

output_file::~output_file() { ::close(fd_); }

void output_file::clear() const {
  if (::ftruncate(fd_, 0) != 0) throw std::system_error(errno, std::generic_category(), path_);
}

void output_file::write(std::byte const* from, std::uint64_t bytes, std::uint64_t offset) const {
  int const error = write_at(fd_, {from, bytes}, offset);
  if (error != 0) throw std::system_error(-error, std::generic_category(), path_);
}

void output_file::write_by_threads(std::byte const* from, std::uint64_t bytes,
                                   std::uint64_t offset) const {
  constexpr std::uint64_t piece = 4 << 20;
  std::atomic<std::uint64_t> next{0};
  run_on_threads(8, [&](unsigned) {
    // Relaxed: a counter, which orders nothing.
    for (std::uint64_t at; (at = next.fetch_add(piece, std::memory_order_relaxed)) < bytes;)
      write(from + at, std::min(piece, bytes - at), offset + at);
  });
}

void output_file::make_durable() const {
  if (auto const error = apps::make_durable(fd_)) throw std::system_error(error, path_);
}

}  // namespace gpufs::apps::analytics
