// Children of fork(): a child that exits, terminates or destroys its copy of a filesystem leaves
// the parent's files alone and ends.
#include <gpufs/gpufs.hpp>

#include <test/support/child.hpp>
#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/fork_child.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 4096;
constexpr int ends_with = 7;

/// Makes a child of fork() that runs `part` and then calls exit().
pid_t start_child(std::function<void()> const& part) {
  std::fflush(nullptr);
  pid_t const pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid != 0) return pid;
  ::signal(SIGABRT, SIG_DFL);  // not doctest's
  ::rlimit const no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  part();
  std::exit(ends_with);
}

/// The status of waitpid(2). A child that has not ended after a while is killed.
int status_of(pid_t pid) {
  int status = 0;
  auto const end = std::chrono::steady_clock::now() + std::chrono::seconds{scaled(20, 60)};
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) ::kill(pid, SIGKILL);
    std::this_thread::yield();
  }
  return status;
}

/// How a child has ended, for messages.
std::string ending(int status) {
  return WIFSIGNALED(status) ? std::string("by signal ") + ::strsignal(WTERMSIG(status))
                             : "by exit " + std::to_string(WEXITSTATUS(status));
}

bool has_exited(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == ends_with; }

/// A filesystem with a file whose first bytes are dirty: the disk is full while `full` is set.
/// `full` is part of what a child copies.
struct dirty_file {
  explicit dirty_file(std::string const& path) {
    faults->on_write = [this](std::uint64_t, std::uint64_t) {
      return full ? testing::fault_action::fail(ENOSPC) : testing::fault_action::pass();
    };
    fs.emplace(small_config(page, 16), faults);
    fd = fs->open(path, O_RDWR);
    REQUIRE(fd > 0);
    put(1);
    CHECK(fs->sync(fd) == -ENOSPC);  // from now on no thread tries by itself
  }

  /// A kernel writes the page of contents `seed`.
  void put(std::uint64_t seed) {
    op_batch batch;
    auto const put = batch.write(0, fd, 0, some_bytes(seed, 0, page));
    batch.run(fs->ref(), 1, 64);
    REQUIRE(batch.result(put) == std::int64_t(page));
  }

  std::shared_ptr<scripted_faults> faults = std::make_shared<scripted_faults>();
  std::atomic<bool> full{true};
  std::optional<testing::filesystem> fs;
  int fd = 0;
};

/// Runs `part` in two children of a process with dirty pages: one ends before the parent has
/// written the pages, the other after it has written newer bytes. Neither may change the file.
void check_children(dirty_file& file, std::string const& path, std::function<void()> const& part,
                    std::function<bool(int status)> const& expected) {
  auto const old = pread_bytes(path, 0, page);
  auto const in_child = [&] {
    file.full = false;  // it could write now
    part();
  };
  int const early_status = status_of(start_child(in_child));
  CAPTURE(ending(early_status));
  CHECK(expected(early_status));
  CHECK(pread_bytes(path, 0, page) == old);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  pid_t const late = start_child([&] {
    char go = 0;
    while (::read(ends[0], &go, 1) < 0) {
    }
    in_child();
  });
  file.full = false;
  CHECK(file.fs->sync(file.fd) == 0);
  file.put(2);
  CHECK(file.fs->sync(file.fd) == 0);
  CHECK(::write(ends[1], "x", 1) == 1);
  int const late_status = status_of(late);
  CAPTURE(ending(late_status));
  CHECK(expected(late_status));
  CHECK(pread_bytes(path, 0, page) == some_bytes(2, 0, page));
  ::close(ends[0]);
  ::close(ends[1]);
}

void run_what_is_not_there() {
  char name[] = "/nothing/here";
  char* const arguments[] = {name, nullptr};
  ::execvp(name, arguments);
}

bool has_aborted(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT; }

}  // namespace

