#include <gpufs/config.hpp>

#include <apps/common/program.hpp>
#include <apps/common/seconds_since.hpp>
#include <apps/gpufs-stress/board.hpp>
#include <apps/gpufs-stress/open_file.hpp>
#include <apps/gpufs-stress/site.hpp>
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

/// A round that makes its filesystems and files counts as one that hangs after --hang, but not
/// before this: how long it takes depends on the machine.
constexpr double least_start_seconds = 120;

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
                                            "--gpu-memory",
                                            std::to_string(o.limits.gpu),
                                            "--host-memory",
                                            std::to_string(o.limits.host),
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
  bool stopped = false;  ///< asked to end before its operations were done
  bool killed = false;
  double made_after = 0;  ///< seconds; the kernels began then
  double seconds = 0;
};

/// Compares the files after the round's process is gone. After a round that ran to its end, and has
/// compared its own cells, these are those of this process. After a kill it is what the kernels
/// have written: bytes that gfsync has returned for, or later ones.
comparison compare_after_the_end(round_plan const& plan, std::string const& folder,
                                 board const& shared, std::uint32_t foreign) {
  std::vector<std::optional<cell_versions>> expected(plan.cells);
  for (std::uint64_t c = plan.foreign_owner(); c < plan.cells; c += plan.owners())
    expected[c] = cell_versions{foreign, foreign};
  if (shared.header().finished.load() == 0) {
    auto const most = most_versions(plan);
    for (std::uint64_t c = 0; c < plan.cells; ++c) {
      if (c % plan.owners() < std::uint64_t(plan.filesystems) * plan.workers())
        expected[c] = cell_versions{shared.synced()[c].load(), most[c]};
    }
  }
  return compare_cells(cell_file(folder), plan, expected);
}

/// What grows while a round is alive: operations first, then the bytes that it compares.
std::uint64_t signs_of_life(board_header const& h) {
  return h.operations.load() + h.kernel_bytes.load() + h.file_bytes.load() + h.files_made.load();
}

clock::time_point after(clock::time_point from, double seconds) {
  return from + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
}

