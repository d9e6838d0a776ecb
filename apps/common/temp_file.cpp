#include <gpufs/config.hpp>

#include <apps/common/file_io.hpp>
#include <apps/common/free_space.hpp>
#include <apps/common/generator.hpp>
#include <apps/common/program.hpp>
#include <apps/common/progress.hpp>
#include <apps/common/temp_file.hpp>
#include <apps/common/worker_threads.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::apps {

namespace {

/// Where the folder comes from. A folder that is not the default one was given as an option.
char const* origin_of(std::string const& folder) {
  return folder == temp_folder() ? "TMPDIR" : "--dir";
}

[[noreturn]] void refuse(int error, std::string const& folder, std::uint64_t bytes) {
  throw std::system_error(error, std::generic_category(),
                          fmt::format("a temporary file of {} in {} ({})", format_size(bytes),
                                      folder, origin_of(folder)));
}

int open_with_room(std::string const& folder, std::uint64_t bytes) {
  require_free_space(folder, origin_of(folder), bytes);
  int const fd = open_nameless(folder);
  if (fd >= 0) return fd;
  throw usage_error(fmt::format("{}, the folder of temporary files ({}): {}", folder,
                                origin_of(folder), error_text(errno)));
}

fill_function words_of(std::uint64_t seed) {
  return [seed](std::uint64_t offset, std::span<std::byte> to) {
    for (std::size_t at = 0; at < to.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t const word = generate(seed, (offset + at) / sizeof(std::uint64_t));
      std::memcpy(to.data() + at, &word, std::min(sizeof(word), to.size() - at));
    }
  };
}

}  // namespace

int fill_file(int fd, std::uint64_t bytes, fill_function const& fill) {
  constexpr std::uint64_t range = 1 << 20;
  progress shown("writing a file", bytes);
  std::atomic<std::uint64_t> next{0};
  std::atomic<int> failure{0};
  run_on_threads(io_threads(), [&](unsigned) {
    std::vector<std::byte> buffer(range);
    // Both are relaxed: ranges are independent of each other, and the failure is read after the
    // threads have ended.
    for (std::uint64_t at; failure.load(std::memory_order_relaxed) == 0;) {
      if ((at = next.fetch_add(range, std::memory_order_relaxed)) >= bytes) return;
      std::span const part(buffer.data(), std::min(range, bytes - at));
      fill(at, part);
      if (int const error = write_at(fd, part, at); error != 0) {
        failure.store(-error, std::memory_order_relaxed);
        return;
      }
      shown.advance(part.size());
    }
  });
  return failure;
}

temp_file::temp_file(std::string const& folder, std::uint64_t bytes, std::uint64_t seed)
    : temp_file(folder, bytes, words_of(seed)) {}

temp_file::temp_file(std::string const& folder, std::uint64_t bytes, fill_function const& fill)
    : fd_(open_with_room(folder, bytes)) {
  if (int const error = fill_file(fd_, bytes, fill); error != 0) {
    ::close(fd_);
    refuse(error, folder, bytes);
  }
}

temp_file::~temp_file() { ::close(fd_); }

std::string temp_file::path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_); }

std::string temp_folder() {
  char const* const named = std::getenv("TMPDIR");
  return named != nullptr && *named != 0 ? named : "/tmp";
}

}  // namespace gpufs::apps
