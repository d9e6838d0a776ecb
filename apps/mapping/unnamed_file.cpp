#include <apps/common/file_io.hpp>
#include <apps/mapping/unnamed_file.hpp>

#include <cerrno>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace gpufs::apps::workloads {

namespace {

[[noreturn]] void fail(int error, std::string const& folder) {
  throw std::system_error(error, std::generic_category(), "a file without a name in " + folder);
}

}  // namespace

unnamed_file::unnamed_file(std::string folder)
    : folder_(std::move(folder)), fd_(open_nameless(folder_)) {
  if (fd_ < 0) fail(errno, folder_);
}

unnamed_file::~unnamed_file() { ::close(fd_); }

void unnamed_file::put(std::span<std::byte const> bytes, std::uint64_t offset) {
  if (int const error = write_at(fd_, bytes, offset); error != 0) fail(-error, folder_);
}

void unnamed_file::get(std::span<std::byte> bytes, std::uint64_t offset) const {
  auto const got = read_at(fd_, bytes, offset);
  if (got < 0) fail(static_cast<int>(-got), folder_);
  if (static_cast<std::size_t>(got) != bytes.size()) fail(EIO, folder_);
}

}  // namespace gpufs::apps::workloads
