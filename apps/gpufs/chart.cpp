#include <apps/gpufs/chart.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <system_error>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>

extern char** environ;

namespace gpufs::apps {

namespace {

constexpr int no_matplotlib = 3;  // the script's exit status

constexpr char script_name[] = "plot.py";

/// The script beside this program, or where it is installed; empty if it is in neither place.
std::string find_script() {
  std::error_code error;
  auto const program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (auto const& place :
       {program.parent_path() / script_name, program.parent_path().parent_path() / "share/gpufs" / script_name}) {
    if (std::filesystem::exists(place, error)) return place.string();
  }
  return {};
}

/// Runs a program and waits for it. Returns its exit status, or -1 if it could not be run or did not end by itself.
int run(std::initializer_list<std::string> words) {
  std::vector<std::string> const kept(words);
  std::vector<char*> arguments;
  for (auto const& word : kept) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) return -1;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::string draw_chart(std::string const& csv, std::string const& png) {
  std::string const script = find_script();
  if (script.empty()) return fmt::format("{} is not beside this program: run it on {}", script_name, csv);
  // The distribution's package belongs to its own Python, which need not be the first on the PATH.
  for (char const* python : {"/usr/bin/python3", "python3"}) {
    int const status = run({python, script, csv, png});
    if (status == 0) return {};
    if (status != no_matplotlib && status != -1 && status != 127) return fmt::format("{} failed on {}", script, csv);
  }
  return fmt::format("charts need Python with matplotlib (package python3-matplotlib); later: python3 {} {}", script, csv);
}

}  // namespace gpufs::apps
