// The host daemon: threads that take requests from the shared rings, carry them out on the host's
// files, and answer them.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/rpc/wire_format.hpp>
#include <gpufs/statistics.hpp>
#include <gpufs/testing/faults.hpp>

#include <host-daemon/base/io_hooks.hpp>
#include <host-daemon/base/note_list.hpp>
#include <host-daemon/device_work/transfer_engine.hpp>
#include <host-daemon/device_work/window_registrar.hpp>
#include <host-daemon/files/file_registry.hpp>
#include <host-daemon/serve/request_queue.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gpufs::daemon {

class worker;

struct server_settings {
  unsigned threads = 0;  ///< 1..256; 0 = default_threads()
  /// automatic: io_uring if the kernel allows it, else pread.
  io_backend backend = io_backend::automatic;
  /// The way of the bytes of reads. See path_choice.
  io_path path = io_path::automatic;
  unsigned queue_depth = 64;  ///< reads that one thread keeps in flight with io_uring, 1..4096
  registry_settings files;
  io_hooks hooks;

  /// The settings of `c` that concern the daemon.
  static server_settings from(config const& c);
};

/// One per core less two, at least 1, at most 14.
[[nodiscard]] unsigned default_threads() noexcept;

/// Sums over all threads since construction.
struct server_statistics {
  std::uint64_t requests = 0;  ///< taken from the ring
  std::uint64_t failed = 0;    ///< of these, answered with -errno
  /// Of these, those that name no channel that exists. They get no answer.
  std::uint64_t rejected = 0;
  std::uint64_t bytes_read = 0;    ///< delivered to staging
  std::uint64_t bytes_direct = 0;  ///< of these, read with O_DIRECT
  std::uint64_t bytes_copied = 0;  ///< of bytes_read: copied to GPU memory by the transfer engine
  /// Read operations given to the kernel. They exceed the reads requested if some came back short.
  std::uint64_t reads_issued = 0;
  std::uint64_t writes_issued = 0;  ///< write operations given to the kernel for dirty pages
  std::uint64_t bytes_written = 0;  ///< bytes these wrote
  std::uint64_t idle_polls = 0;     ///< looks at the ring that found nothing to do
  std::uint64_t busy_ns = 0;        ///< time between finding work and running out of it
};

/// The region must be filled in as rpc::shared_region says, zeroed before first use, and outlive
/// the server. The server makes no device calls and never frees the region.
class server {
 public:
  /// Sets up the registry and the I/O engines. Starts no thread. `faults`, `transfers` and
  /// `windows`, if given, must outlive the server.
  /// `transfers`: long reads are answered when their bytes are in GPU memory, or when it turns out
  /// that a pull is better.
  /// `windows`: is offered the windows that are read of files that are not written.
  /// Throws std::invalid_argument (the region or a setting is wrong), or std::runtime_error
  /// (backend uring is forced, but the kernel refuses io_uring; the message says why and what to
  /// do).
  server(rpc::shared_region const& region, server_settings settings,
         fault_injector* faults = nullptr, transfer_engine* transfers = nullptr,
         window_registrar* windows = nullptr);

  /// Calls stop(), then closes every file.
  ~server();
  server(server const&) = delete;
  server& operator=(server const&) = delete;

  /// Clears the stop flags and starts the threads. Returns when all serve. No effect if running. It
  /// may be called again after stop(): requests that stayed in the ring are answered then. One
  /// thread at a time calls start() and stop().
  /// Throws std::system_error if a thread or a ring cannot be made; nothing runs then.
  void start();

  /// Sets the stop flags, answers every request already taken, and joins the threads. Requests that
  /// an injected fault holds get -EIO. No effect if not running.
  /// Requests still in the ring stay there unanswered, and device waits end with -EIO. The server
  /// writes no data and no answer after this returns.
  void stop();

  [[nodiscard]] bool running() const noexcept { return running_; }

  /// For the host's own open, close and stat. Usable whether the server runs or not.
  [[nodiscard]] file_registry& files() noexcept { return files_; }
  /// For host code that looks at dirty pages or writes them. Usable whether the server runs or not.
  [[nodiscard]] write_back& writes() noexcept { return writes_; }

  /// Thread-safe. Exact once the server has stopped.
  [[nodiscard]] server_statistics statistics() const;

  /// The counters of each running thread. Thread-safe. Empty when stopped.
  [[nodiscard]] std::vector<thread_statistics> per_thread() const;

  /// The engine in use: uring or pread.
  [[nodiscard]] io_backend backend() const noexcept { return backend_; }

  [[nodiscard]] unsigned threads() const noexcept { return settings_.threads; }

  /// The daemon's fallbacks and adjustments, and their reasons: one sentence each. Do not call
  /// while start() runs.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  void raise_stop_flags(std::uint64_t value) noexcept;
  void make_workers();

  rpc::shared_region region_;
  server_settings settings_;
  fault_injector* faults_;
  transfer_engine* transfers_;
  window_registrar* windows_;
  io_backend backend_ = io_backend::pread;
  bool running_ = false;
  std::vector<std::string> engine_notes_;
  note_list late_notes_;  // of the time while the threads serve
  write_back writes_;
  file_registry files_;
  std::deque<request_queue> queues_;  // one per ring
  // Guards the two below against statistics(). Only start() and stop() change them.
  mutable std::mutex counting_;
  server_statistics retired_;  // of workers that an earlier stop() ended
  std::vector<std::unique_ptr<worker>> workers_;
};

}  // namespace gpufs::daemon
