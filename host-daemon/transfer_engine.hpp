// The transfer thread: copies pieces of staging to their twins in GPU memory, in batches. The
// hand-off is such that nobody depends on it.
#pragma once

#include <host-daemon/fault_injector.hpp>
#include <host-daemon/twin_copier.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

namespace gpufs::daemon {

/// A copy that cannot start, or does not end, must not keep a request waiting: a CUDA call may wait
/// for a kernel that waits for that request. So each piece has a state that both sides change by
/// one atomic operation, and whoever handed it over can take it back at any time:
///
///            hand_over           start of batch         end of batch
///      idle -----------> offered --------------> claimed ------------> copied, failed
///       ^                   | give_up              | give_up               | settle
///       |                   v                      v                       v
///       +------------- withdrawn <-+           abandoned                 idle
///       |   found by the thread                    | end of batch
///       +------------------------------------------+
///
/// A copy writes to the twin only, never to staging: the giver-up answers by what is in staging. A
/// withdrawn or abandoned piece takes no transfer until the thread has let go of it, so that a late
/// copy lands in memory at which nobody looks.
class transfer_engine {
 public:
  using clock = std::chrono::steady_clock;

  /// `channels`: pieces are named by their channel, which has one request at a time. `limit`: how
  /// long a transfer may make no progress. Starts the thread; throws std::system_error if there is
  /// none to be had. `faults`, if given, must outlive it.
  transfer_engine(std::unique_ptr<twin_copier> copier, std::uint64_t channels,
                  std::chrono::milliseconds limit, fault_injector* faults = nullptr);

  /// Waits until no copy is under way. Nobody may use the engine any more.
  ~transfer_engine();
  transfer_engine(transfer_engine const&) = delete;
  transfer_engine& operator=(transfer_engine const&) = delete;

  /// Below this, what a copy costs besides its bytes is more than pulling them: a tenth of the
  /// bus's speed at 4 KiB, nine tenths at 64.
  static constexpr std::uint64_t shortest = 32 << 10;

  // The functions below: by the thread that serves the channel's request. They never wait.

  /// Asks for a copy of [offset, offset + bytes) of staging. False, with nothing changed, if it had
  /// better be answered without: an earlier copy of the channel is not over, or the device is stuck
  /// or has refused.
  [[nodiscard]] bool hand_over(std::uint32_t channel, std::uint64_t offset,
                               std::uint64_t bytes) noexcept;

  enum class outcome { pending, copied, none };

  /// What became of a transfer that was handed over at `since`: `copied`: the bytes are in the
  /// twin; `none`: they are not, and whatever may still be written to the twin is nobody's. Both
  /// end it. `now`: clock::time_point::max() to give up what is not copied yet.
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
  alignas(64) std::atomic<clock::rep> progress_{
      0};  // when copies under way last made progress; 0 = none is under way
  std::atomic<bool> refused_{false};
  std::atomic<bool> stop_{false};

  // The thread's. It allocates nothing.
  piece* first_waiting_ = nullptr;
  piece* last_waiting_ = nullptr;
  std::vector<batch> batches_;  // as many as the copier takes; number n is batches_[n % size]
  std::uint64_t started_ = 0, ended_ = 0;
  std::vector<copy_range> ranges_;
  std::thread thread_;
};

}  // namespace gpufs::daemon
