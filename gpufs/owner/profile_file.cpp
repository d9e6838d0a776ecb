#include <gpufs/owner/file_text.hpp>
#include <gpufs/owner/profile_file.hpp>
#include <gpufs/owner/setting_kinds.hpp>

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>

#include <unistd.h>

namespace gpufs::owner {

namespace {

/// Adds what the file has. Returns why not, or nothing. A file that is missing has nothing.
std::string read_into(shared::launch_profile& known, std::string const& path) try {
  auto const wrong = known.read(file_text(path));
  if (wrong == 0) return "";
  return fmt::format("line {}: must be NUMBER BYTES PARTS NAME as in 0 8388608 0,2-3 add", wrong);
} catch (std::system_error const& e) {
  if (e.code().value() == ENOENT) return "";
  return fmt::format("cannot be read: {}", std::strerror(e.code().value()));
}

/// Puts the text in the file's place as a whole. Other threads may do so as well.
std::string replace(std::string const& path, std::string const& text) {
  static std::atomic<unsigned> made{0};
  // Relaxed: only the number counts.
  auto const number = made.fetch_add(1, std::memory_order_relaxed);
  auto const beside = fmt::format("{}.{}.{}", path, ::getpid(), number);
  errno = 0;
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file.fail() || std::rename(beside.c_str(), path.c_str()) != 0) {
    auto const why = fmt::format("cannot be written: {}", std::strerror(errno));
    ::unlink(beside.c_str());
    return why;
  }
  return "";
}

std::string keep(shared::launch_profile& known, std::string const& path) {
  auto why = read_into(known, path);
  if (why.empty()) why = replace(path, known.text());
  return why.empty() ? why : fmt::format("{}: {}", path, why);
}

}  // namespace

shared::profile_keeper open_profile(std::string const& path, bool is_written) {
  shared::profile_keeper keeper;
  if (path.empty()) return keeper;
  auto const file = absolute_path("mapping_profile", path);
  auto why = read_into(keeper.known, file);
  if (why.empty() && is_written) why = replace(file, keeper.known.text());
  if (!why.empty()) reject("mapping_profile", path, fmt::format("a file of profiles ({})", why));
  keeper.keep = [file](shared::launch_profile& known) { return keep(known, file); };
  return keeper;
}

}  // namespace gpufs::owner
