// Locks of ranges of blocks.
#pragma once

#include <nvme-host/drive.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>

namespace gpufs::nvme_host {

/// Ranges that threads hold do not overlap. Thread-safe. A thread holds one range at a time, so
/// nobody waits for a thread that waits here.
class block_locks {
 public:
  struct range {
    std::uint64_t first;
    std::uint64_t last;  ///< included
  };

  /// Holds a range while it lives.
  class hold {
   public:
    /// Waits for others that hold part of the range, until `end`. Throws std::bad_alloc.
    hold(block_locks& in, range of, io_clock::time_point end) : in_{in} {
      std::unique_lock lock{in_.mutex_};
      auto const is_free = [&] {
        return std::ranges::none_of(in_.held_, [&](range const& other) {
          return other.first <= of.last && of.first <= other.last;
        });
      };
      held_ = in_.changed_.wait_until(lock, end, is_free);
      if (held_) place_ = in_.held_.insert(in_.held_.end(), of);
    }
    ~hold() {
      if (!held_) return;
      {
        std::lock_guard const lock{in_.mutex_};
        in_.held_.erase(place_);
      }
      in_.changed_.notify_all();
    }
    hold(hold const&) = delete;
    hold& operator=(hold const&) = delete;

    /// False: the time was over.
    [[nodiscard]] explicit operator bool() const { return held_; }

   private:
    block_locks& in_;
    std::list<range>::iterator place_{};
    bool held_ = false;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<range> held_;
};

}  // namespace gpufs::nvme_host