TEST_CASE("a child that ends, by exit, after a failed exec, or by terminate, writes nothing") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", page);
  SUBCASE("exit") {
    dirty_file file(path);
    check_children(
        file, path, [] {}, has_exited);
  }
  SUBCASE("exit after a failed exec") {
    dirty_file file(path);
    check_children(file, path, run_what_is_not_there, has_exited);
  }
  SUBCASE("terminate") {
    dirty_file file(path);
    check_children(
        file, path, [] { std::terminate(); }, has_aborted);
  }
}

TEST_CASE("a child may destroy its copy of a filesystem: the parent's goes on") {
  scratch_folder folder;
  auto const path = make_file(folder, "file", page);
  dirty_file file(path);
  check_children(
      file, path, [&] { file.fs.reset(); }, has_exited);
  CHECK(file.fs->close(file.fd) == 0);
}

// A handler of exit() that runs after all of the library's, and before those that CUDA has
// registered.
static int after_ours[2];
extern "C" void say_that_ours_have_returned() {
  [[maybe_unused]] ssize_t const n = is_fork_child() ? ::write(after_ours[1], "x", 1) : 0;
}

TEST_CASE("child: static") {
  if (!is_part("static")) return;
  buffer<int> const uses_the_device(1);
  REQUIRE(::pipe2(after_ours, O_CLOEXEC | O_NONBLOCK) == 0);
  REQUIRE(std::atexit(say_that_ours_have_returned) == 0);
  static dirty_file file(given_path());
  check_children(
      file, given_path(), [] {},
      [](int status) {
        char said = 0;
        bool const ours_returned = ::read(after_ours[0], &said, 1) == 1;
#if defined(GPUFS_EMULATED)
        return ours_returned && has_exited(status);
#else
        // What CUDA's own handlers do in such a child is not promised.
        if (!has_exited(status)) std::printf("the child ended %s\n", ending(status).c_str());
        return ours_returned;
#endif
      });
  // This process ends with dirty bytes. They are written by a destructor that runs when the objects
  // of this thread are gone.
  file.put(3);
}

// Made before the library's list of filesystems, it ends behind it.
static std::unique_ptr<filesystem> owned_by_a_global;

TEST_CASE("child: global") {
  if (!is_part("global")) return;
  owned_by_a_global = std::make_unique<filesystem>(small_config(page, 16));
  int const fd = owned_by_a_global->open(given_path(), O_RDWR);
  op_batch b;
  b.write(0, fd, 0, some_bytes(3, 0, page));
  b.run(owned_by_a_global->ref(), 1, 64);
}

// A process that runs `part` ends well, and the file has what it wrote last.
static void check_end_of(char const* part) {
  scratch_folder folder;
  auto const path = make_file(folder, "file", page);
  child other(part, path);
  CHECK(other.succeeds());
  CHECK(pread_bytes(path, 0, page) == some_bytes(3, 0, page));
}

TEST_CASE("a process whose filesystem belongs to a global ends, and its bytes are written") {
  check_end_of("global");
}

TEST_CASE("a child of a process with a filesystem of static storage writes nothing and ends") {
  check_end_of("static");
}

TEST_CASE("children that exit while kernels write end, and every write arrives") {
  constexpr unsigned children = scaled(40, 8);
  scratch_folder folder;
  auto const path = make_file(folder, "file", 8 * page);
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(path, O_RDWR);
  std::atomic<bool> stop{false};
  std::uint64_t last = 1;
  std::thread writer([&] {
    do {
      op_batch batch;
      ++last;
      for (unsigned caller = 0; caller < 2; ++caller)
        batch.write(caller, fd, std::int64_t(4 * page) * caller,
                    some_bytes(last, 4 * page * caller, 4 * page));
      batch.run(fs.ref(), 2, 64);
    } while (!stop);
  });
  unsigned ended = 0;
  for (unsigned i = 0; i < children; ++i) ended += has_exited(status_of(start_child([] {})));
  stop = true;
  writer.join();
  CHECK(ended == children);
  CHECK(fs.close(fd) == 0);
  CHECK(pread_bytes(path, 0, 8 * page) == some_bytes(last, 0, 8 * page));
}
