#include <gpufs/owner/file_text.hpp>

#include <cerrno>
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

}  // namespace gpufs::owner
