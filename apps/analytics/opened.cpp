#include <gpufs/nvme.hpp>

#include <apps/analytics/opened.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include <fcntl.h>

namespace gpufs::apps::analytics {

namespace {

struct named_model {
  std::string_view name;
  nvme::drive_model drive;
};
constexpr named_model models[] = {
    {"optane", nvme::optane}, {"pm1735", nvme::pm1735}, {"980pro", nvme::samsung_980pro}};

void require(int result, std::string const& path, char const* call) {
  if (result < 0)
    throw std::runtime_error(fmt::format("{}: {}: {}", path, call, error_text(result)));
}

}  // namespace

std::vector<std::string> drive_models() {
  std::vector<std::string> names;
  for (auto const& m : models) names.emplace_back(m.name);
  return names;
}

std::string opened_files::attached(std::string const& path) {
  auto const* const model = std::ranges::find(models, drives_.model, &named_model::name);
  nvme::software_options o;
  o.members.assign(drives_.count, path);
  o.how = nvme::layout::replicated;
  o.stripe = std::max<std::uint64_t>(o.stripe, fs_.settings().page_size);
  o.model = model->drive;
  o.read_only = true;
  auto const name = fmt::format("file{}", paths_.size());
  fs_.attach(name, o);
  return "nvme:" + name;
}

opened_files::~opened_files() {
  for (auto const& f : files_)
    if (f.open) fs_.close(f.fd);
}

int opened_files::open(std::string const& path, int flags) {
  bool const is_on_drives = drives_.count != 0 && flags == O_RDONLY;
  int const fd = fs_.open(is_on_drives ? attached(path) : path, flags);
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
