// Other processes for tests: this program run again, for one test case that is the child's part.
#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

namespace gpufs::test {

struct child_options {
  std::string output_to{};  ///< where its stdout and stderr go; empty: to ours
  /// SIGTERM, SIGINT and SIGHUP are blocked in all its threads, for it to take up with sigwait(3)
  bool signals_wait = false;
  /// not 0: on `path` it sees a new tmpfs of that size, which nobody else sees
  std::uint64_t tmpfs_bytes = 0;
};

/// A process that runs the test case "child: PART" of this program, and is killed at the end of the
/// scope if it has not ended by then. With
/// `--test-case` given to it, it runs nothing else; that test case begins with `if (!is_part(PART))
/// return;`, so that it does nothing here.
class child {
 public:
  /// Throws std::system_error if there is no process to be had.
  child(char const* part, std::string const& path, child_options const& options = {});
  ~child();
  child(child const&) = delete;
  child& operator=(child const&) = delete;

  /// Why it could not be given what the options ask for, e.g. "mount a tmpfs: Operation not
  /// permitted"; then it has not run.
  [[nodiscard]] std::string const& refused() const { return refused_; }

  void kill(int signal) const;
  [[nodiscard]] bool running();
  /// The status of waitpid(2).
  int wait();
  /// wait(): it ended by exit(0), so all its checks held.
  bool succeeds();

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  std::string refused_;
};

/// Whether this process is the child that was made for `part`, and the path that was given to it.
[[nodiscard]] bool is_part(char const* part);
[[nodiscard]] std::string given_path();

}  // namespace gpufs::test
