// One daemon thread: it takes requests from the rings, carries them out, and answers them.
#pragma once

#include <gpufs/rpc/wire_format.hpp>
#include <gpufs/testing/faults.hpp>

#include <host-daemon/base/idle_policy.hpp>
#include <host-daemon/device_work/transfer_engine.hpp>
#include <host-daemon/device_work/window_registrar.hpp>
#include <host-daemon/engine/direct_read.hpp>
#include <host-daemon/engine/io_engine.hpp>
#include <host-daemon/engine/local_files.hpp>
#include <host-daemon/engine/path_choice.hpp>
#include <host-daemon/serve/request_queue.hpp>
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

/// One thread writes, any thread reads. On cache lines of its own.
struct alignas(64) worker_counters {
  std::atomic<std::uint64_t> requests{0}, failed{0}, rejected{0}, bytes_read{0}, bytes_direct{0},
      bytes_copied{0}, reads_issued{0}, idle_polls{0}, polls_before_first{0}, busy_ns{0};
};

/// The server makes and joins it. It serves once: a stopped worker is not started again.
class worker {
 public:
  worker(rpc::shared_region const& region, std::deque<request_queue>& queues, file_registry& files,
         write_back& writes, fault_injector* faults, std::unique_ptr<io_engine> engine,
         path_choice paths, transfer_engine* transfers = nullptr,
         window_registrar* windows = nullptr);
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

 private:
  // A request under way, which was not answered at once.
  struct job {
    std::size_t index = 0;  // in jobs_
    rpc::request request;
    local_file* file = nullptr;  // of a read
    std::uint64_t done = 0;      // bytes read so far
    bool direct = false;         // further reads go past the OS page cache
    bool is_direct = false;      // the read under way is `widened`
    direct_read widened;
    unsigned fruitless = 0;         // attempts in a row that were interrupted or told to try again
    std::shared_ptr<gate> held_at;  // not null: waits for this gate
    bool vetted = false;            // the injector has answered for the next step already
    transfer_engine::clock::time_point handed_over{};  // to the transfer thread
  };

  void serve(unsigned number, std::latch& ready) noexcept;
  bool step() noexcept;
  void rest() noexcept;
  void drain() noexcept;

  bool take_requests() noexcept;
  bool resume_released() noexcept;
  bool reap() noexcept;
  bool end_transfers(bool give_up) noexcept;

  void dispatch(rpc::request const& request) noexcept;
  void begin_read(rpc::request const& request);
  void begin_open(rpc::request const& request);
  void advance(job& j) noexcept;
  read_operation plan_read(job& j, std::uint64_t offset, std::uint64_t length) noexcept;
  bool absorb(job& j, std::int64_t result) noexcept;
  bool absorb_direct(job& j, std::int64_t& result) noexcept;
  bool begin_transfer(job& j) noexcept;
  void offer_windows(job const& j) noexcept;
  void finish_open(rpc::request const& request) noexcept;
  std::int32_t stat(rpc::request const& request) noexcept;
  std::int32_t advise(rpc::request const& request) noexcept;
  std::int32_t unlink(rpc::request const& request);
  void answer_elsewhere(rpc::request const& request,
                        std::int32_t (*what)(file_registry&, rpc::request const&));

  [[nodiscard]] bool in_staging(std::uint64_t at, std::uint64_t bytes) const noexcept;
  job& new_job(rpc::request const& request);
  void hold(job& j, std::shared_ptr<gate> until) noexcept;
  void finish(job& j, std::int32_t result) noexcept;
  void answer(rpc::request const& request, std::int32_t result) noexcept;
  static void count(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) noexcept;

  rpc::shared_region region_;
  std::deque<request_queue>& queues_;
  std::size_t home_ = 0;   // the ring this thread looks at first
  std::size_t visit_ = 0;  // the ring it looks at next when there is nothing at home
  file_registry& registry_;
  write_back& writes_;
  fault_injector* faults_;
  std::unique_ptr<io_engine> engine_;
  local_files files_;
  path_choice paths_;
  transfer_engine* transfers_;
  window_registrar* windows_;
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
  alignas(64) std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace gpufs::daemon
