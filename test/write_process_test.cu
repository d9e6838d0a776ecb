// Writing among processes: a writer that is killed in the middle, one that just exits, and one that opens after us and before us.
#include <doctest/doctest.h>

#include <gpufs/gpufs.hpp>
#include <test/support/faults.hpp>
#include <test/support/file_ops.hpp>
#include <test/support/files.hpp>
#include <test/support/settings.hpp>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace cg = cooperative_groups;
using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t pages = 24;
constexpr unsigned storm_blocks = 4;
constexpr char part_variable[] = "GPUFS_TEST_PART";  // what a child of this program is to do, and
constexpr char path_variable[] = "GPUFS_TEST_PATH";  // with which file

/// In round r every byte of the file becomes r + 1, in pieces that are no pages. Goes on for ever.
__global__ void storm(fs_ref fs, int fd, std::byte* pieces, std::uint64_t piece, std::uint64_t bytes, std::uint32_t* rounds) {
  auto const block = cg::this_thread_block();
  io_context io(fs, block);
  std::byte* const mine = pieces + blockIdx.x * piece;
  for (std::uint32_t round = 0;; ++round) {
    for (std::uint64_t i = threadIdx.x; i < piece; i += blockDim.x) mine[i] = static_cast<std::byte>(round % 200 + 1);
    for (std::uint64_t at = blockIdx.x * piece; at < bytes; at += gridDim.x * piece) {
      ssize_t const n = gwrite(io, fd, mine, bytes - at < piece ? bytes - at : piece, std::int64_t(at));
      if (n < 0) return;
    }
    if (threadIdx.x == 0) atomic_ref<std::uint32_t, scope::system>(rounds[blockIdx.x]).store(round + 1, memory_order_release);
  }
}

/// Runs this program again, for the one test case that is the child's part.
class child {
 public:
  child(char const* part, std::string const& path) {
    std::string const filter = std::string("--test-case=child: ") + part;
    ::setenv(part_variable, part, 1);
    ::setenv(path_variable, path.c_str(), 1);
    char program[] = "/proc/self/exe";
    char quiet[] = "--minimal";
    std::string argument = filter;
    char* const arguments[] = {program, argument.data(), quiet, nullptr};
    int const error = ::posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, arguments, environ);
    ::unsetenv(part_variable);
    ::unsetenv(path_variable);
    REQUIRE(error == 0);
  }
  ~child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }
  child(child const&) = delete;
  child& operator=(child const&) = delete;

  void kill(int signal) const { ::kill(pid_, signal); }
  [[nodiscard]] bool running() {
    int status = 0;
    return pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == 0;
  }
  /// The status of waitpid(2).
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
};

bool is_part(char const* part) {
  char const* const given = std::getenv(part_variable);
  return given != nullptr && std::string(given) == part;
}
std::string given_path() { return std::getenv(path_variable); }

}  // namespace

TEST_CASE("child: storm") {
  if (!is_part("storm")) return;
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(given_path(), O_RDWR);
  REQUIRE(fd > 0);
  constexpr std::uint64_t piece = 5000;
  buffer<std::byte> pieces(storm_blocks * piece);
  pinned_buffer<std::uint32_t> rounds(storm_blocks);
  rounds.fill_zero();
  launch(storm, storm_blocks, 64, fs.ref(), fd, pieces.data(), piece, std::uint64_t(pages * page), rounds.data());
  // Tells the parent with an empty file that everything has been written at least twice.
  wait_until(
      [&] {
        for (auto& r : rounds)
          if (atomic_ref<std::uint32_t, scope::system>(r).load(memory_order_acquire) < 2) return false;
        return true;
      },
      "two rounds of writing");
  set_size(given_path() + ".going", 0);
  this_thread_stream().synchronize();  // never
}

