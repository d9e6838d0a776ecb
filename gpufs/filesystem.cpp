#include <gpufs/filesystem.hpp>
#include <gpufs/filesystem_state.hpp>

#include <cerrno>
#include <utility>

namespace gpufs {

filesystem::filesystem(config const& settings, std::shared_ptr<daemon::fault_injector> faults)
    : state_(std::make_unique<state>(settings, std::move(faults))) {}

filesystem::~filesystem() = default;

fs_ref filesystem::ref() const { return state_->ref; }

int filesystem::open(std::string const& path, int flags, unsigned mode) {
  return state_->server->files().open(path, flags, mode);
}
int filesystem::close(int fd) { return state_->server->files().close(fd); }
int filesystem::stat(int fd, file_status& status) const {
  return state_->server->files().stat(fd, status);
}
int filesystem::advise(int fd, std::int64_t offset, std::int64_t length, advice what) {
  int const result = state_->server->files().advise(fd, offset, length, what);
  if (result == 0 && what == advice::willneed && state_->windows)
    state_->want_windows(fd, std::uint64_t(offset), std::uint64_t(length));
  return result;
}

std::int64_t filesystem::write(int fd, void const* bytes, std::uint64_t count,
                               std::int64_t offset) {
  return offset < 0 ? -EINVAL
                    : state_->server->files().write(fd, bytes, count, std::uint64_t(offset));
}
int filesystem::sync(int fd) { return state_->server->files().sync(fd); }
int filesystem::sync() { return state_->server->writes().flush(nullptr); }
int filesystem::discard(int fd) { return state_->server->files().discard(fd); }
std::vector<std::string> filesystem::mapped() const { return state_->mapped(); }
std::vector<std::string> filesystem::unwritten() const {
  return state_->server->writes().unwritten();
}

statistics filesystem::stats() const {
  state const& s = *state_;
  std::vector<std::uint64_t> all(s.counters.size());
  s.counters.copy_to_host(all.data(), all.size());
  auto const sum = [&](counter which) { return s.sum(all.data(), which); };
  statistics r;
  r.hits = sum(counter::hits);
  r.misses = sum(counter::misses);
  r.waits = sum(counter::waits);
  r.evictions = sum(counter::evictions);
  r.requests = sum(counter::requests);
  r.read_requests = sum(counter::read_requests);
  r.prefetch_hits = sum(counter::prefetch_hits);
  r.bytes_delivered = sum(counter::bytes_delivered);
  r.bytes_pulled = sum(counter::bytes_pulled);
  r.bytes_dma = sum(counter::bytes_dma);
  r.bytes_mapped = sum(counter::bytes_mapped);
  r.timeouts = sum(counter::timeouts);
  r.errors = sum(counter::errors);
  r.bytes_written = sum(counter::bytes_written);
  r.maps = sum(counter::maps);
  r.unmaps = sum(counter::unmaps);
  daemon::server_statistics const h = s.server->statistics();
  r.host_reads = h.reads_issued;
  r.host_bytes = h.bytes_read;
  r.host_bytes_direct = h.bytes_direct;
  r.host_writes = h.writes_issued;
  r.host_bytes_written = h.bytes_written;
  r.windows_mapped = s.windows ? s.windows->mapped() : 0;
  r.windows_retired = s.windows ? s.windows->retired() : 0;
  r.idle_polls = h.idle_polls;
  return r;
}

std::vector<thread_statistics> filesystem::thread_stats() const {
  return state_->server->per_thread();
}

config const& filesystem::settings() const { return state_->settings; }

std::vector<std::string> filesystem::notes() const {
  auto all = state_->server->notes();
  if (state_->windows) {
    for (auto& note : state_->windows->notes()) all.push_back(std::move(note));
  }
  return all;
}

std::string filesystem::backend_name() const {
  return state_->server->backend() == io_backend::uring ? "io_uring" : "pread";
}

std::uint64_t filesystem::metadata_bytes() const {
  state const& s = *state_;
  return s.buckets.bytes() + s.bucket_locks.bytes() + s.headers.bytes() + s.channel_states.bytes() +
         s.slots.bytes() + s.records.bytes() + s.claimed_slots.bytes() + s.readahead.bytes() +
         s.queues.bytes() + s.queue_totals.bytes() + s.queue_links.bytes() + s.counters.bytes() +
         s.tails.bytes() + s.sweep_hand.bytes() + s.mappings.bytes() + s.keepers.bytes() +
         s.window_table.bytes();
}

std::uint64_t filesystem::pinned_bytes() const {
  state const& s = *state_;
  return s.ring.bytes() + s.completions.bytes() + s.staging.bytes() + s.open_files.bytes() +
         s.control.bytes() + s.write_headers.bytes() + s.write_words.bytes() +
         s.write_bytes.bytes() + (s.windows ? s.windows->bytes() : 0);
}

void filesystem::stop() { state_->server->stop(); }

}  // namespace gpufs
