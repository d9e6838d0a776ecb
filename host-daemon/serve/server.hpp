// The host daemon: threads that take requests from the rings of its endpoints, carry them out on
// the host's files, and answer them.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/statistics.hpp>
#include <gpufs/testing/faults.hpp>

#include <host-daemon/base/io_hooks.hpp>
#include <host-daemon/base/note_list.hpp>
#include <host-daemon/bulk/bulk_io.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/serve/endpoint.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::daemon {

class worker;

struct server_settings {
  unsigned threads = 0;  ///< 1..256; 0 = default_threads()
  /// automatic: io_uring if the kernel allows it, else pread.
  io_backend backend = io_backend::automatic;
  /// The way of the bytes of reads. See path_choice.
  io_path path = io_path::automatic;
  bool views = true;                                   ///< copy out of views of files
  std::uint64_t write_behind = config{}.write_behind;  ///< as config has it
  unsigned queue_depth = 64;  ///< reads that one thread keeps in flight with io_uring, 1..4096
  registry_settings files{};
  io_hooks hooks{};
  /// Records what is done outside of the daemon's threads. It must outlive the server. Null: nobody
  /// does, and there is no trace.
  request_recorder* requests = nullptr;

  /// The settings of `c` that concern the daemon.
  static server_settings from(config const& c);
};

/// One per core less two, at least 1, at most 14.
[[nodiscard]] unsigned default_threads() noexcept;

/// Sums over all threads since construction, of one endpoint or of all.
struct server_statistics {
  std::uint64_t requests = 0;  ///< taken from the rings
  std::uint64_t failed = 0;    ///< of these, answered with -errno
  /// Of these, those that name no channel that exists. They get no answer.
  std::uint64_t rejected = 0;
  std::uint64_t bytes_read = 0;    ///< delivered to staging
  std::uint64_t bytes_direct = 0;  ///< of these, read with O_DIRECT
  std::uint64_t bytes_viewed = 0;  ///< of bytes_read: copied out of views of files
  std::uint64_t bytes_copied = 0;  ///< of bytes_read: copied to GPU memory by the transfer engine
  /// Read operations: system calls, and copies out of views. They exceed the reads requested if
  /// some came back short.
  std::uint64_t reads_issued = 0;
  std::uint64_t writes_issued = 0;  ///< write operations given to the kernel for dirty pages
  std::uint64_t bytes_written = 0;  ///< bytes these wrote
  // These belong to threads, so they are 0 for a single endpoint.
  std::uint64_t idle_polls = 0;  ///< looks at all rings that found nothing to do
  std::uint64_t busy_ns = 0;     ///< time between finding work and running out of it

  server_statistics& operator+=(server_statistics const& other) noexcept;
};

/// Endpoints share descriptors, versions and threads. An endpoint has what belongs to its device:
/// rings, staging, write buffers, a table of records. All that it names must outlive the server,
/// even if it is detached. The server makes no device calls and frees nothing of it.
class server {
 public:
  /// Sets up the registry and the I/O engines. Starts no thread. `faults`, if given, must outlive
  /// the server. Endpoints are numbered in the order of the list.
  /// Throws std::invalid_argument (a region or a setting is wrong, or endpoints do not fit each
  /// other), or std::runtime_error (backend uring is forced, but the kernel refuses io_uring; the
  /// message says why and what to do).
  server(std::vector<endpoint> const& endpoints, server_settings settings,
         fault_injector* faults = nullptr);
  /// A server of one endpoint.
  server(endpoint const& only, server_settings settings, fault_injector* faults = nullptr)
      : server{std::vector{only}, std::move(settings), faults} {}

  /// Calls stop(), then closes every file.
  ~server();
  server(server const&) = delete;
  server& operator=(server const&) = delete;

  /// Clears the stop flags and starts the threads. Returns when all serve. No effect if running. It
  /// may be called again after stop(): requests that stayed in the ring are answered then.
  /// Thread-safe, as stop() is: each waits for the other.
  /// Throws std::system_error if a thread or a ring cannot be made; nothing runs then.
  void start();

  /// Sets the stop flags, answers every request already taken, and joins the threads. Requests that
  /// an injected fault holds get -EIO. No effect if not running.
  /// Requests still in the ring stay there unanswered, and device waits end with -EIO. The server
  /// writes no data and no answer after this returns.
  void stop();

  [[nodiscard]] bool running() const noexcept { return running_.load(); }

  /// Ends the service of endpoint `number` for good, as its device has failed or goes: no kernel of
  /// it may add bytes to write buffers any more. Its device waits end with -EIO. Requests that were
  /// taken are answered, others stay in the ring. What its kernels have posted is written back as
  /// ever. The other endpoints go on. Thread-safe.
  void detach(std::size_t number);

  [[nodiscard]] std::size_t endpoints() const noexcept { return endpoints_.size(); }

  /// For the host's own open, close and stat. Usable whether the server runs or not.
  [[nodiscard]] file_registry& files() noexcept { return files_; }
  /// For host code that reads and writes ranges of files. Usable whether the server runs or not.
  [[nodiscard]] bulk_io& bulk() noexcept { return bulk_; }
  /// For host code that looks at dirty pages or writes them. Usable whether the server runs or not.
  [[nodiscard]] write_back& writes() noexcept { return writes_; }

  /// The sums of all endpoints, or of one. Thread-safe. Exact once the server has stopped.
  [[nodiscard]] server_statistics statistics() const;
  [[nodiscard]] server_statistics statistics(std::size_t number) const;

  /// How long requests to the host took, of all endpoints. Thread-safe.
  [[nodiscard]] host_times times() const;

  /// The counters of each running thread. Thread-safe. Empty when stopped.
  [[nodiscard]] std::vector<thread_statistics> per_thread() const;

  /// The engine in use: uring or pread.
  [[nodiscard]] io_backend backend() const noexcept { return backend_; }

  [[nodiscard]] unsigned threads() const noexcept { return settings_.threads; }

  /// The daemon's fallbacks and adjustments, and their reasons: one sentence each. Do not call
  /// while start() runs.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  void start_serving();
  void stop_serving();
  void raise_stop_flags(std::uint64_t value) noexcept;
  void make_workers();
  void retire_workers();
  [[nodiscard]] server_statistics sum_of(std::size_t number) const;

  server_settings settings_;
  std::deque<served_endpoint> endpoints_;
  fault_injector* faults_;
  io_backend backend_ = io_backend::pread;
  std::mutex starting_;  // held by start() and stop()
  std::mutex raising_;   // held while stop flags change; locked last
  std::atomic<bool> running_{false};
  std::vector<std::string> engine_notes_;
  note_list late_notes_;  // of the time while the threads serve
  write_back writes_;
  file_registry files_;
  bulk_io bulk_;
  // Guards the three below against statistics(). Only start() and stop() change them.
  mutable std::mutex counting_;
  server_statistics retired_threads_;       // of workers that an earlier stop() ended,
  std::vector<server_statistics> retired_;  // and by endpoint
  host_times retired_times_{};
  std::vector<std::unique_ptr<worker>> workers_;
};

}  // namespace gpufs::daemon
