#include <apps/common/durable.hpp>
#include <apps/common/host_file.hpp>
#include <apps/common/names_in.hpp>
#include <apps/gpufs-cp/copy_tree.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpufs::apps {

namespace {

namespace stdfs = std::filesystem;

constexpr mode_t permissions = 0777;

std::error_code last_error() { return {errno, std::generic_category()}; }

/// A name beside `to` that is free.
std::string name_beside(stdfs::path const& to) {
  return (to.parent_path() / ".gpufs-cp-XXXXXX").string();
}

/// Makes an empty file beside the target and stores its name in `path`.
std::error_code make_part(stdfs::path const& to, std::string& path) {
  path = name_beside(to);
  int const fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return last_error();
  ::close(fd);
  return {};
}

/// Calls make(name) for a free name, then renames the new file to `to`.
template <class Make>
std::error_code put_in_place(copy_plan& plan, stdfs::path const& to, Make const& make) {
  std::lock_guard const lock(plan.mutex);
  if (plan.abandoned) return {};
  std::string name;
  if (auto const error = make_part(to, name)) return error;
  std::error_code error;
  if (::unlink(name.c_str()) != 0 || !make(name) || ::rename(name.c_str(), to.c_str()) != 0)
    error = last_error();
  // Renaming does nothing where both are names of one file already.
  ::unlink(name.c_str());
  return error;
}

bool same_file(struct stat const& a, struct stat const& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Whether `from` is a link that leads to that file.
bool leads_to(stdfs::path const& from, struct stat const& there) {
  struct stat behind {};
  return ::stat(from.c_str(), &behind) == 0 && same_file(behind, there);
}

/// Why a copy of `source`, whose status is `from`, may not go there; empty if it may.
std::string in_the_way(stdfs::path const& source, struct stat const& from, stdfs::path const& to) {
  struct stat there {};
  if (::lstat(to.c_str(), &there) != 0) return {};
  if (same_file(from, there) || leads_to(source, there)) return "is the same file as its target";
  if (S_ISDIR(from.st_mode)) return S_ISDIR(there.st_mode) ? "" : "is a folder, its target is none";
  if (S_ISREG(from.st_mode) && S_ISLNK(there.st_mode)) {
    struct stat behind {};
    if (::stat(to.c_str(), &behind) == 0) there = behind;
    if (same_file(from, there)) return "is the same file as its target";
  }
  if (S_ISDIR(there.st_mode)) return "is no folder, its target is one";
  return S_ISREG(there.st_mode) || S_ISLNK(there.st_mode)
             ? ""
             : "is a file or a link, its target is neither";
}

/// The places in copy_plan::files of files that have several names, by device and inode.
using first_names = std::map<std::pair<dev_t, ino_t>, std::size_t>;

/// Whether it is the folder that the copy makes. A mount may show it below the source, too.
bool is_target(struct stat const& folder, copy_plan const& plan) {
  struct stat made {};
  return !plan.folders.empty() && ::stat(plan.folders.front().path.c_str(), &made) == 0 &&
         same_file(folder, made);
}

void add(stdfs::path const& from, stdfs::path const& to, first_names& names, copy_plan& plan) {
  auto const complain = [&](stdfs::path const& path, std::string const& what) {
    plan.errors.emplace_back(path.string(), what);
  };
  struct stat status {};
  if (::lstat(from.c_str(), &status) != 0) return complain(from, last_error().message());
  if (auto const what = in_the_way(from, status, to); !what.empty()) return complain(from, what);
  std::error_code error;
  if (S_ISLNK(status.st_mode)) {
    auto const end = stdfs::read_symlink(from, error);
    if (error) return complain(from, error.message());
    plan.links.push_back({end.string(), to.string()});
  } else if (S_ISDIR(status.st_mode)) {
    if (is_target(status, plan)) return complain(from, "cannot be copied into itself");
    if (::mkdir(to.c_str(), (status.st_mode & permissions) | S_IRWXU) != 0 && errno != EEXIST)
      return complain(to, last_error().message());
    plan.folders.push_back({to.string(), status.st_mode & permissions});
    auto const entries = names_in(from, error);
    if (error) complain(from, error.message());
    for (auto const& name : entries) add(from / name, to / name, names, plan);
  } else if (S_ISREG(status.st_mode)) {
    if (status.st_size == 0 && has_bytes_without_size(from))
      return complain(from, bytes_without_size);
    std::pair const file{status.st_dev, status.st_ino};
    if (auto const first = names.find(file); first != names.end())
      return plan.names.push_back({first->second, to.string()});
    std::lock_guard const lock(plan.mutex);
    if (plan.abandoned) return;
    std::string part;
    if (auto const e = make_part(to, part)) return complain(to, e.message());
    if (status.st_nlink > 1) names[file] = plan.files.size();
    plan.files.push_back({from.string(), std::move(part), to.string(),
                          static_cast<std::uint64_t>(status.st_size),
                          status.st_mode & permissions});
  } else {
    complain(from, "is neither file, folder nor symbolic link");
  }
}

/// Sets the permissions of a folder and leaves it open in `fd`; it is -1 if it may not be read.
std::error_code open_and_set_mode(copied_folder const& f, int& fd) {
  fd = ::open(f.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno != EACCES) return last_error();
  return (fd >= 0 ? ::fchmod(fd, f.mode)
                  : ::fchmodat(AT_FDCWD, f.path.c_str(), f.mode, AT_SYMLINK_NOFOLLOW)) == 0
             ? std::error_code()
             : last_error();
}

/// `in_place`: whether each file is renamed to its target.
void finish_names(copy_plan& plan, std::vector<bool> const& in_place, copy_errors& errors) {
  for (auto const& n : plan.names) {
    auto const& first = plan.files[n.first].to;
    if (!in_place[n.first]) {
      errors.emplace_back(n.to, "is a name of " + first + ", which was not copied");
      continue;
    }
    auto const error = put_in_place(plan, n.to, [&](std::string const& name) {
      return ::link(first.c_str(), name.c_str()) == 0;
    });
    if (error) errors.emplace_back(n.to, error.message());
  }
}

void finish_links(copy_plan& plan, copy_errors& errors) {
  for (auto const& l : plan.links) {
    auto const error = put_in_place(plan, l.to, [&](std::string const& name) {
      return ::symlink(l.leads_to.c_str(), name.c_str()) == 0;
    });
    if (error) errors.emplace_back(l.to, error.message());
  }
}

/// Permissions first, then durability, for many folders at a time: the file system then writes its
/// journal once for all of them.
void finish_folders(copy_plan const& plan, copy_errors& errors) {
  constexpr std::size_t together = 64;
  bool all_readable = true;
  std::vector<int> open;
  // Those within a folder before it: it may forbid to look into it.
  for (std::size_t left = plan.folders.size(); left > 0;) {
    auto const end = left;
    for (open.clear(); left > 0 && open.size() < together; --left) {
      auto const& f = plan.folders[left - 1];
      if (auto const error = open_and_set_mode(f, open.emplace_back()))
        errors.emplace_back(f.path, error.message());
    }
    for (std::size_t i = 0; i < open.size(); ++i) {
      all_readable = all_readable && open[i] >= 0;
      if (open[i] < 0) continue;
      if (auto const error = make_durable(open[i]))
        errors.emplace_back(plan.folders[end - 1 - i].path, error.message());
      ::close(open[i]);
    }
  }
  if (!all_readable) ::sync();
  if (auto const error = make_folder_durable(plan.folder))
    errors.emplace_back(plan.folder, error.message());
}

}  // namespace

std::int32_t make_part_durable(copied_file const& file) noexcept {
  int const fd = ::open(file.part.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -errno;
  int const error = ::fchmod(fd, file.mode) != 0 ? errno : make_durable(fd).value();
  ::close(fd);
  return -error;
}

void prepare_copy(std::string const& source, std::string const& target, copy_plan& plan) {
  stdfs::path const from(source);
  stdfs::path to(target);
  std::error_code ignored;
  if (stdfs::is_directory(to, ignored)) {
    auto const name = from.filename().empty() ? from.parent_path().filename() : from.filename();
    if (name != "." && name != "..") to /= name;
  }
  plan.folder = folder_of(to.filename().empty() ? to.parent_path() : to);
  auto const inside = stdfs::weakly_canonical(to, ignored).string();
  auto const outside = stdfs::weakly_canonical(from, ignored).string();
  if (stdfs::is_directory(stdfs::symlink_status(from, ignored)) &&
      (inside + "/").starts_with(outside == "/" ? outside : outside + "/")) {
    plan.errors.emplace_back(source, "cannot be copied into itself");
    return;
  }
  first_names names;
  add(from, to, names, plan);
}

copy_errors finish_copy(copy_plan& plan, std::vector<std::int32_t> const& results) {
  copy_errors errors;
  std::vector<bool> in_place;
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    copied_file const& f = plan.files[i];
    std::lock_guard const lock(plan.mutex);
    if (plan.abandoned) return errors;
    bool const renamed = results[i] == 0 && ::rename(f.part.c_str(), f.to.c_str()) == 0;
    if (results[i] == 0 && !renamed) errors.emplace_back(f.to, last_error().message());
    if (!renamed) ::unlink(f.part.c_str());
    in_place.push_back(renamed);
  }
  finish_names(plan, in_place, errors);
  finish_links(plan, errors);
  finish_folders(plan, errors);
  return errors;
}

void abandon_copy(copy_plan& plan) noexcept {
  std::lock_guard const lock(plan.mutex);
  plan.abandoned = true;
  for (auto const& f : plan.files) ::unlink(f.part.c_str());
}

}  // namespace gpufs::apps
