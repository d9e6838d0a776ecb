// Shared by the fuzz targets: the input as a sequence of numbers and bytes, files for the code
// under test, and the end of a run that broke a promise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::fuzz {

/// Ends the run as a finding if `holds` is false. libFuzzer keeps the input then.
inline void require(bool holds, char const* promise) {
  if (holds) return;
  std::printf("not kept: %s\n", promise);  // stderr may be closed, see scripts/fuzz.sh
  std::fflush(stdout);
  std::abort();
}

/// The input of one run. Little-endian numbers, zeros behind its end.
class input {
 public:
  input(std::uint8_t const* data, std::size_t size) : left_{data, size} {}

  [[nodiscard]] bool empty() const { return left_.empty(); }
  [[nodiscard]] std::size_t size() const { return left_.size(); }

  template <class Number>
  Number take() {
    Number n{};
    auto const from = bytes(sizeof n);
    std::memcpy(&n, from.data(), from.size());
    return n;
  }
  /// A number below `limit`.
  std::uint32_t below(std::uint32_t limit) { return take<std::uint8_t>() % limit; }
  /// The next `count` bytes, fewer at the end.
  std::string_view bytes(std::size_t count) {
    auto const some = left_.first(std::min(count, left_.size()));
    left_ = left_.subspan(some.size());
    return {reinterpret_cast<char const*>(some.data()), some.size()};
  }
  /// What is left up to the next newline, without it.
  std::string_view line() {
    auto const text = bytes(left_.size());
    auto const line = text.substr(0, text.find('\n'));
    auto const used = std::min(line.size() + 1, text.size());
    left_ = {reinterpret_cast<std::uint8_t const*>(text.data()) + used, text.size() - used};
    return line;
  }
  std::string_view rest() { return bytes(left_.size()); }

 private:
  std::span<std::uint8_t const> left_;
};

/// A folder for the files of this process, in memory where there is /dev/shm. It goes at the exit.
inline std::string const& folder() {
  static std::string const path = [] {
    auto const set = std::getenv("GPUFS_FUZZ_DIR");
    std::string name = (set != nullptr                        ? std::string(set)
                        : std::filesystem::exists("/dev/shm") ? "/dev/shm"
                                                              : "/tmp") +
                       "/gpufs-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      throw std::system_error(errno, std::generic_category(), name);
    return name;
  }();
  static bool const removed = [] {
    return std::atexit([] {
             std::error_code ignored;
             std::filesystem::remove_all(folder(), ignored);
           }) == 0;
  }();
  static_cast<void>(removed);
  return path;
}

/// Writes the file `name` of folder(), and returns its path.
inline std::string put_file(std::string const& name, std::string_view contents) {
  std::string path = folder() + "/" + name;
  int const fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || ::write(fd, contents.data(), contents.size()) != ssize_t(contents.size()))
    throw std::system_error(errno, std::generic_category(), path);
  ::close(fd);
  return path;
}

}  // namespace gpufs::fuzz
