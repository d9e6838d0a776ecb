#include <gpufs/owner/file_text.hpp>
#include <gpufs/owner/setting_kinds.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <system_error>

namespace gpufs::owner {

std::string file_text(std::filesystem::path const& file) {
  errno = 0;
  try {
    std::ifstream stream(file, std::ios::binary);
    if (stream.is_open()) {
      errno = 0;
      std::string text(std::istreambuf_iterator<char>(stream), {});
      if (!stream.bad()) return text;
    }
  } catch (std::ios_base::failure const&) {  // the read failed
  }
  throw std::system_error(errno != 0 ? errno : EIO, std::generic_category());
}

std::string absolute_path(std::string_view setting, std::string const& path) {
  std::error_code error;
  auto const whole = std::filesystem::absolute(path, error);
  if (error)
    reject(setting, path,
           fmt::format("a path from / on, as the working folder cannot be had ({})",
                       std::strerror(error.value())));
  return whole.string();
}

}  // namespace gpufs::owner
