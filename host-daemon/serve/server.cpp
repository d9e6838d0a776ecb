// The daemon's life cycle: endpoints, engines, threads, notes.
#include <host-daemon/engine/pread_engine.hpp>
#include <host-daemon/engine/uring_engine.hpp>
#include <host-daemon/serve/server.hpp>
#include <host-daemon/serve/worker.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <latch>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace gpufs::daemon {

namespace {

constexpr unsigned most_threads = 256;
constexpr unsigned deepest_queue = 4096;
// Threads that write dirty pages. More do not make file systems faster.
constexpr unsigned most_writers = 8;

void check(rpc::shared_region const& r) {
  auto const refuse = [](std::string const& why) { throw std::invalid_argument{"daemon: " + why}; };
  if (r.ring == nullptr || r.completions == nullptr || r.staging == nullptr)
    refuse("the region has no ring, channels or staging");
  if (r.slots == 0 || (r.slots & (r.slots - 1)) != 0)
    refuse(fmt::format("ring of {} slots: must be a power of two", r.slots));
  if (r.rings == 0) refuse("no rings: must be at least 1");
  if (r.channels == 0 || (r.channels + r.rings - 1) / r.rings > r.slots)
    refuse(fmt::format("{} channels: must be from 1 to {}, the slots of {} rings of {}", r.channels,
                       r.rings * r.slots, r.rings, r.slots));
  if (r.staging_bytes == 0) refuse("staging of 0 bytes");
}

std::deque<served_endpoint> served(std::vector<endpoint> const& endpoints, unsigned threads) {
  std::deque<served_endpoint> all;
  for (auto const& e : endpoints) {
    check(e.region);
    all.emplace_back(e, threads);
  }
  return all;
}

record_tables records_of(std::vector<endpoint> const& endpoints) {
  std::vector<rpc::shared_region> regions;
  for (auto const& e : endpoints) regions.push_back(e.region);
  return record_tables{std::move(regions)};
}

write_buffers buffers_of(std::vector<endpoint> const& endpoints) {
  std::vector<rpc::write_region> regions;
  for (auto const& e : endpoints) regions.push_back(e.region.writes);
  return write_buffers{std::move(regions)};
}

void raise_flags(rpc::shared_region const& region, std::uint64_t value) noexcept {
  for (auto& flag : region.control->stop)
    std::atomic_ref<std::uint64_t>{flag.stopped}.store(value, std::memory_order_release);
}

server_settings checked(server_settings s) {
  if (s.threads == 0) s.threads = default_threads();
  if (s.threads > most_threads)
    throw std::invalid_argument{
        fmt::format("daemon: host_threads={}: must be from 1 to {}", s.threads, most_threads)};
  if (s.queue_depth < 1 || s.queue_depth > deepest_queue)
    throw std::invalid_argument{
        fmt::format("daemon: queue_depth={}: must be from 1 to {}", s.queue_depth, deepest_queue)};
  s.files.requests = s.requests;
  return s;
}

}  // namespace

unsigned default_threads() noexcept {
  auto const cores = std::thread::hardware_concurrency();
  return cores > 3 ? std::min(cores - 2, 14u) : 1;
}

server_settings server_settings::from(config const& c) {
  server_settings s;
  s.threads = c.host_threads;
  s.backend = c.backend;
  s.path = c.path;
  s.views = c.views;
  s.write_behind = c.write_behind;
  return s;
}

server::server(std::vector<endpoint> const& endpoints, server_settings settings,
               fault_injector* faults)
    : settings_{checked(std::move(settings))},
      endpoints_{served(endpoints, settings_.threads)},
      faults_{faults},
      writes_{buffers_of(endpoints), faults, settings_.requests, settings_.write_behind},
      files_{records_of(endpoints), settings_.files, &writes_},
      bulk_{files_,
            {.backend = settings_.backend,
             .path = settings_.path,
             .queue_depth = settings_.queue_depth,
             .hooks = settings_.hooks,
             .requests = settings_.requests}},
      retired_(endpoints.size()) {
  make_workers();
}

server::~server() { stop(); }

