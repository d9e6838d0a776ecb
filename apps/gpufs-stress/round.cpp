#include <gpufs/device.hpp>

#include <apps/common/program.hpp>
#include <apps/common/worker_threads.hpp>
#include <apps/gpufs-stress/round.hpp>
#include <apps/gpufs-stress/site.hpp>
#include <apps/gpufs-stress/verify.hpp>

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace gpufs::stress {

namespace {

/// Writes the host's cells until told to end; the version of each is in `written`.
void write_host_cells(round_plan const& plan, unsigned number, site& s,
                      std::atomic<bool> const& ended, std::vector<std::uint32_t>& written,
                      board const& shared) {
  for (std::uint32_t version = 1; !ended.load(); ++version) {
    for (std::uint64_t c = plan.host_owner(number); c < plan.cells; c += plan.owners()) {
      std::int64_t const n = s.write_host_cell(c, version);
      written[c] = version;
      if (n != static_cast<std::int64_t>(plan.cell_bytes))
        return shared.report(fmt::format("fs.write gave {}", n));
    }
    std::this_thread::yield();
  }
}

/// A child that leaves in each of the ways that a program may use. It must not hang, and must not
/// touch the files.
void fork_once(unsigned number, board const& shared) {
  pid_t const child = ::fork();
  if (child == 0) {
    if (number % 3 == 0) ::execl("/bin/true", "true", nullptr);
    if (number % 3 == 1) std::exit(0);
    ::_exit(0);
  }
  int status = 0;
  if (child < 0) return;  // the system allows no more processes now
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    shared.report(fmt::format("a forked child ended with status {:#x}", status));
}

std::size_t open_descriptors() {
  std::filesystem::directory_iterator const all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

using site_list = std::vector<std::unique_ptr<site>>;

/// Whether an owner is a worker, thus in some kernel.
bool is_worker(round_plan const& plan, std::uint64_t owner) {
  return owner < std::uint64_t(plan.filesystems) * plan.workers();
}

/// Tells the board what the kernels have done. The versions are copied if a gfsync has returned.
void tell(round_plan const& plan, site_list const& sites, std::uint64_t& syncs,
          board const& shared) {
  worker_progress all{};
  for (auto const& s : sites) {
    worker_progress const p = s->progress();
    all.operations += p.operations;
    all.bytes += p.bytes;
    all.syncs += p.syncs;
    // At once: the process may be killed before its end.
    if (auto const problem = s->problem(); !problem.empty()) shared.report(problem);
  }
  if (all.syncs != syncs) {
    syncs = all.syncs;
    auto const synced = shared.synced();
    for (std::uint64_t c = 0; c < plan.cells; ++c) {
      auto const owner = c % plan.owners();
      if (is_worker(plan, owner)) synced[c].store(sites[owner / plan.workers()]->synced(c));
    }
  }
  shared.header().operations.store(all.operations);
  shared.header().kernel_bytes.store(all.bytes);
}

/// Keeps the board up to date, forks, and passes on that the supervisor wants an end, until told to
/// end itself.
void watch(round_plan const& plan, site_list const& sites, std::atomic<bool> const& ended,
           board const& shared) {
  unsigned forked = 0;
  std::uint64_t syncs = 0;
  bool is_last = false;
  while (!is_last) {
    is_last = ended.load();
    tell(plan, sites, syncs, shared);
    auto const operations = shared.header().operations.load();
    if (plan.forks && forked < 4 && operations > forked * 16) fork_once(forked++, shared);
    if (shared.header().end.load() != 0) {
      for (auto const& s : sites) s->end();
    }
    if (!is_last) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void run_kernels(round_plan const& plan, unsigned devices, site_list const& sites,
                 std::vector<std::vector<std::uint32_t>>& host_versions, board const& shared) {
  std::atomic<bool> ended{false};
  std::jthread watcher([&] { watch(plan, sites, ended, shared); });
  std::vector<std::jthread> writers;
  if (plan.host_writes) {
    for (unsigned f = 0; f < plan.filesystems; ++f) {
      writers.emplace_back(
          [&, f] { write_host_cells(plan, f, *sites[f], ended, host_versions[f], shared); });
    }
  }
  try {
    apps::run_on_threads(plan.filesystems, [&](unsigned f) {
      if (devices > 1) make_device_current(static_cast<int>(f % devices));
      sites[f]->run_kernels();
    });
  } catch (std::exception const& e) {
    shared.report(e.what());
  }
  ended.store(true);
}

/// Runs the kernels and closes the files. Returns what each cell must hold then, but for those of
/// the other process; nothing after a problem.
std::vector<std::optional<cell_versions>> run_sites(round_plan const& plan,
                                                    std::string const& folder, unsigned devices,
                                                    board const& shared) {
  site_list sites;
  for (unsigned f = 0; f < plan.filesystems; ++f) {
    if (devices > 1) make_device_current(static_cast<int>(f % devices));
    sites.push_back(std::make_unique<site>(plan, folder, f));
  }
  shared.header().files_made.store(1);
  std::vector<std::vector<std::uint32_t>> host_versions(plan.filesystems,
                                                        std::vector<std::uint32_t>(plan.cells));
  run_kernels(plan, devices, sites, host_versions, shared);
  std::vector<std::optional<cell_versions>> expected(plan.cells);
  for (unsigned f = 0; f < plan.filesystems; ++f) {
    site& s = *sites[f];
    auto problem = s.close();
    if (problem.empty()) problem = wrong_record(log_file(folder, f), plan, s.appends());
    if (!problem.empty()) {
      shared.report(problem);
      return {};
    }
    auto const versions = s.versions();
    for (std::uint64_t c = 0; c < plan.cells; ++c) {
      auto const owner = c % plan.owners();
      if (is_worker(plan, owner) && owner / plan.workers() == f) expected[c] = versions[c];
      if (owner == plan.host_owner(f))
        expected[c] = cell_versions{host_versions[f][c], host_versions[f][c]};
    }
  }
  return expected;
}

}  // namespace

void run_round(round_plan const& plan, std::string const& folder, unsigned devices,
               board const& shared) {
  std::size_t const descriptors = open_descriptors();
  auto const expected = run_sites(plan, folder, devices, shared);
  if (!shared.problem().empty()) return;
  comparison const files = compare_cells(cell_file(folder), plan, expected);
  shared.header().file_bytes.store(files.bytes);
  if (!files.problem.empty()) return shared.report(files.problem);
  // What the device's runtime keeps open stays open; files of the round do not.
  if (current_device().kind == "emulated" && open_descriptors() != descriptors)
    return shared.report("descriptors are left open after the filesystems' end");
  shared.header().finished.store(1);
}

}  // namespace gpufs::stress
