#include <apps/common/temporary_folder.hpp>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace gpufs::apps {

temporary_folder::temporary_folder(std::string const& parent, std::string const& from,
                                   std::string const& prefix, bool is_kept)
    : path_(parent + "/" + prefix + "-XXXXXX"), is_kept_(is_kept) {
  if (::mkdtemp(path_.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), path_ + " (" + from + ")");
}

temporary_folder::~temporary_folder() {
  if (is_kept_) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace gpufs::apps
