#include <apps/common/names_in.hpp>

namespace gpufs::apps {

namespace stdfs = std::filesystem;

std::vector<stdfs::path> names_in(stdfs::path const& folder, std::error_code& error) {
  std::vector<stdfs::path> found;
  stdfs::directory_iterator entries(folder, error);
  while (!error && entries != stdfs::directory_iterator{}) {
    found.push_back(entries->path().filename());
    entries.increment(error);  // at an error it is at the end, too
  }
  return found;
}

}  // namespace gpufs::apps
