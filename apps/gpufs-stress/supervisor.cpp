#include <apps/common/program.hpp>
#include <apps/common/seconds_since.hpp>
#include <apps/gpufs-stress/board.hpp>
#include <apps/gpufs-stress/round.hpp>
#include <apps/gpufs-stress/supervisor.hpp>
#include <apps/gpufs-stress/verify.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gpufs::stress {

namespace {

using clock = std::chrono::steady_clock;

/// A descriptor that is closed at the end of the scope.
class open_file {
 public:
  open_file(std::string const& path, int flags) : fd_(::open(path.c_str(), flags, 0644)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), path);
  }
  ~open_file() { ::close(fd_); }
  open_file(open_file const&) = delete;
  open_file& operator=(open_file const&) = delete;
  [[nodiscard]] int number() const { return fd_; }

 private:
  int fd_;
};

/// The process of a round.
class round_process {
 public:
  round_process(round_plan const& plan, supervisor_options const& o, board const& shared) {
    std::vector<std::string> const words = {"gpufs-stress",
                                            "--dir",
                                            o.folder,
                                            "--seed",
                                            std::to_string(plan.seed),
                                            "--gpus",
                                            std::to_string(o.devices),
                                            "--board",
                                            std::to_string(shared.descriptor())};
    std::vector<char*> arguments;
    for (auto const& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
    arguments.push_back(nullptr);
    pid_t const supervisor = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid_ != 0) return;
    // A signal may end the supervisor, also before this call.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != supervisor) ::_exit(127);
    ::execv("/proc/self/exe", arguments.data());
    ::_exit(127);
  }
  ~round_process() {
    if (pid_ <= 0) return;
    kill();
    static_cast<void>(ended(0));
  }
  round_process(round_process const&) = delete;
  round_process& operator=(round_process const&) = delete;

  void kill() const { ::kill(pid_, SIGKILL); }

  /// The status of waitpid(2) once the process has ended.
  [[nodiscard]] std::optional<int> ended(int flags = WNOHANG) {
    int status = 0;
    if (::waitpid(pid_, &status, flags) != pid_) return {};
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
};

/// The cells that this process writes itself, beside the round.
class foreign_writer {
 public:
  foreign_writer(round_plan const& plan, std::string const& path)
      : plan_(plan), file_(path, O_WRONLY | O_CLOEXEC) {}

  void write_all() {
    ++version_;
    for (std::uint64_t c = plan_.foreign_owner(); c < plan_.cells; c += plan_.owners()) {
      auto const bytes = cell_bytes_of(plan_, c, version_);
      auto const at = static_cast<off_t>(c * plan_.cell_bytes);
      if (::pwrite(file_.number(), bytes.data(), bytes.size(), at) != ssize_t(bytes.size()))
        throw std::system_error(errno, std::generic_category(), "pwrite");
    }
  }
  [[nodiscard]] std::uint32_t version() const { return version_; }

