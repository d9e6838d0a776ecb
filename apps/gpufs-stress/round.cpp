#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>

#include <apps/common/program.hpp>
#include <apps/common/worker_threads.hpp>
#include <apps/gpufs-stress/contents.hpp>
#include <apps/gpufs-stress/round.hpp>
#include <apps/gpufs-stress/verify.hpp>
#include <apps/gpufs-stress/worker.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

// Leaks of a forked child are no matter: what it leaves alone ends with it.
static bool is_forked_child = false;
extern "C" int __lsan_is_turned_off() { return is_forked_child ? 1 : 0; }

namespace gpufs::stress {

namespace {

using apps::error_text;

/// One filesystem with its descriptors and its kernels' memory.
class site {
 public:
  site(round_plan const& plan, std::string const& folder, unsigned number)
      : plan_(plan), number_(number), path_(cell_file(folder)), fs_(plan.settings) {
    std::uint64_t const workers = plan.workers();
    fd_ = opened(path_, O_RDWR);
    log_fd_ = opened(log_file(folder, number), O_WRONLY | O_CREAT | O_APPEND);
    stride_ = (2 * plan.cell_bytes + record_bytes + 15) / 16 * 16;
    versions_ = buffer<cell_versions>(plan.cells);
    versions_.fill_zero();
    appends_ = buffer<append_state>(workers * plan.launches * plan.operations);
    appends_.fill_zero();
    memory_ = buffer<std::byte>(workers * stride_);
    name_ = pinned_buffer<char>(path_.size() + 1);
    std::copy_n(path_.c_str(), path_.size() + 1, name_.data());
    synced_ = pinned_buffer<std::uint32_t>(plan.cells);
    synced_.fill_zero();
    progress_ = pinned_buffer<std::uint64_t>(1);
    progress_.fill_zero();
    verified_ = buffer<std::uint64_t>(1);
    verified_.fill_zero();
    finding_ = pinned_buffer<finding>(1);
    finding_.fill_zero();
  }

  /// All kernels, one after the other. Throws device_error.
  void run_kernels() {
    for (unsigned i = 0; i < plan_.launches; ++i) {
      launch_workers(plan_, fs_.ref(), job(i));
      this_thread_stream().synchronize();
    }
  }

  /// Writes a cell of the host's own. Returns fs.write's result.
  std::int64_t write_host_cell(std::uint64_t cell, std::uint32_t version) {
    std::vector<std::byte> const bytes = cell_bytes_of(plan_, cell, version);
    return fs_.write(fd_, bytes.data(), bytes.size(),
                     static_cast<std::int64_t>(cell * plan_.cell_bytes));
  }

