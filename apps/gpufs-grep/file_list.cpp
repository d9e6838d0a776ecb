#include <apps/common/host_file.hpp>
#include <apps/common/names_in.hpp>
#include <apps/common/program.hpp>
#include <apps/gpufs-grep/file_list.hpp>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include <sys/stat.h>

namespace gpufs::apps {

namespace {

void add_regular(std::string path, struct stat const& status, file_list& to) {
  if (status.st_size == 0 && has_bytes_without_size(path)) {
    to.errors.emplace_back(std::move(path), bytes_without_size);
  } else {
    to.files.push_back({std::move(path), static_cast<std::uint64_t>(status.st_size)});
  }
}

/// Adds what lies below `folder`. Each file's status is asked for: its size decides how it is cut
/// into ranges. No folder is open while another one is read: there may be many, one in the other.
void walk(std::string const& folder, file_list& to) {
  std::string const prefix = folder.ends_with('/') ? folder : folder + '/';
  std::error_code error;
  auto const names = names_in(folder, error);
  if (error) to.errors.emplace_back(folder, error.message());
  for (auto const& name : names) {
    std::string path = prefix + name.string();
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      to.errors.emplace_back(std::move(path), error_text(errno));
    } else if (S_ISDIR(status.st_mode)) {
      walk(path, to);
    } else if (S_ISREG(status.st_mode)) {
      add_regular(std::move(path), status, to);
    }
  }
}

}  // namespace

file_list list_files(std::vector<std::string> const& operands) {
  file_list all;
  for (auto const& operand : operands) {
    auto const first = static_cast<std::ptrdiff_t>(all.files.size());
    struct stat status {};
    if (::stat(operand.c_str(), &status) != 0) {
      all.errors.emplace_back(operand, error_text(errno));
    } else if (S_ISDIR(status.st_mode)) {
      walk(operand, all);
    } else if (S_ISREG(status.st_mode)) {
      add_regular(operand, status, all);  // whether it can be read is for gopen to say
    } else {
      all.errors.emplace_back(operand, "is neither file nor folder");
    }
    std::sort(all.files.begin() + first, all.files.end(),
              [](auto const& a, auto const& b) { return a.path < b.path; });
  }
  return all;
}

}  // namespace gpufs::apps