void server::make_workers() {
  std::vector<std::unique_ptr<io_engine>> engines;
  std::map<std::string, unsigned> refused;
  engine_notes_.clear();
  if (settings_.backend != io_backend::pread) {
    std::vector<std::span<std::byte>> staging;
    for (auto const& e : endpoints_) staging.emplace_back(e.region.staging, e.region.staging_bytes);
    try {
      uring_engine* first = nullptr;
      for (unsigned i = 0; i < settings_.threads; ++i) {
        auto engine =
            std::make_unique<uring_engine>(settings_.queue_depth, staging, settings_.hooks, first);
        if (first == nullptr) first = engine.get();
        for (auto const& note : engine->notes()) ++refused[note];
        engines.push_back(std::move(engine));
      }
      backend_ = io_backend::uring;
    } catch (std::system_error const& e) {
      if (settings_.backend == io_backend::uring)
        throw std::runtime_error{
            fmt::format("io_backend=uring: the kernel refuses io_uring ({}): allow it (sysctl "
                        "kernel.io_uring_disabled=0, the container's "
                        "seccomp profile, ulimit -l), or set io_backend to auto or pread",
                        e.what())};
      engine_notes_.push_back(
          fmt::format("reading with pread threads: the kernel refuses io_uring ({}){}", e.what(),
                      e.code().value() == ENOMEM
                          ? "; raise the locked-memory limit (ulimit -l), against which rings count"
                          : ""));
      engines.clear();
      refused.clear();
    }
  }
  for (auto const& [note, threads] : refused)
    engine_notes_.push_back(
        threads == settings_.threads
            ? note
            : fmt::format("{} [{} of {} threads]", note, threads, settings_.threads));
  if (engines.empty()) {
    backend_ = io_backend::pread;
    for (unsigned i = 0; i < settings_.threads; ++i)
      engines.push_back(std::make_unique<pread_engine>());
  }
  std::vector<std::unique_ptr<worker>> workers;
  for (auto& engine : engines)
    workers.push_back(std::make_unique<worker>(
        endpoints_, files_, writes_, faults_, std::move(engine),
        path_choice{settings_.path, settings_.hooks, late_notes_, settings_.views},
        settings_.requests));
  std::lock_guard const lock{counting_};
  workers_ = std::move(workers);
}

// Those of detached endpoints stay raised.
void server::raise_stop_flags(std::uint64_t value) noexcept {
  std::lock_guard const lock{raising_};
  for (auto const& e : endpoints_)
    if (!e.detached.load(std::memory_order_relaxed)) raise_flags(e.region, value);
}

void server::detach(std::size_t number) {
  auto& e = endpoints_.at(number);
  {
    std::lock_guard const lock{raising_};
    // Pairs with the acquire of device waits: a caller that sees it need not wait for an answer.
    raise_flags(e.region, 1);
    e.detached.store(true, std::memory_order_relaxed);
  }
  writes_.end_endpoint(number);
}

void server::start() {
  std::lock_guard const one_at_a_time{starting_};
  start_serving();
}

void server::stop() {
  std::lock_guard const one_at_a_time{starting_};
  stop_serving();
}

void server::start_serving() {
  if (running_) return;
  if (workers_.empty()) make_workers();
  // Pairs with the acquire of device waits: callers may expect answers again.
  raise_stop_flags(0);
  running_ = true;
  std::latch ready{std::ptrdiff_t(workers_.size())};
  std::size_t started = 0;
  try {
    writes_.start(std::min(settings_.threads, most_writers));
    for (auto& w : workers_) {
      w->start(unsigned(started), ready);
      ++started;
    }
  } catch (...) {
    ready.count_down(std::ptrdiff_t(workers_.size() - started));
    ready.wait();
    stop_serving();
    throw;
  }
  ready.wait();
  for (auto& w : workers_) {
    int const error = w->start_error();
    if (error == 0) continue;
    stop_serving();
    if (settings_.backend == io_backend::uring)
      throw std::system_error{-error, std::generic_category(), "daemon: io_uring_enable_rings"};
    settings_.backend = io_backend::pread;
    start_serving();
    engine_notes_.push_back(
        fmt::format("reading with pread threads: the kernel refuses to enable io_uring ({})",
                    std::strerror(-error)));
    return;
  }
}

void server::stop_serving() {
  if (!running_) return;
  // Pairs with the acquire of device waits: a caller that sees it need not wait for an answer.
  raise_stop_flags(1);
  for (auto& w : workers_) w->request_stop();
  for (auto& w : workers_) w->join();
  writes_.stop();
  retire_workers();
  running_ = false;
}

std::vector<std::string> server::notes() const {
  auto all = engine_notes_;
  all.insert(all.end(), files_.notes().begin(), files_.notes().end());
  for (auto const& note : late_notes_.all()) all.push_back(note);
  for (auto const& note : bulk_.notes())
    if (std::find(all.begin(), all.end(), note) == all.end()) all.push_back(note);
  return all;
}

}  // namespace gpufs::daemon
