// The transfer thread: copies pieces of staging to their twins in GPU memory, in batches. No
// request depends on it.
#pragma once

#include <gpufs/testing/faults.hpp>

#include <host-daemon/device_work/twin_copier.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

namespace gpufs::daemon {

/// A copy may be unable to start or to end: a CUDA call may wait for a kernel that waits for the
/// very request. So each piece has a state that both sides change by one atomic operation, and the
/// thread that handed it over can take it back at any time:
///
///            hand_over           start of batch         end of batch
///      idle -----------> offered --------------> claimed ------------> copied, failed
///       ^                   | give_up              | give_up               | settle
///       |                   v                      v                       v
///       +------------- withdrawn <-+           abandoned                 idle
///       |   found by the thread                    | end of batch
///       +------------------------------------------+
///
/// A copy writes to the twin only. So a thread that gives up answers by the bytes in staging. A
/// withdrawn or abandoned piece takes no transfer until the transfer thread has let go of it. So no
/// caller looks at memory that a late copy may reach.
class transfer_engine {
 public:
  using clock = std::chrono::steady_clock;

  /// `channels`: pieces are named by their channel, which has one request at a time. `limit`: how
  /// long a transfer may make no progress. `faults`, if given, must outlive it.
  /// Starts the thread. Throws std::system_error if the system gives no thread.
  transfer_engine(std::unique_ptr<twin_copier> copier, std::uint64_t channels,
                  std::chrono::milliseconds limit, fault_injector* faults = nullptr);

  /// Waits until no copy is under way. No thread may use the engine any more.
  ~transfer_engine();
  transfer_engine(transfer_engine const&) = delete;
  transfer_engine& operator=(transfer_engine const&) = delete;

  /// The shortest copy. Below it, the cost of a copy besides its bytes exceeds that of pulling
  /// them: a copy reaches a tenth of the bus's speed at 4 KiB, nine tenths at 64 KiB.
  static constexpr std::uint64_t shortest = 32 << 10;

  // The thread that serves the channel's request calls the functions below. They never wait. Where
  // requests claim to be of one channel at the same time, one thread gets the transfer.

  /// Requests a copy of [offset, offset + bytes) of staging. Returns false, with nothing changed,
  /// if the request is better answered without a copy: an earlier copy of the channel is not over,
  /// or the device is stuck or has refused.
  [[nodiscard]] bool hand_over(std::uint32_t channel, std::uint64_t offset,
                               std::uint64_t bytes) noexcept;

  enum class outcome { pending, copied, none };

  /// Returns the state of a transfer that was handed over at `since`. `now`:
  /// clock::time_point::max() to give up a copy that is not over.
  /// pending  It goes on.
  /// copied   The bytes are in the twin. This ends the transfer.
  /// none     They are not. A late copy to the twin does no harm. This ends the transfer, too.
  [[nodiscard]] outcome settle(std::uint32_t channel, clock::time_point since,
                               clock::time_point now) noexcept;

 private:
  enum class phase : std::uint32_t { idle, offered, claimed, copied, failed, withdrawn, abandoned };
  struct piece {
    std::atomic<phase> state{phase::idle};
    std::uint64_t offset = 0, bytes = 0;
    piece* next = nullptr;  // offers: handed over before this one; waiting: after it
  };
  using batch = std::vector<piece*>;  // with room for most_pieces

  [[nodiscard]] bool stuck_since(clock::time_point since, clock::time_point now) const noexcept;
  void serve() noexcept;
  void take_offers() noexcept;
  piece* next_waiting() noexcept;
  bool start_batch() noexcept;
  bool end_batch() noexcept;
  void end_pieces(batch const& pieces, bool copied) noexcept;

  std::unique_ptr<twin_copier> copier_;
  clock::duration limit_;
  fault_injector* faults_;
  std::deque<piece> pieces_;  // by channel

  alignas(64) std::atomic<piece*> offers_{nullptr};  // newest first
  // The time of the last progress of copies under way; 0 = none is under way.
  alignas(64) std::atomic<clock::rep> progress_{0};
  std::atomic<bool> refused_{false};
  std::atomic<bool> stop_{false};

  // The thread alone uses the rest. It allocates nothing.
  piece* first_waiting_ = nullptr;
  piece* last_waiting_ = nullptr;
  std::vector<batch> batches_;  // as many as the copier takes; number n is batches_[n % size]
  std::uint64_t started_ = 0, ended_ = 0;
  std::vector<copy_range> ranges_;
  std::thread thread_;
};

}  // namespace gpufs::daemon