TEST_CASE("child: append") {
  if (!is_part("append")) return;
  filesystem fs(small_config(page, 16));
  int const fd = fs.open(given_path(), O_RDWR | O_APPEND);
  REQUIRE(fd > 0);
  file_status status{};
  REQUIRE(fs.stat(fd, status) == 0);
  op_batch batch;
  auto const seen = batch.read(0, fd, 0, status.size);
  batch.write(0, fd, 0, some_bytes(2, 0, 1000));
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.bytes(seen) == some_bytes(1, 0, status.size));  // what the parent wrote
  CHECK(fs.close(fd) == 0);
}

TEST_CASE("child: exit") {
  if (!is_part("exit")) return;
  // No page is written before the program begins to exit. Handlers run in reverse order: this one before the filesystem's own.
  static auto const gate = std::make_shared<daemon::gate>();
  auto faults = std::make_shared<scripted_faults>();
  faults->on_write = [](std::uint64_t, std::uint64_t) { return daemon::fault_action::hold(gate); };
  auto* const fs = new filesystem(small_config(page, 64), faults);
  std::atexit([] { gate->release(); });
  int const fd = fs->open(given_path(), O_RDWR | O_CREAT);
  op_batch batch;
  batch.write(0, fd, 0, some_bytes(3, 0, 7 * page));
  batch.run(fs->ref(), 1, 64);
  std::exit(batch.result(0) == std::int64_t(7 * page) ? 0 : 1);
}

TEST_CASE("a program that exits without destroying its filesystem has written its dirty pages") {
  if (std::getenv(part_variable) != nullptr) return;
  scratch_folder folder;
  auto const path = folder / "file";
  child other("exit", path);
  int const status = other.wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(pread_bytes(path, 0, ~0ull) == some_bytes(3, 0, 7 * page));
}

TEST_CASE("a process that is killed while it writes leaves in every byte the old value or one that was written") {
  if (std::getenv(part_variable) != nullptr) return;
  for (unsigned again = 0; again < scaled(4, 1); ++again) {
    scratch_folder folder;
    auto const path = folder / "file";
    set_size(path, 0);
    {
      std::vector<std::byte> const old(pages * page, std::byte{255});
      filesystem fs(small_config(page, 64));
      int const fd = fs.open(path, O_WRONLY);
      CHECK(fs.write(fd, old.data(), old.size(), 0) == std::int64_t(old.size()));
      CHECK(fs.close(fd) == 0);
    }
    child writer("storm", path);
    wait_until([&] { return std::filesystem::exists(path + ".going") || !writer.running(); }, "the child has written");
    REQUIRE(std::filesystem::exists(path + ".going"));
    writer.kill(SIGKILL);
    CHECK(WIFSIGNALED(writer.wait()));
    auto const left = pread_bytes(path, 0, ~0ull);
    REQUIRE(left.size() == pages * page);
    std::size_t neither = 0, changed = 0;
    for (auto const b : left) {
      auto const value = std::to_integer<unsigned>(b);
      neither += value == 0 || (value > 200 && value != 255) ? 1 : 0;
      changed += value != 255 ? 1 : 0;
    }
    CHECK(neither == 0);
    CHECK(changed > 0);  // with a cache smaller than the file much must have been written back
  }
}

TEST_CASE("close-to-open with another process: it sees what we closed, we see what it closed") {
  if (std::getenv(part_variable) != nullptr) return;
  scratch_folder folder;
  auto const path = folder / "file";
  filesystem fs(small_config(page, 16));
  auto const ours = some_bytes(1, 0, 3 * page + 17);
  int const fd = fs.open(path, O_RDWR | O_CREAT);
  op_batch batch;
  batch.write(0, fd, 0, ours);
  batch.close(0, fd);
  batch.run(fs.ref(), 1, 64);
  CHECK(batch.result(1) == 0);
  child other("append", path);
  int const status = other.wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  auto expected = ours;
  auto const theirs = some_bytes(2, 0, 1000);
  expected.insert(expected.end(), theirs.begin(), theirs.end());
  int const again = fs.open(path, O_RDONLY);
  op_batch after;
  auto const read = after.read(0, again, 0, 10 * page);
  after.run(fs.ref(), 1, 64);
  CHECK(after.bytes(read) == expected);
  CHECK(fs.close(again) == 0);
}
