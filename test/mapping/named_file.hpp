// A file of words in the folder for temporary files.
#pragma once

#include <test/support/files.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::test {

/// A file with a name, in a folder of its own.
class named_file {
 public:
  using words = std::vector<std::uint32_t>;

  /// It does not exist yet.
  named_file() = default;
  explicit named_file(words const& content) { write(content, 0); }

  [[nodiscard]] std::string path() const { return folder_ / "data"; }

  /// As another program would.
  void write(words const& some, std::uint64_t offset) const {
    int const fd = ::open(path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    auto const bytes = some.size() * sizeof some[0];
    auto const put = ::pwrite(fd, some.data(), bytes, off_t(offset));
    ::close(fd);
    if (put != std::int64_t(bytes)) throw std::runtime_error("named_file: it cannot be written");
  }

  [[nodiscard]] words content() const {
    auto const bytes = pread_bytes(path(), 0, std::filesystem::file_size(path()));
    words all(bytes.size() / sizeof all[0]);
    std::copy_n(bytes.data(), all.size() * sizeof all[0], reinterpret_cast<std::byte*>(all.data()));
    return all;
  }

 private:
  scratch_folder folder_;
};

}  // namespace gpufs::test
