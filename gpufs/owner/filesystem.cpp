#include <gpufs/filesystem.hpp>
#include <gpufs/owner/filesystem_state.hpp>

#include <host-daemon/base/profiler_range.hpp>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace gpufs {

filesystem::filesystem(config const& settings) {
  // Pinning its memory takes a while.
  daemon::profiler_range const range{[] { return "filesystem begins"; }};
  state_ = std::make_unique<state>(settings);
}

// A child of fork() has copies of everything but of the threads. It must not wait for them, nor
// write pages that the parent writes, nor call the device. So it leaves its copy as it is.
filesystem::~filesystem() {
  if (state_->process != ::getpid()) static_cast<void>(state_.release());
}

fs_ref filesystem::ref() const { return state_->device.ref(); }

int filesystem::open(std::string const& path, int flags, unsigned mode) {
  return state_->server->files().open(path, flags, mode);
}
int filesystem::close(int fd) { return state_->server->files().close(fd); }
int filesystem::stat(int fd, file_status& status) const {
  return state_->server->files().stat(fd, status);
}
int filesystem::advise(int fd, std::int64_t offset, std::int64_t length, advice what) {
  int const result = state_->server->files().advise(fd, offset, length, what);
  if (result == 0 && what == advice::willneed && state_->device.windows() != nullptr)
    state_->want_windows(fd, std::uint64_t(offset), std::uint64_t(length));
  return result;
}

std::int64_t filesystem::read(int fd, void* bytes, std::uint64_t count, std::int64_t offset) {
  if (offset < 0) return -EINVAL;
  auto const access = state_->server->files().access_of(fd);
  if (access < 0 || (access & O_ACCMODE) == O_WRONLY) return -EBADF;
  if (int const error = state_->server->files().flush(fd); error != 0) return error;
  daemon::bulk_range range{.offset = std::uint64_t(offset), .length = count};
  std::span const to{static_cast<std::byte*>(bytes), count};
  static_cast<void>(state_->server->bulk().read(fd, {&range, 1}, to));
  return range.result;
}

std::int64_t filesystem::write(int fd, void const* bytes, std::uint64_t count,
                               std::int64_t offset) {
  if (offset < 0) return -EINVAL;
  // Kernels reserve the range of an append in GPU memory, where the host cannot do so beside them.
  auto const access = state_->server->files().access_of(fd);
  if (access >= 0 && (access & O_APPEND) != 0) return -EOPNOTSUPP;
  daemon::bulk_range range{.offset = std::uint64_t(offset), .length = count};
  std::span const from{const_cast<std::byte*>(static_cast<std::byte const*>(bytes)), count};
  static_cast<void>(state_->server->bulk().write(fd, {&range, 1}, from));
  return range.result;
}
int filesystem::sync(int fd) { return state_->server->files().sync(fd); }
int filesystem::sync() { return state_->server->files().flush_all(); }
int filesystem::discard(int fd) { return state_->server->files().discard(fd); }
std::vector<std::string> filesystem::unreleased() const { return state_->unreleased(); }
std::vector<std::string> filesystem::unwritten() const {
  return state_->server->writes().unwritten();
}

statistics filesystem::stats() const {
  state const& s = *state_;
  statistics r = s.counted();
  daemon::server_statistics const h = s.server->statistics();
  r.host_reads = h.reads_issued;
  r.host_bytes = h.bytes_read;
  r.host_bytes_direct = h.bytes_direct;
  r.host_bytes_viewed = h.bytes_viewed;
  r.host_writes = h.writes_issued;
  r.host_bytes_written = h.bytes_written;
  auto const* const windows = s.device.windows();
  r.windows_registered = windows != nullptr ? windows->registered() : 0;
  r.windows_retired = windows != nullptr ? windows->retired() : 0;
  r.registering_ns = windows != nullptr ? windows->registering_ns() : 0;
  r.idle_polls = h.idle_polls;
  r.times = s.server->times();
  return r;
}

int filesystem::file_stats(int fd, file_statistics& counts) const {
  auto const& shared = state_->device.ref().link.shared;
  auto const place = rpc::descriptor_index(fd);
  auto const generation = rpc::descriptor_generation(fd);
  if (fd < 0 || generation == 0 || place >= shared.max_open_files) return -EBADF;
  std::atomic_ref const tag(shared.open_files[place].tag);
  if (tag.load(std::memory_order_acquire) != generation) return -EBADF;
  auto const& counters = state_->device.get<owner::file_counter_owner>();
  if (!counters.counts()) return -EOPNOTSUPP;
  counts = counters.of(fd);
  return 0;
}

std::vector<thread_statistics> filesystem::thread_stats() const {
  return state_->server->per_thread();
}

config const& filesystem::settings() const { return state_->settings; }

std::vector<std::string> filesystem::notes() const {
  auto all = state_->server->notes();
  if (!state_->no_trace.empty()) all.push_back(state_->no_trace);
  if (auto const* const windows = state_->device.windows()) {
    for (auto& note : windows->notes()) all.push_back(std::move(note));
  }
  return all;
}

std::string filesystem::backend_name() const {
  return state_->server->backend() == io_backend::uring ? "io_uring" : "pread";
}

std::uint64_t filesystem::metadata_bytes() const {
  return state_->device.metadata_bytes() + state_->kernel_drives.metadata_bytes();
}

std::uint64_t filesystem::pinned_bytes() const {
  return state_->device.pinned_bytes() + state_->kernel_drives.pinned_bytes();
}

void filesystem::stop() { state_->server->stop(); }

}  // namespace gpufs
