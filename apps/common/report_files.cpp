#include <apps/common/durable.hpp>
#include <apps/common/nvme_spec.hpp>
#include <apps/common/program.hpp>
#include <apps/common/report_files.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include <unistd.h>

namespace gpufs::apps {

namespace {

namespace stdfs = std::filesystem;

/// Whether both are, or will be, the same regular file.
bool is_same(std::string const& a, std::string const& b) {
  std::error_code ignored;
  if (stdfs::exists(a, ignored))
    return stdfs::is_regular_file(a, ignored) && stdfs::equivalent(a, b, ignored);
  return stdfs::weakly_canonical(stdfs::absolute(a, ignored), ignored) ==
         stdfs::weakly_canonical(stdfs::absolute(b, ignored), ignored);
}

/// The file, or the members of a block file.
std::vector<std::string> members(std::string const& file) {
  if (is_nvme_spec(file)) return parse_nvme_spec(file).members;
  return {file};
}

void check_report_file(report_file const& r) {
  std::error_code ignored;
  if (stdfs::is_directory(r.path, ignored))
    throw usage_error(fmt::format("{}={}: is a folder", r.option, r.path));
  // What is there and no regular file is just written to.
  if (stdfs::is_regular_file(r.path, ignored) || !stdfs::exists(r.path, ignored))
    check_target_folder(r.option, r.path);
}

}  // namespace

void check_target_folder(std::string const& option, std::string const& path) {
  std::error_code error;
  auto const end = stdfs::canonical(path, error).string();
  auto const folder = folder_of(error ? path : end);
  if (!stdfs::is_directory(folder, error))
    throw usage_error(fmt::format("{}={}: there is no folder {}", option, path, folder));
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw usage_error(fmt::format("{}={}: {}: {}", option, path, folder, error_text(errno)));
}

void check_report_files(std::vector<report_file> const& reports,
                        std::vector<std::string> const& only_read) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    auto const& r = reports[i];
    if (r.path.empty()) continue;
    check_report_file(r);
    for (auto const& file : only_read) {
      for (auto const& member : members(file)) {
        if (!is_same(r.path, member)) continue;
        throw usage_error(fmt::format("{}={}: is the file to be read, which is never written to",
                                      r.option, r.path));
      }
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (reports[k].path.empty() || !is_same(r.path, reports[k].path)) continue;
      throw usage_error(
          fmt::format("{}={}: is the file of {}, too", r.option, r.path, reports[k].option));
    }
  }
}

}  // namespace gpufs::apps
