#include <test/support/child.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace gpufs::test {

namespace {

constexpr char part_variable[] = "GPUFS_TEST_PART";
constexpr char path_variable[] = "GPUFS_TEST_PATH";

/// What failed in the child before it became the program: sent through a pipe that a successful
/// exec closes.
struct failure {
  char const* step;
  int error;
};

// From here to run(): between fork and exec, where only system calls are safe.
bool put(char const* file, std::string_view text) {
  int const fd = ::open(file, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool const written = ::write(fd, text.data(), text.size()) == ssize_t(text.size());
  int const error = errno;
  ::close(fd);
  errno = error;
  return written;
}

/// Mount points of its own: as root, or as root in a user namespace.
char const* leave_mounts(std::string const& user_map, std::string const& group_map) {
  if (::unshare(CLONE_NEWNS) != 0) {
    if (errno != EPERM || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
      return "have mount points of one's own";
    if (!put("/proc/self/setgroups", "deny") || !put("/proc/self/uid_map", user_map) ||
        !put("/proc/self/gid_map", group_map))
      return "be root in a user namespace";
  }
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0
             ? nullptr
             : "make mount points private";
}

}  // namespace

child::child(char const* part, std::string const& path, child_options const& options) {
  std::string argument = std::string("--test-case=child: ") + part;
  char program[] = "/proc/self/exe", quiet[] = "--minimal";
  char* const arguments[] = {program, argument.data(), quiet, nullptr};
  std::string given_part = std::string(part_variable) + '=' + part,
              path_given = std::string(path_variable) + '=' + path;
  std::vector<char*> environment;
  for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
  environment.insert(environment.end(), {given_part.data(), path_given.data(), nullptr});
  std::string const size = "size=" + std::to_string(options.tmpfs_bytes);
  std::string const user_map = "0 " + std::to_string(::getuid()) + " 1",
                    group_map = "0 " + std::to_string(::getgid()) + " 1";
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  pid_ = ::fork();
  if (pid_ == 0) {
    char const* failed = nullptr;
    if (options.tmpfs_bytes != 0) {
      failed = leave_mounts(user_map, group_map);
      if (failed == nullptr && ::mount("tmpfs", path.c_str(), "tmpfs", 0, size.c_str()) != 0)
        failed = "mount a tmpfs";
    }
    if (failed == nullptr && !options.output_to.empty()) {
      int const fd =
          ::open(options.output_to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
      if (fd < 0 || ::dup2(fd, STDOUT_FILENO) < 0 || ::dup2(fd, STDERR_FILENO) < 0)
        failed = "redirect its output";
    }
    if (options.signals_wait) {
      ::sigset_t set;
      ::sigemptyset(&set);
      ::sigaddset(&set, SIGTERM);
      ::sigaddset(&set, SIGINT);
      ::sigaddset(&set, SIGHUP);
      ::sigprocmask(SIG_BLOCK, &set, nullptr);
    }
    if (failed == nullptr) {
      ::execve(program, arguments, environment.data());
      failed = "run this program again";
    }
    failure const why{failed, errno};
    [[maybe_unused]] auto const sent = ::write(ends[1], &why, sizeof why);
    ::_exit(127);
  }
  int const error = errno;
  ::close(ends[1]);
  failure why{};
  bool const failed = pid_ > 0 && ::read(ends[0], &why, sizeof why) == ssize_t(sizeof why);
  ::close(ends[0]);
  if (pid_ < 0) throw std::system_error(error, std::generic_category(), "fork");
  if (!failed) return;
  refused_ = std::string(why.step) + ": " + std::strerror(why.error);
  wait();
}

child::~child() {
  if (pid_ <= 0) return;
  kill(SIGKILL);
  wait();
}

void child::kill(int signal) const {
  if (pid_ > 0) ::kill(pid_, signal);
}

bool child::running() {
  if (pid_ > 0 && ::waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

int child::wait() {
  if (pid_ > 0) ::waitpid(pid_, &status_, 0);
  pid_ = -1;
  return status_;
}

bool child::succeeds() {
  int const status = wait();
  if (WIFSIGNALED(status))
    std::fprintf(stderr, "child: ended by signal: %s\n", ::strsignal(WTERMSIG(status)));
  return refused_.empty() && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool is_part(char const* part) {
  char const* const given = std::getenv(part_variable);
  return given != nullptr && std::string_view(given) == part;
}

std::string given_path() { return std::getenv(path_variable); }

}  // namespace gpufs::test
