// Things that are costly to make, and are used by one thread at a time.
#pragma once

#include <gpufs/mapping/quiet_lock.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gpufs::shared {

/// Threads take things and give them back. Any thread calls. A thing is never freed before the
/// pool: CUDA's free would wait for kernels. So there are as many as were in use at once.
template <class Thing>
class pool {
 public:
  /// Owns a thing for a while. The device does not use it at the end.
  class lease {
   public:
    lease(pool& from, std::unique_ptr<Thing> thing) : from_(&from), thing_(std::move(thing)) {}
    lease(lease&& other) noexcept = default;
    ~lease() {
      if (thing_ != nullptr) from_->give_back(std::move(thing_));
    }
    lease(lease const&) = delete;
    lease& operator=(lease const&) = delete;
    Thing* operator->() const { return thing_.get(); }
    Thing& operator*() const { return *thing_; }

   private:
    pool* from_;
    std::unique_ptr<Thing> thing_;
  };

  /// Makes one from `how` if none is free. Throws what the thing's constructor throws.
  template <class... How>
  [[nodiscard]] lease take(How const&... how) {
    {
      quiet_lock const lock(mutex_);
      if (!free_.empty()) {
        auto thing = std::move(free_.back());
        free_.pop_back();
        return {*this, std::move(thing)};
      }
      free_.reserve(++made_);  // so that giving back needs no memory
    }
    return {*this, std::make_unique<Thing>(how...)};
  }

 private:
  // Also where signals come through: a handler of the program may take a thing.
  void give_back(std::unique_ptr<Thing> thing) {
    quiet_lock const lock(mutex_);
    free_.push_back(std::move(thing));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Thing>> free_;
  std::size_t made_ = 0;
};

}  // namespace gpufs::shared
