#include <apps/gpufs-cp/copy_tree.hpp>

#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::apps {

namespace {

namespace stdfs = std::filesystem;

/// Empties or makes the target. Returns 0 or errno.
int make_empty(std::string const& path, mode_t mode) {
  int const fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode & 07777);
  if (fd < 0) return errno;
  ::close(fd);
  return 0;
}

/// The copies of files that have several names, by device and inode.
using first_names = std::map<std::pair<dev_t, ino_t>, stdfs::path>;

void add(stdfs::path const& from, stdfs::path const& to, first_names& names, copy_plan& plan) {
  auto const complain = [&](stdfs::path const& path, std::error_code const& e) {
    plan.errors.emplace_back(path.string(), e.message());
  };
  struct stat status {};
  if (::lstat(from.c_str(), &status) != 0) return complain(from, {errno, std::generic_category()});
  std::error_code error;
  if (S_ISLNK(status.st_mode)) {
    stdfs::remove(to, error);
    stdfs::copy_symlink(from, to, error);
    if (error) complain(to, error);
  } else if (S_ISDIR(status.st_mode)) {
    stdfs::create_directory(to, error);
    if (error) return complain(to, error);
    stdfs::directory_iterator entries(from, error);
    if (error) return complain(from, error);
    for (; entries != stdfs::directory_iterator{}; entries.increment(error)) {
      add(entries->path(), to / entries->path().filename(), names, plan);
      if (error) return complain(from, error);
    }
  } else if (S_ISREG(status.st_mode)) {
    struct stat there {};
    if (::stat(to.c_str(), &there) == 0 && there.st_dev == status.st_dev && there.st_ino == status.st_ino)
      return plan.errors.emplace_back(from.string(), "is the same file as its target"), void();
    if (status.st_nlink > 1) {
      auto const [first, is_first] = names.try_emplace({status.st_dev, status.st_ino}, to);
      if (!is_first) {
        stdfs::remove(to, error);
        stdfs::create_hard_link(first->second, to, error);
        if (error) complain(to, error);
        return;
      }
    }
    if (int const e = make_empty(to.string(), status.st_mode | S_IWUSR); e != 0)
      return complain(to, {e, std::generic_category()});
    plan.files.push_back({from.string(), to.string(), static_cast<std::uint64_t>(status.st_size)});
  } else {
    plan.errors.emplace_back(from.string(), "is neither file, folder nor symbolic link");
  }
}

}  // namespace

copy_plan prepare_copy(std::string const& source, std::string const& target) {
  copy_plan plan;
  stdfs::path const from(source);
  stdfs::path to(target);
  std::error_code ignored;
  if (stdfs::is_directory(to, ignored)) {
    auto const name = from.filename().empty() ? from.parent_path().filename() : from.filename();
    to /= name;
  }
  auto const inside = stdfs::weakly_canonical(to, ignored).string();
  auto const outside = stdfs::weakly_canonical(from, ignored).string();
  if (stdfs::is_directory(from, ignored) && (inside + "/").starts_with(outside + "/")) {
    plan.errors.emplace_back(source, "cannot be copied into itself");
    return plan;
  }
  first_names names;
  add(from, to, names, plan);
  return plan;
}

}  // namespace gpufs::apps