/// Waits for the end of a round's process, and has it end: where the plan says so by a kill; else
/// its workers at `end`, or when they have had the time of a round, and by a kill a while later, at
/// a sign of life. Without one, only --hang tells a round that hangs from one that is long. Until
/// the files are made, no operation can end. Returns its status; none if it hangs.
std::optional<int> await(round_process& process, round_plan const& plan,
                         supervisor_options const& o, clock::time_point end, board const& shared,
                         foreign_writer& foreign, outcome& r) {
  board_header& h = shared.header();
  auto const begin = clock::now();
  auto last = end;
  auto const kill_wait = std::chrono::duration<double>(o.round_seconds / 4);
  auto hang = std::max(o.hang_seconds, least_start_seconds);
  auto life = begin;
  std::uint64_t signs = 0;
  for (;;) {
    if (auto const status = process.ended()) return status;
    auto const now = signs_of_life(h);
    bool const is_alive = now != signs;
    signs = now;
    if (is_alive) {
      life = clock::now();
    } else if (apps::seconds_since(life) > hang) {
      r.problem = fmt::format("no operation ended for {} s", hang);
      return {};
    }
    if (r.made_after == 0 && h.files_made.load() != 0) {
      r.made_after = apps::seconds_since(begin);
      hang = o.hang_seconds;
      last = std::min(end, after(clock::now(), plan.wide ? o.round_seconds : o.round_seconds / 4));
    }
    if (clock::now() >= last) {
      r.stopped = true;
      h.end.store(1);
    }
    if ((plan.kill_after != 0 && h.operations.load() >= plan.kill_after) ||
        (is_alive && clock::now() - last >= kill_wait)) {
      process.kill();
      r.killed = true;
    }
    if (r.made_after != 0 && plan.foreign_writes) foreign.write_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

outcome run(round_plan const& plan, supervisor_options const& o, clock::time_point end) {
  outcome r;
  auto const start = clock::now();
  std::filesystem::remove_all(o.folder);
  std::filesystem::create_directories(o.folder);
  std::string const path = cell_file(o.folder);
  make_cells(path, plan);
  board const shared(plan.cells);
  board_header const& h = shared.header();
  foreign_writer foreign(plan, path);
  round_process process(plan, o, shared);
  auto const status = await(process, plan, o, end, shared, foreign, r);
  r.operations = h.operations.load();
  r.verified_bytes = h.kernel_bytes.load() + h.file_bytes.load();
  if (h.problem_length.load() != 0) {
    r.problem = shared.problem();
  } else if (status && !r.killed && (!WIFEXITED(*status) || WEXITSTATUS(*status) != 0)) {
    r.problem = fmt::format("the round's process ended with status {:#x}", *status);
  } else if (status && !r.killed && h.finished.load() == 0) {
    r.problem = "the round's process left before its end";
  } else if (status) {
    comparison const left = compare_after_the_end(plan, o.folder, shared, foreign.version());
    r.problem = left.problem;
    r.verified_bytes += left.bytes;
  }
  r.seconds = apps::seconds_since(start);
  return r;
}

/// The options that a round depends on, beside its seed.
std::string options_text(supervisor_options const& o) {
  memory_limits const usual;
  std::string text;
  if (o.limits.gpu != usual.gpu) text += " --gpu-memory " + format_size(o.limits.gpu);
  if (o.limits.host != usual.host) text += " --host-memory " + format_size(o.limits.host);
  if (o.devices != 1) text += fmt::format(" --gpus {}", o.devices);
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  return fmt::format("{} bytes ({:.3f} GB)", bytes, static_cast<double>(bytes) / 1e9);
}

}  // namespace

int supervise(supervisor_options const& o) {
  auto const start = clock::now();
  // A number of rounds is for one that is run again: the time does not cut it short.
  auto const end = o.rounds == 0 ? after(start, o.seconds) : clock::time_point::max();
  outcome sum;
  std::uint64_t rounds = 0, wide = 0, stopped = 0, killed = 0;
  while (apps::seconds_since(start) < o.seconds && (o.rounds == 0 || rounds < o.rounds)) {
    round_plan const plan = draw_plan(o.seed + rounds, o.emulated, o.limits);
    if (o.verbose) fmt::print("round {}: {}\n", plan.seed, to_text(plan));
    std::fflush(stdout);
    outcome const r = run(plan, o, end);
    ++rounds;
    wide += plan.wide ? 1 : 0;
    stopped += r.stopped && !r.killed ? 1 : 0;
    killed += r.killed ? 1 : 0;
    sum.verified_bytes += r.verified_bytes;
    sum.operations += r.operations;
    if (!r.problem.empty()) {
      fmt::print("gpufs-stress: FAILED in round {} of seed {}: {}\n", rounds, o.seed, r.problem);
      fmt::print("  {}\n  again: gpufs-stress --seed {} --rounds 1{}; its files are in {}\n",
                 to_text(plan), plan.seed, options_text(o), o.folder);
      return apps::status_failed;
    }
    if (o.verbose) {
      fmt::print("  {}{} operations, {} verified in {:.2f} s, kernels from {:.2f} s on\n",
                 r.killed    ? "killed, "
                 : r.stopped ? "cut short, "
                             : "",
                 r.operations, bytes_text(r.verified_bytes), r.seconds, r.made_after);
    }
  }
  std::filesystem::remove_all(o.folder);
  fmt::print(
      "gpufs-stress: passed: {} rounds ({} wide, {} killed, {} cut short), {} operations, {} "
      "verified in {:.0f} s; seed {}\n",
      rounds, wide, killed, stopped, sum.operations, bytes_text(sum.verified_bytes),
      apps::seconds_since(start), o.seed);
  return 0;
}

}  // namespace gpufs::stress
