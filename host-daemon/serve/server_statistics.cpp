// The daemon's sums over its threads.
#include <host-daemon/serve/server.hpp>
#include <host-daemon/serve/worker.hpp>

#include <atomic>
#include <mutex>

namespace gpufs::daemon {

namespace {

std::uint64_t get(std::atomic<std::uint64_t> const& counter) noexcept {
  return counter.load(std::memory_order_relaxed);
}

void add(server_statistics& sum, worker_counters const& c) {
  sum.idle_polls += get(c.idle_polls);
  sum.busy_ns += get(c.busy_ns);
}

void add(server_statistics& sum, endpoint_counters const& c) {
  sum.requests += get(c.requests);
  sum.failed += get(c.failed);
  sum.rejected += get(c.rejected);
  sum.bytes_read += get(c.bytes_read);
  sum.bytes_copied += get(c.bytes_copied);
  sum.bytes_direct += get(c.bytes_direct);
  sum.bytes_viewed += get(c.bytes_viewed);
  sum.reads_issued += get(c.reads_issued);
}

}  // namespace

server_statistics& server_statistics::operator+=(server_statistics const& other) noexcept {
  requests += other.requests;
  failed += other.failed;
  rejected += other.rejected;
  bytes_read += other.bytes_read;
  bytes_direct += other.bytes_direct;
  bytes_viewed += other.bytes_viewed;
  bytes_copied += other.bytes_copied;
  reads_issued += other.reads_issued;
  writes_issued += other.writes_issued;
  bytes_written += other.bytes_written;
  idle_polls += other.idle_polls;
  busy_ns += other.busy_ns;
  return *this;
}

void server::retire_workers() {
  std::lock_guard const lock{counting_};
  for (auto const& w : workers_) {
    add(retired_threads_, w->counters());
    w->requests().add_to(retired_times_);
    for (std::size_t n = 0; n < retired_.size(); ++n) add(retired_[n], w->counters(n));
  }
  workers_.clear();
}

server_statistics server::statistics() const {
  std::lock_guard const lock{counting_};
  auto sum = retired_threads_;
  for (auto const& w : workers_) add(sum, w->counters());
  for (std::size_t n = 0; n < endpoints_.size(); ++n) sum += sum_of(n);
  return sum;
}

server_statistics server::statistics(std::size_t number) const {
  std::lock_guard const lock{counting_};
  return sum_of(number);
}

// The caller has locked counting_.
server_statistics server::sum_of(std::size_t number) const {
  auto sum = retired_.at(number);
  for (auto const& w : workers_) add(sum, w->counters(number));
  sum.writes_issued = writes_.writes(number);
  sum.bytes_written = writes_.bytes_written(number);
  return sum;
}

host_times server::times() const {
  std::lock_guard const lock{counting_};
  auto sum = retired_times_;
  for (auto const& w : workers_) w->requests().add_to(sum);
  if (settings_.requests != nullptr) settings_.requests->add_to(sum);
  return sum;
}

std::vector<thread_statistics> server::per_thread() const {
  std::lock_guard const lock{counting_};
  std::vector<thread_statistics> all;
  for (auto const& w : workers_) {
    auto const& c = w->counters();
    all.push_back({get(c.requests), get(c.idle_polls), get(c.polls_before_first)});
  }
  return all;
}

}  // namespace gpufs::daemon
