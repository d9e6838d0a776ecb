#include <apps/common/program.hpp>
#include <apps/gpufs-stress/contents.hpp>
#include <apps/gpufs-stress/site.hpp>
#include <apps/gpufs-stress/verify.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include <fcntl.h>

namespace gpufs::stress {

using apps::error_text;

namespace {

template <class T>
std::vector<T> contents(buffer<T> const& from) {
  std::vector<T> values(from.size());
  from.copy_to_host(values.data(), values.size());
  return values;
}

/// Memory of zeros.
template <class Memory>
Memory zeros(std::uint64_t count) {
  Memory memory(count);
  memory.fill_zero();
  return memory;
}

// Relaxed where nothing else is said, and so are the kernel's stores: numbers to watch, and lower
// bounds.
template <class T>
T watched(T& number, memory_order order = memory_order_relaxed) {
  return atomic_ref<T, scope::system>(number).load(order);
}

}  // namespace

std::string cell_file(std::string const& folder) { return folder + "/cells"; }

std::string log_file(std::string const& folder, unsigned filesystem) {
  return fmt::format("{}/log{}", folder, filesystem);
}

char const* name_of(operation_kind kind) {
  switch (kind) {
    case operation_kind::write: return "gwrite";
    case operation_kind::read: return "gread";
    case operation_kind::read_many: return "gread of several cells";
    case operation_kind::element: return "array";
    case operation_kind::map: return "gmmap";
    case operation_kind::sync: return "gfsync";
    case operation_kind::open_again: return "gopen, gread, gclose";
    case operation_kind::append: return "gwrite with O_APPEND";
    case operation_kind::advise: return "gfadvise";
  }
  return "?";
}

site::site(round_plan const& plan, std::string const& folder, unsigned number)
    : plan_(plan), number_(number), path_(cell_file(folder)), fs_(plan.settings) {
  std::uint64_t const workers = plan.workers();
  fd_ = opened(path_, O_RDWR);
  log_fd_ = opened(log_file(folder, number), O_WRONLY | O_CREAT | O_APPEND);
  stride_ = (plan.cells_at_once * plan.cell_bytes + record_bytes + 15) / 16 * 16;
  versions_ = zeros<buffer<cell_versions>>(plan.cells);
  appends_ = zeros<buffer<append_state>>(workers * plan.launches * plan.operations);
  states_ = zeros<buffer<worker_state>>(workers);
  memory_ = buffer<std::byte>(workers * stride_);
  name_ = pinned_buffer<char>(path_.size() + 1);
  std::copy_n(path_.c_str(), path_.size() + 1, name_.data());
  synced_ = zeros<pinned_buffer<std::uint32_t>>(plan.cells);
  progress_ = zeros<pinned_buffer<worker_progress>>(workers);
  end_ = zeros<pinned_buffer<std::uint32_t>>(1);
  finding_ = zeros<pinned_buffer<finding>>(1);
}

void site::run_kernels() {
  for (unsigned i = 0; i < plan_.launches && watched(end_[0]) == 0; ++i) {
    launch_workers(plan_, fs_.ref(), job(i));
    this_thread_stream().synchronize();
  }
}

void site::end() {
  atomic_ref<std::uint32_t, scope::system>(end_[0]).store(1, memory_order_relaxed);
}

std::int64_t site::write_host_cell(std::uint64_t cell, std::uint32_t version) {
  std::vector<std::byte> const bytes = cell_bytes_of(plan_, cell, version);
  return fs_.write(fd_, bytes.data(), bytes.size(),
                   static_cast<std::int64_t>(cell * plan_.cell_bytes));
}

worker_progress site::progress() const {
  worker_progress all{};
  for (unsigned i = 0; i < plan_.workers(); ++i) {
    worker_progress& p = progress_[i];
    all.operations += watched(p.operations);
    all.bytes += watched(p.bytes);
    all.syncs += watched(p.syncs, memory_order_acquire);
  }
  return all;
}

std::uint32_t site::synced(std::uint64_t cell) const { return watched(synced_[cell]); }

std::string site::problem() const {
  finding& f = finding_[0];
  return watched(f.found, memory_order_acquire) == finding::complete ? describe(f.what)
                                                                     : std::string();
}

std::string site::close() {
  if (auto found = problem(); !found.empty()) return found;
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

std::vector<cell_versions> site::versions() const { return contents(versions_); }

std::vector<append_state> site::appends() const { return contents(appends_); }

int site::opened(std::string const& path, int flags) {
  int const fd = fs_.open(path, flags);
  if (fd < 0) throw std::runtime_error(fmt::format("{}: {}", path, error_text(fd)));
  return fd;
}

stress_job site::job(unsigned launch) const {
  stress_job j{};
  j.seed = plan_.seed;
  j.filesystem = number_;
  j.filesystems = plan_.filesystems;
  j.workers = plan_.workers();
  j.owners = plan_.owners();
  j.operations = plan_.operations;
  j.writes = plan_.writes;
  j.weights = plan_.weights;
  j.cells_at_once = plan_.cells_at_once;
  j.launch = launch;
  j.impatient = plan_.impatient ? 1 : 0;
  j.filled = plan_.filled ? 1 : 0;
  j.host_writes = plan_.host_writes ? 1 : 0;
  j.foreign_writes = plan_.foreign_writes ? 1 : 0;
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
  j.states = states_.data();
  j.progress = progress_.data();
  j.end = end_.data();
  j.first = finding_.data();
  return j;
}

std::string site::describe(wrong_operation const& f) const {
  auto const what = name_of(static_cast<operation_kind>(f.kind));
  std::string where = fmt::format("filesystem {}, worker {}, operation {}: {}", number_, f.worker,
                                  f.operation, what);
  if (f.result != 0) return fmt::format("{} gave {}", where, f.result);
  return fmt::format(
      "{}: byte {} of cell {} (byte {} of the file) is {:#x}, which is of none of "
      "the versions {} to {}",
      where, f.byte, f.cell, f.cell * plan_.cell_bytes + f.byte, f.value, f.lowest, f.highest);
}

}  // namespace gpufs::stress
