// A controller that is a kernel, with its queues in device memory: what protocols of queue pairs do
// where no bus is between them and the controller.
#pragma once

#include <gpufs/device.hpp>

#include <apps/bench/nvme_controllers.hpp>

#include <cstdint>

namespace gpufs::apps {

struct device_controller_options {
  std::uint32_t pairs = 1;
  std::uint32_t depth = 1024;                 ///< as of nvme::queue_group
  std::uint64_t timeout_ns = 10'000'000'000;  ///< of a kernel's waits
};

/// A warp for each queue pair answers flushes, and refuses other commands. It ends at end(), or if
/// no command came for twice the timeout. Both kernels are resident at once: a block of the
/// controller has four warps.
class device_controller final : public answered_queues {
 public:
  /// Throws device_error, std::invalid_argument.
  explicit device_controller(device_controller_options const& o);
  ~device_controller() override;

  void begin() override;
  void end() override;
  [[nodiscard]] std::uint64_t commands() const override { return commands_; }

 private:
  /// A doorbell of a pair, on a line of its own.
  struct doorbell_line {
    alignas(128) std::uint32_t value;
  };

  buffer<nvme::sqe> sqs_;
  buffer<nvme::cqe> cqs_;
  buffer<doorbell_line> doorbells_;
  buffer<nvme::queue_pair_place> pairs_;
  buffer<std::uint64_t> taken_;         ///< commands, of each pair
  pinned_buffer<std::uint32_t> ended_;  ///< 1 at end()
  stream stream_;
  std::uint64_t commands_ = 0;
};

}  // namespace gpufs::apps
