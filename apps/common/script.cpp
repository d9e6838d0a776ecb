#include <apps/common/script.hpp>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace gpufs::apps {

int run_command(std::vector<std::string> const& words, std::string const& output) {
  std::vector<char*> arguments;
  for (auto const& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  ::posix_spawn_file_actions_t actions;
  if (::posix_spawn_file_actions_init(&actions) != 0) return -1;
  constexpr int flags = O_WRONLY | O_CREAT | O_APPEND;
  constexpr mode_t mode = 0666;
  bool const can_start =
      output.empty() ||
      ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), flags, mode) == 0;
  bool const has_started = can_start && ::posix_spawnp(&child, arguments[0], &actions, nullptr,
                                                       arguments.data(), environ) == 0;
  ::posix_spawn_file_actions_destroy(&actions);
  if (!has_started) return -1;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string find_program(std::string const& name) {
  std::error_code error;
  auto const own = std::filesystem::read_symlink("/proc/self/exe", error);
  auto const path = own.parent_path() / name;
  return !error && std::filesystem::exists(path, error) ? path.string() : std::string();
}

std::string find_script(std::string const& name) {
  std::error_code error;
  auto const program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (auto const& place :
       {program.parent_path() / name, program.parent_path().parent_path() / "share/gpufs" / name}) {
    if (std::filesystem::exists(place, error)) return place.string();
  }
  return {};
}

std::string python_with(std::string const& module) {
  // The distribution's packages belong to its own Python, which need not be the first on the PATH.
  for (std::string const python : {"python3", "/usr/bin/python3"}) {
    std::string const look =
        "import importlib.util as u, sys; sys.exit(u.find_spec('" + module + "') is None)";
    if (run_command({python, "-c", look}) == 0) return python;
  }
  return {};
}

int run_script(std::string const& python, std::string const& script,
               std::vector<std::string> const& arguments) {
  std::vector<std::string> words{python, script};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_command(words);
}

int run_picture_script(std::string const& script, std::vector<std::string> const& arguments) {
  std::string python = python_with("PIL");
  if (python.empty()) python = python_with("zlib");
  return python.empty() ? -1 : run_script(python, script, arguments);
}

}  // namespace gpufs::apps
