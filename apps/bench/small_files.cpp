#include <apps/bench/small_files.hpp>
#include <apps/common/checksum.hpp>
#include <apps/common/generator.hpp>
#include <apps/common/seconds_since.hpp>
#include <apps/common/worker_threads.hpp>

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <span>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::apps {

namespace {

[[noreturn]] void fail(std::string const& path, int error) {
  throw std::system_error(error, std::generic_category(), path);
}

/// Calls work(i) for each i below `count`, shared out to threads.
template <class Work>
void for_each_file(unsigned threads, std::uint64_t count, Work const& work) {
  std::atomic<std::uint64_t> next{0};
  run_on_threads(threads, [&](unsigned) {
    // A counter: orders nothing.
    for (std::uint64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) work(i);
  });
}

}  // namespace

small_files::small_files(std::string const& folder, std::uint64_t count, std::uint64_t bytes)
    : folder_(folder, "--dir", "gpufs-bench-files"), count_(count), bytes_(bytes) {
  try {
    for_each_file(io_threads(), count_, [this](std::uint64_t i) { make(i); });
  } catch (...) {
    remove();
    throw;
  }
}

small_files::~small_files() { remove(); }

void small_files::remove() const {
  for_each_file(io_threads(), count_, [this](std::uint64_t i) { ::unlink(path(i).c_str()); });
}

std::string small_files::path(std::uint64_t i) const {
  return fmt::format("{}/{:08}", folder_.path(), i);
}

std::vector<std::uint64_t> small_files::contents(std::uint64_t i) const {
  std::vector<std::uint64_t> words(bytes_ / 8);
  for (std::uint64_t k = 0; k < words.size(); ++k) words[k] = generate(i, k);
  return words;
}

void small_files::make(std::uint64_t i) const {
  std::string const name = path(i);
  auto const words = contents(i);
  int const fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) fail(name, errno);
  auto const n = ::write(fd, words.data(), bytes_);
  int const error = n < 0 ? errno : n == static_cast<ssize_t>(bytes_) ? 0 : EIO;
  ::close(fd);
  if (error != 0) fail(name, error);
}

std::vector<char> small_files::names() const {
  std::vector<char> all;
  all.reserve(count_ * name_bytes());
  for (std::uint64_t i = 0; i < count_; ++i) {
    std::string const name = path(i);
    all.insert(all.end(), name.c_str(), name.c_str() + name.size() + 1);
  }
  return all;
}

std::uint64_t small_files::checksum_of(std::uint64_t i) const {
  auto const words = contents(i);
  return checksum(std::as_bytes(std::span(words)));
}

double small_files::read_by_host(unsigned threads) const {
  auto const start = std::chrono::steady_clock::now();
  for_each_file(threads, count_, [this](std::uint64_t i) {
    thread_local std::vector<std::byte> to;
    to.resize(bytes_);
    std::string const name = path(i);
    int const fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(name, errno);
    auto const n = ::pread(fd, to.data(), bytes_, 0);
    int const error = n < 0 ? errno : n == static_cast<ssize_t>(bytes_) ? 0 : EIO;
    ::close(fd);
    if (error != 0) fail(name, error);
  });
  return seconds_since(start);
}

}  // namespace gpufs::apps
