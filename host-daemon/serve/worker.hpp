// One daemon thread: it takes requests from the rings, carries them out, and answers them.
#pragma once

#include <gpufs/testing/faults.hpp>

#include <host-daemon/base/idle_policy.hpp>
#include <host-daemon/base/request_recorder.hpp>
#include <host-daemon/engine/file_read.hpp>
#include <host-daemon/engine/io_engine.hpp>
#include <host-daemon/engine/local_files.hpp>
#include <host-daemon/engine/path_choice.hpp>
#include <host-daemon/serve/endpoint.hpp>
#include <host-daemon/write_back/write_back.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace gpufs::daemon {

/// The longest read of one request. Its result must fit the completion, beside a flag.
inline constexpr std::uint64_t longest_read = rpc::in_twin_bit - 1;

/// Of one thread, which writes them; any thread reads. On cache lines of their own.
struct alignas(64) worker_counters {
  std::atomic<std::uint64_t> requests{0}, idle_polls{0}, polls_before_first{0}, busy_ns{0};
};

/// The server makes and joins it. It serves once: a stopped worker is not started again.
class worker {
 public:
  worker(std::deque<served_endpoint>& endpoints, file_registry& files, write_back& writes,
         fault_injector* faults, std::unique_ptr<io_engine> engine, path_choice paths,
         request_recorder* others = nullptr);
  ~worker();

  /// Starts the thread. `ready` is counted down once it serves or has failed. Throws
  /// std::system_error if the system gives no thread.
  void start(unsigned number, std::latch& ready);

  /// Returns 0, or -errno if the thread could not attach its engine. Valid once `ready` has been
  /// counted down.
  [[nodiscard]] int start_error() const noexcept { return start_error_; }

  // Pairs with the acquire in serve().
  void request_stop() noexcept { stop_.store(true, std::memory_order_release); }
  void join();

  [[nodiscard]] worker_counters const& counters() const noexcept { return counters_; }
  /// The times of this thread's reads and copies.
  [[nodiscard]] request_recorder const& requests() const noexcept { return requests_; }
  /// The part of endpoint number `n`.
  [[nodiscard]] endpoint_counters const& counters(std::size_t n) const noexcept {
    return endpoints_[n].counters;
  }

 private:
  // A request under way, which was not answered at once.
  struct job {
    std::size_t index = 0;  // in jobs_
    taken_request request;
    local_file* file = nullptr;  // of a read
    file_read read;
    ended_request recorded;         // the read operation under way
    std::shared_ptr<gate> held_at;  // not null: waits for this gate
    bool vetted = false;            // the injector has answered for the next step already
    transfer_engine::clock::time_point handed_over{};  // to the transfer thread
  };

  void serve(unsigned number, std::latch& ready) noexcept;
  bool step() noexcept;
  void rest() noexcept;
  void drain() noexcept;

  bool take_requests() noexcept;
  bool take_requests(thread_endpoint& from) noexcept;
  bool resume_released() noexcept;
  bool reap() noexcept;
  bool end_transfers(bool give_up) noexcept;

  void dispatch(taken_request const& request) noexcept;
  void begin_read(taken_request const& request);
  void begin_open(taken_request const& request);
  void advance(job& j) noexcept;
  void record(job& j, std::int64_t result) noexcept;
  bool absorb(job& j, std::int64_t result) noexcept;
  bool begin_transfer(job& j) noexcept;
  void offer_windows(job const& j) noexcept;
  void finish_open(taken_request const& request) noexcept;
  void answer_open(taken_request const& request, std::int32_t opened) noexcept;
  void close_unwanted(taken_request const& request, std::int32_t opened) noexcept;
  std::int32_t stat(taken_request const& request, bool waits) noexcept;
  std::int32_t advise(taken_request const& request) noexcept;
  [[nodiscard]] std::int32_t open(taken_request const& request, bool waits) noexcept;
  [[nodiscard]] std::int32_t finish_close(taken_request const& request) noexcept;
  [[nodiscard]] std::int32_t unlink(taken_request const& request) noexcept;
  void answer_elsewhere(taken_request const& request) noexcept;
  [[nodiscard]] bool post_slow(taken_request const& request) noexcept;
  void answer_slow(taken_request const& request) noexcept;
  void open_slow(taken_request const& request) noexcept;
  void truncate(taken_request const& request) noexcept;

  [[nodiscard]] static bool in_staging(taken_request const& request, std::uint64_t bytes) noexcept;
  job& new_job(taken_request const& request);
  void hold(job& j, std::shared_ptr<gate> until) noexcept;
  void finish(job& j, std::int32_t result) noexcept;
  void answer(taken_request const& request, std::int32_t result) noexcept;
  static void count(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) noexcept;

  std::deque<thread_endpoint> endpoints_;
  std::size_t turn_ = 0;  // the endpoint whose requests are taken first
  file_registry& registry_;
  write_back& writes_;
  fault_injector* faults_;
  std::unique_ptr<io_engine> engine_;
  local_files files_;
  path_choice paths_;
  idle_policy idle_;
  std::deque<job> jobs_;  // grows only; jobs do not move
  // This and the next two have room for all jobs, so that their use cannot fail.
  std::vector<job*> free_jobs_;
  std::vector<job*> held_;
  std::vector<job*> transferring_;
  std::size_t reading_ = 0;  // jobs whose read is with the engine
  // Bytes of reads that the engine got since its last poll, which starts them.
  std::uint64_t unstarted_bytes_ = 0;
  bool busy_ = false;
  idle_policy::clock::time_point busy_since_{};
  int start_error_ = 0;
  worker_counters counters_;
  // The clock, as it was looked at last: once for the requests that are taken together, once for
  // the results that come together.
  ended_request::time_point now_{};
  request_recorder requests_;
  request_recorder* others_;  // of callers that may rest for long; null: none
  alignas(64) std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace gpufs::daemon