 private:
  round_plan const& plan_;
  open_file file_;
  std::uint32_t version_ = 0;
};

/// What came of a round: an empty text, or what was wrong.
struct outcome {
  std::string problem;
  std::uint64_t verified_bytes = 0;
  std::uint64_t operations = 0;
  bool killed = false;
};

/// What the files must hold after the round's process is gone: bytes that gfsync has returned for,
/// or later ones; of the other process, its last.
std::string wrong_after_the_end(round_plan const& plan, std::string const& folder,
                                board const& shared, std::uint32_t foreign) {
  std::vector<std::optional<cell_versions>> expected(plan.cells);
  for (std::uint64_t c = 0; c < plan.cells; ++c) {
    auto const owner = c % plan.owners();
    if (owner < std::uint64_t(plan.filesystems) * plan.workers())
      expected[c] = cell_versions{shared.synced()[c].load(), plan.launches * plan.operations};
    if (owner == plan.foreign_owner()) expected[c] = cell_versions{foreign, foreign};
  }
  return wrong_cell(cell_file(folder), plan, expected);
}

/// What grows while a round is alive: operations first, then the bytes that it compares.
std::uint64_t signs_of_life(board_header const& h) {
  return h.operations.load() + h.verified_bytes.load() + h.files_made.load();
}

/// Runs a round. Kills it where the plan says so, or at the first sign of life after `last`:
/// without one, only --hang tells a round that hangs from one that is long.
outcome run(round_plan const& plan, supervisor_options const& o, clock::time_point last) {
  outcome r;
  std::filesystem::remove_all(o.folder);
  std::filesystem::create_directories(o.folder);
  std::string const path = cell_file(o.folder);
  {
    open_file const made(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    if (::ftruncate(made.number(), static_cast<off_t>(plan.file_bytes())) != 0)
      throw std::system_error(errno, std::generic_category(), path);
  }
  board const shared(plan.cells);
  board_header& h = shared.header();
  foreign_writer foreign(plan, path);
  round_process process(plan, o, shared);
  auto life = clock::now();
  std::uint64_t signs = 0;
  std::optional<int> status;
  while (!(status = process.ended())) {
    auto const now = signs_of_life(h);
    bool const is_alive = now != signs;
    signs = now;
    if (is_alive) {
      life = clock::now();
    } else if (apps::seconds_since(life) > o.hang_seconds) {
      r.problem = fmt::format("no operation ended for {} s", o.hang_seconds);
      return r;
    }
    r.operations = h.operations.load();
    if ((plan.kill_after != 0 && r.operations >= plan.kill_after) ||
        (is_alive && clock::now() >= last)) {
      process.kill();
      r.killed = true;
    }
    if (plan.foreign_writes && h.files_made.load() != 0) foreign.write_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  r.verified_bytes = h.verified_bytes.load();
  r.operations = h.operations.load();
  if (h.problem_length.load() != 0) {
    r.problem = shared.problem();
  } else if (!r.killed && (!WIFEXITED(*status) || WEXITSTATUS(*status) != 0)) {
    r.problem = fmt::format("the round's process ended with status {:#x}", *status);
  } else {
    r.problem = wrong_after_the_end(plan, o.folder, shared, foreign.version());
    r.verified_bytes += plan.file_bytes();
  }
  return r;
}

}  // namespace

int supervise(supervisor_options const& o) {
  auto const start = clock::now();
  auto const after = [](clock::time_point from, double seconds) {
    return from +
           std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
  };
  // A number of rounds is for one that is run again: the time does not cut it short.
  auto const end = o.rounds == 0 ? after(start, o.seconds) : clock::time_point::max();
  outcome sum;
  std::uint64_t rounds = 0, killed = 0;
  while (apps::seconds_since(start) < o.seconds && (o.rounds == 0 || rounds < o.rounds)) {
    round_plan const plan = draw_plan(o.seed + rounds, o.emulated);
    if (o.verbose) fmt::print("round {}: {}\n", plan.seed, to_text(plan));
    std::fflush(stdout);
    outcome const r = run(plan, o, std::min(end, after(clock::now(), o.round_seconds)));
    ++rounds;
    killed += r.killed ? 1 : 0;
    sum.verified_bytes += r.verified_bytes;
    sum.operations += r.operations;
    if (!r.problem.empty()) {
      fmt::print("gpufs-stress: FAILED in round {} of seed {}: {}\n", rounds, o.seed, r.problem);
      fmt::print("  {}\n  again: gpufs-stress --seed {} --rounds 1; its files are in {}\n",
                 to_text(plan), plan.seed, o.folder);
      return apps::status_failed;
    }
  }
  std::filesystem::remove_all(o.folder);
  fmt::print(
      "gpufs-stress: passed: {} rounds ({} killed), {} operations, {:.3f} GB verified in "
      "{:.0f} s; seed {}\n",
      rounds, killed, sum.operations, static_cast<double>(sum.verified_bytes) / 1e9,
      apps::seconds_since(start), o.seed);
  return 0;
}

}  // namespace gpufs::stress
