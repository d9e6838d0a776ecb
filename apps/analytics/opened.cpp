#include <apps/analytics/opened.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace gpufs::apps::analytics {

namespace {

void require(int result, std::string const& path, char const* call) {
  if (result < 0)
    throw std::runtime_error(fmt::format("{}: {}: {}", path, call, error_text(result)));
}

}  // namespace

opened_files::~opened_files() {
  for (auto const& f : files_)
    if (f.open) fs_.close(f.fd);
}

int opened_files::open(std::string const& path, int flags) {
  int const fd = fs_.open(path, flags);
  require(fd, path, "open");
  paths_.push_back(path);
  files_.push_back({fd, true});
  return fd;
}

int opened_files::open(std::string const& path, int flags, advice what) {
  int const fd = open(path, flags);
  require(fs_.advise(fd, 0, 0, what), path, "advice");
  return fd;
}

void opened_files::finish(int fd) {
  auto const f = std::ranges::find(files_, fd, &file::fd);
  std::string const& path = paths_.at(static_cast<std::size_t>(f - files_.begin()));
  require(fs_.sync(fd), path, "sync");
  f->open = false;
  require(fs_.close(fd), path, "close");
}

}  // namespace gpufs::apps::analytics
