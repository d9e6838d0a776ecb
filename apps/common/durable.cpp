#include <apps/common/durable.hpp>

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs::apps {

namespace {

std::error_code last_error() { return {errno, std::generic_category()}; }

}  // namespace

std::error_code make_durable(int fd) {
  while (::fsync(fd) != 0)
    if (errno != EINTR) return errno == EINVAL ? std::error_code() : last_error();
  return {};
}

std::error_code make_folder_durable(std::string const& path) {
  int const fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == EACCES) {
    ::sync();
    return {};
  }
  if (fd < 0) return last_error();
  auto const error = make_durable(fd);
  ::close(fd);
  return error;
}

std::string folder_of(std::string const& path) {
  auto const folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

std::error_code make_folders(std::string const& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return {};
  // Without the slash at its end, "a/" would be the folder of "a".
  auto const named = std::filesystem::path(path).filename().empty() ? folder_of(path) : path;
  if (named == ".") return {};
  if (auto const above = make_folders(folder_of(named))) return above;
  if (std::filesystem::create_directory(named, error); error) return error;
  return make_folder_durable(folder_of(named));
}

}  // namespace gpufs::apps
