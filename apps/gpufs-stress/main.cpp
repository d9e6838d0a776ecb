// gpufs-stress: random settings, shapes and events; every byte that is read or left is compared.
#include <gpufs/config.hpp>
#include <gpufs/device.hpp>

#include <apps/common/durable.hpp>
#include <apps/common/free_space.hpp>
#include <apps/common/program.hpp>
#include <apps/common/temp_file.hpp>
#include <apps/gpufs-stress/round.hpp>
#include <apps/gpufs-stress/supervisor.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <system_error>

#include <unistd.h>

// Leaks of a forked child are no matter: what it leaves alone ends with it.
static ::pid_t const first_process = ::getpid();
extern "C" int __lsan_is_turned_off() { return ::getpid() != first_process ? 1 : 0; }

namespace {

using namespace gpufs;
using namespace gpufs::stress;

struct options {
  supervisor_options supervisor;
  std::string time = "60s";
  std::string gpu_memory = format_size(memory_limits().gpu);
  std::string host_memory = format_size(memory_limits().host);
  int board = -1;
};

/// CLI::Range takes what is no number.
void check_seconds(std::string_view option, double value) {
  if (!(value >= 0.001 && value <= 1e6))
    throw apps::usage_error(
        fmt::format("{}={}: must be from 0.001 to 1000000 seconds", option, value));
}

/// Makes the folder where it is missing.
void check_folder(std::string const& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored) && !std::filesystem::is_directory(folder, ignored))
    throw apps::usage_error(fmt::format("--dir={}: must be a folder", folder));
  if (auto const error = apps::make_folders(folder))
    throw apps::usage_error(fmt::format("--dir={}: {}", folder, error.message()));
}

int run_stress(options& o, bool seed_given) {
  o.supervisor.emulated = device_available() && current_device().kind == "emulated";
  memory_limits& limits = o.supervisor.limits;
  limits.gpu = apps::size_option("--gpu-memory", o.gpu_memory, least_memory, 1ull << 40);
  limits.host = apps::size_option("--host-memory", o.host_memory, least_memory, 1ull << 40);
  if (o.board >= 0) {  // the process of a round
    round_plan const plan = draw_plan(o.supervisor.seed, o.supervisor.emulated, limits);
    run_round(plan, o.supervisor.folder, o.supervisor.devices, board(o.board, plan.cells));
    return 0;
  }
  o.supervisor.seconds = double(apps::seconds_option("--time", o.time, 10'000));
  check_seconds("--hang", o.supervisor.hang_seconds);
  check_seconds("--longest-round", o.supervisor.round_seconds);
  if (!seed_given) o.supervisor.seed = std::random_device{}();
  check_folder(o.supervisor.folder);
  apps::require_free_space(o.supervisor.folder, "--dir; --host-memory says how much",
                           largest_file(limits, o.supervisor.emulated));
  o.supervisor.folder += fmt::format("/gpufs-stress-{}", ::getpid());
  return supervise(o.supervisor);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Stresses gpufs with random settings, kernels, host writes, foreign writes, forks and "
      "kills.\n"
      "Compares every byte with the versions that it may have. Prints one line as its verdict.\n"
      "Rounds of odd seeds are wide: many warps, many bytes, few writes. The others have few "
      "bytes\n"
      "in tight caches.\n"
      "Exit status: 0 nothing wrong, 1 a wrong byte, a failed call, a leak or a hang.",
      "gpufs-stress");
  options o;
  supervisor_options& s = o.supervisor;
  s.folder = apps::temp_folder();
  app.add_option("--time", o.time,
                 "how long: seconds, or with s, m or h; the last round then has a quarter of "
                 "--longest-round to end, and one that hangs --hang")
      ->capture_default_str();
  app.add_option("--rounds", s.rounds, "at most so many rounds; 0: no limit")
      ->capture_default_str();
  auto const* const seed = app.add_option("--seed", s.seed, "of the first round; default random");
  app.add_option("--dir,--folder", s.folder, "folder for the files; made if it is not there")
      ->capture_default_str();
  app.add_option("--hang", s.hang_seconds,
                 "seconds without an operation that count as a hang; a round has 120 at least to "
                 "make its files")
      ->capture_default_str();
  app.add_option("--longest-round", s.round_seconds,
                 "seconds of a wide round once its files are made, others get a quarter. Then its "
                 "workers end, and all is compared. A quarter later it is killed at the next "
                 "operation that ends, and what is left is compared; if none ends, --hang counts")
      ->capture_default_str();
  app.add_option("--gpu-memory", o.gpu_memory,
                 "of a round at most, from 512M: caches and buffers. Each instance takes it, and "
                 "about 512M for its CUDA context. Wide rounds on the emulated device have a 64th")
      ->capture_default_str();
  app.add_option("--host-memory", o.host_memory,
                 "of a round at most, from 512M: its file, which has half of it in --dir and the "
                 "OS page cache, and pinned memory. Each instance takes it; as --gpu-memory")
      ->capture_default_str();
  app.add_option("--gpus", s.devices, "GPUs to spread the filesystems over")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.add_flag("--verbose,-v", s.verbose, "a line for each round");
  app.add_option("--board", o.board)->group("");  // for the process of a round
  return apps::run_program(app, argc, argv, [&] { return run_stress(o, seed->count() != 0); });
}
