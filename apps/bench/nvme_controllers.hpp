// Software controllers without a filesystem, and the queue pairs that kernels drive on them.
#pragma once

#include <gpufs/nvme/queue_group.hpp>

#include <nvme-controller/block_namespace.hpp>
#include <nvme-controller/drive_model.hpp>
#include <nvme-host/control_plane.hpp>
#include <nvme-host/software.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace gpufs::apps {

struct controllers_options {
  std::uint32_t controllers = 1;
  std::uint32_t threads = 1;  ///< of each controller
  std::uint32_t pairs = 1;    ///< of each controller
  std::uint32_t depth = 1024;
  std::uint64_t timeout_ns = 10'000'000'000;  ///< of a kernel's waits
  /// Namespace 1 of each controller.
  std::shared_ptr<nvme_controller::block_namespace> blocks{};
  /// Each controller is as slow as this drive.
  std::optional<nvme_controller::drive_rates> model{};
  std::uint64_t data_bytes = 0;  ///< of pinned memory that all controllers reach
};

/// All controllers are up. No kernel uses them when this object ends.
class bench_controllers {
 public:
  /// Throws controller_error, device_error, std::system_error, or std::runtime_error if a
  /// controller grants fewer queue pairs.
  explicit bench_controllers(controllers_options const& o);
  ~bench_controllers();
  bench_controllers(bench_controllers const&) = delete;
  bench_controllers& operator=(bench_controllers const&) = delete;

  [[nodiscard]] controllers_options const& options() const { return options_; }
  /// The pairs of all controllers. Neighbours are of different controllers.
  [[nodiscard]] std::vector<nvme::queue_pair_place> const& places() const { return places_; }
  [[nodiscard]] nvme::queue_group const& group() const { return *group_; }
  [[nodiscard]] std::byte* data() const { return data_.data(); }
  /// The address of data() for each controller.
  [[nodiscard]] std::uint64_t bus() const { return reinterpret_cast<std::uint64_t>(data_.data()); }
  /// Commands that the controllers have taken from these pairs.
  [[nodiscard]] std::uint64_t commands() const;
  /// Completions that they have posted.
  [[nodiscard]] std::uint64_t completions() const;

 private:
  void add_controller();

  controllers_options const options_;
  pinned_buffer<std::byte> data_;
  std::vector<std::unique_ptr<nvme_host::software_link>> links_;
  std::vector<std::unique_ptr<nvme_host::control_plane>> planes_;
  std::vector<nvme::queue_pair_place> places_;
  std::optional<nvme::queue_group> group_;
};

}  // namespace gpufs::apps
