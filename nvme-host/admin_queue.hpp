// The admin queue of a controller, as its driver uses it.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <nvme-host/controller_link.hpp>

#include <chrono>
#include <cstdint>

namespace gpufs::nvme_host {

/// One command at a time. One thread at a time calls.
class admin_queue {
 public:
  static constexpr std::uint32_t entries = 64;

  admin_queue(controller_link& link, memory_source const& source, std::uint32_t doorbell_stride);

  /// Zeroes both queues and tells the controller where they are. It is not enabled.
  void install();

  /// Sends a command and waits for its answer. The CID is this function's. Throws controller_error
  /// if the controller fails, leaves, or gives no answer within `longest`.
  nvme::cqe call(nvme::sqe const& asked, std::chrono::milliseconds longest);

  /// Gives up the memory, as dma_memory::leak().
  void leak() noexcept;

 private:
  [[nodiscard]] bool take(nvme::cqe& out);

  controller_link& link_;
  std::uint32_t stride_;
  dma_memory sq_;
  dma_memory cq_;
  std::uint32_t tail_ = 0;
  std::uint32_t head_ = 0;  // of all entries since install()
  std::uint16_t cid_ = 0;
};

}  // namespace gpufs::nvme_host