  // Relaxed, and so is the kernel's store: numbers to watch, and lower bounds.
  [[nodiscard]] std::uint64_t operations() const {
    return atomic_ref<std::uint64_t, scope::system>(progress_[0]).load(memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t synced(std::uint64_t cell) const {
    return atomic_ref<std::uint32_t, scope::system>(synced_[cell]).load(memory_order_relaxed);
  }

  /// After the kernels. An empty text, or the problem.
  [[nodiscard]] std::string close() {
    finding const& f = finding_[0];
    if (f.found != 0) return describe(f);
    // A gopen that timed out may have opened the file all the same. It stays open until the late
    // answer is met, so this close need not be the last.
    for (int const fd : {fd_, log_fd_}) {
      int const error = plan_.impatient ? fs_.sync(fd) : 0;
      if (error != 0) return fmt::format("filesystem {}: sync: {}", number_, error_text(error));
    }
    for (int const fd : {fd_, log_fd_}) {
      if (int const error = fs_.close(fd); error != 0)
        return fmt::format("filesystem {}: close: {}", number_, error_text(error));
    }
    if (auto const left = fs_.unwritten(); !left.empty())
      return fmt::format("filesystem {}: unwritten after the last close: {}", number_, left[0]);
    if (auto const left = fs_.unreleased(); !left.empty())
      return fmt::format("filesystem {}: unreleased: {}", number_, left[0]);
    return {};
  }

  [[nodiscard]] std::vector<cell_versions> versions() const { return contents(versions_); }
  [[nodiscard]] std::vector<append_state> appends() const { return contents(appends_); }
  [[nodiscard]] std::uint64_t verified() const { return contents(verified_)[0]; }

 private:
  template <class T>
  static std::vector<T> contents(buffer<T> const& from) {
    std::vector<T> values(from.size());
    from.copy_to_host(values.data(), values.size());
    return values;
  }

  int opened(std::string const& path, int flags) {
    int const fd = fs_.open(path, flags);
    if (fd < 0) throw std::runtime_error(fmt::format("{}: {}", path, error_text(fd)));
    return fd;
  }

  [[nodiscard]] stress_job job(unsigned launch) const {
    stress_job j{};
    j.seed = plan_.seed;
    j.filesystem = number_;
    j.filesystems = plan_.filesystems;
    j.workers = plan_.workers();
    j.owners = plan_.owners();
    j.operations = plan_.operations;
    j.writes = plan_.writes;
    j.launch = launch;
    j.impatient = plan_.impatient ? 1 : 0;
    j.fd = fd_;
    j.log_fd = log_fd_;
    j.path = name_.data();
    j.cells = plan_.cells;
    j.cell_bytes = plan_.cell_bytes;
    j.versions = versions_.data();
    j.synced = synced_.data();
    j.appends = appends_.data();
    j.appends_each = plan_.launches * plan_.operations;
    j.memory = memory_.data();
    j.memory_stride = stride_;
    j.progress = progress_.data();
    j.verified = verified_.data();
    j.first = finding_.data();
    return j;
  }

  [[nodiscard]] std::string describe(finding const& f) const {
    auto const what = name_of(static_cast<operation_kind>(f.kind));
    std::string where = fmt::format("filesystem {}, worker {}, operation {}: {}", number_, f.worker,
                                    f.operation, what);
    if (f.result != 0) return fmt::format("{} gave {}", where, f.result);
    return fmt::format(
        "{}: byte {} of cell {} (byte {} of the file) is {:#x}, which is of none of "
        "the versions {} to {}",
        where, f.byte, f.cell, f.cell * plan_.cell_bytes + f.byte, f.value, f.lowest, f.highest);
  }

  round_plan const& plan_;
  unsigned number_;
  std::string path_;
  filesystem fs_;
  int fd_ = -1;
  int log_fd_ = -1;
  std::uint64_t stride_ = 0;
  buffer<cell_versions> versions_;
  buffer<append_state> appends_;
  buffer<std::byte> memory_;
  pinned_buffer<char> name_;
  pinned_buffer<std::uint32_t> synced_;
  pinned_buffer<std::uint64_t> progress_;
  buffer<std::uint64_t> verified_;
  pinned_buffer<finding> finding_;
};

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
    is_forked_child = true;
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

/// Copies the kernels' progress and synced versions to the board until told to end.
void watch(round_plan const& plan, std::vector<std::unique_ptr<site>> const& sites,
           std::atomic<bool> const& ended, board const& shared) {
  auto const synced = shared.synced();
  unsigned forked = 0;
  while (!ended.load()) {
    for (std::uint64_t c = 0; c < plan.cells; ++c) {
      auto const owner = c % plan.owners();
      if (owner < std::uint64_t(plan.filesystems) * plan.workers())
        synced[c].store(sites[owner / plan.workers()]->synced(c));
    }
    std::uint64_t operations = 0;
    for (auto const& s : sites) operations += s->operations();
    shared.header().operations.store(operations);
    if (plan.forks && forked < 4 && operations > forked * 16) fork_once(forked++, shared);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

std::string cell_file(std::string const& folder) { return folder + "/cells"; }

std::string log_file(std::string const& folder, unsigned filesystem) {
  return fmt::format("{}/log{}", folder, filesystem);
}

void run_round(round_plan const& plan, std::string const& folder, unsigned devices,
               board const& shared) {
  std::size_t const descriptors = open_descriptors();
  std::vector<std::optional<cell_versions>> expected(plan.cells);
  {
    std::vector<std::unique_ptr<site>> sites;
    for (unsigned f = 0; f < plan.filesystems; ++f) {
      if (devices > 1) make_device_current(static_cast<int>(f % devices));
      sites.push_back(std::make_unique<site>(plan, folder, f));
    }
    shared.header().files_made.store(1);
    std::vector<std::vector<std::uint32_t>> host_versions(plan.filesystems,
                                                          std::vector<std::uint32_t>(plan.cells));
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
    writers.clear();
    watcher.join();
    for (unsigned f = 0; f < plan.filesystems; ++f) {
      site& s = *sites[f];
      if (auto const problem = s.close(); !problem.empty()) return shared.report(problem);
      auto const versions = s.versions();
      for (std::uint64_t c = 0; c < plan.cells; ++c) {
        auto const owner = c % plan.owners();
        if (owner / plan.workers() == f && owner < std::uint64_t(plan.filesystems) * plan.workers())
          expected[c] = versions[c];
        if (owner == plan.host_owner(f))
          expected[c] = cell_versions{host_versions[f][c], host_versions[f][c]};
      }
      shared.header().verified_bytes.fetch_add(s.verified());
      if (auto const problem = wrong_record(log_file(folder, f), plan, s.appends());
          !problem.empty())
        return shared.report(problem);
    }
  }
  if (auto const problem = wrong_cell(cell_file(folder), plan, expected); !problem.empty())
    return shared.report(problem);
  shared.header().verified_bytes.fetch_add(plan.file_bytes());
  // What the device's runtime keeps open stays open; files of the round do not.
  if (current_device().kind == "emulated" && open_descriptors() != descriptors)
    return shared.report("descriptors are left open after the filesystems' end");
  shared.header().finished.store(1);
}

}  // namespace gpufs::stress
