// Pinned memory through which I/O on shared objects goes.
#pragma once

#include <gpufs/device.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gpufs::shared {

/// Memory for one piece of I/O.
struct staging_piece {
  static constexpr std::uint64_t size = 4 << 20;

  pinned_buffer<std::byte> bytes{size};
  event copied;  ///< the device's copies from or to `bytes` so far
};

/// Pieces that I/O calls take and give back. Any thread calls. A piece is never freed before the
/// pool: CUDA's free would wait for kernels. So there are as many as were in use at once.
class staging_pool {
 public:
  /// Owns a piece for a while. The device does not use it at the end.
  class lease {
   public:
    lease(staging_pool& from, std::unique_ptr<staging_piece> piece)
        : from_(from), piece_(std::move(piece)) {}
    ~lease() { from_.give_back(std::move(piece_)); }
    lease(lease const&) = delete;
    lease& operator=(lease const&) = delete;
    staging_piece* operator->() const { return piece_.get(); }
    staging_piece& operator*() const { return *piece_; }

   private:
    staging_pool& from_;
    std::unique_ptr<staging_piece> piece_;
  };

  /// Throws device_error: no memory can be pinned.
  [[nodiscard]] lease take() {
    {
      std::lock_guard const lock(mutex_);
      if (!free_.empty()) {
        auto piece = std::move(free_.back());
        free_.pop_back();
        return {*this, std::move(piece)};
      }
      free_.reserve(++made_);  // so that giving back needs no memory
    }
    return {*this, std::make_unique<staging_piece>()};
  }

 private:
  void give_back(std::unique_ptr<staging_piece> piece) {
    std::lock_guard const lock(mutex_);
    free_.push_back(std::move(piece));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<staging_piece>> free_;
  std::size_t made_ = 0;
};

}  // namespace gpufs::shared
