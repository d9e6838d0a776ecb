// Software controllers without a filesystem, and the queue pairs that kernels drive.
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
#include <utility>
#include <vector>

namespace gpufs::apps {

/// Queue pairs that kernels drive, and the controllers that answer their commands. Each object
/// serves one run.
class answered_queues {
 public:
  virtual ~answered_queues() = default;
  answered_queues(answered_queues const&) = delete;
  answered_queues& operator=(answered_queues const&) = delete;

  /// Neighbours are of different controllers.
  [[nodiscard]] std::vector<nvme::queue_pair_place> const& places() const { return places_; }
  [[nodiscard]] nvme::queue_group const& group() const { return *group_; }
  [[nodiscard]] std::uint32_t depth() const { return places_[0].depth; }
  /// Of a kernel's waits.
  [[nodiscard]] std::uint64_t timeout_ns() const { return timeout_ns_; }

  /// Before kernels send commands. What they need is loaded and allocated by then: if the
  /// controller is a kernel, CUDA could wait for it. Throws device_error.
  virtual void begin() {}
  /// After the kernels have ended, or where none was launched. Throws device_error.
  virtual void end() {}
  /// Commands that were taken from these pairs. After end().
  [[nodiscard]] virtual std::uint64_t commands() const = 0;

 protected:
  explicit answered_queues(std::uint64_t timeout_ns) : timeout_ns_{timeout_ns} {}
  void set_places(std::vector<nvme::queue_pair_place> places) {
    places_ = std::move(places);
    group_.emplace(places_, nvme::queue_group_options{.timeout_ns = timeout_ns_});
  }

 private:
  std::uint64_t timeout_ns_;
  std::vector<nvme::queue_pair_place> places_;
  std::optional<nvme::queue_group> group_;
};

/// Answers come as long as this object lives.
class answers {
 public:
  explicit answers(answered_queues& of) : of_{of} { of_.begin(); }
  /// For a run that has failed: it says no more.
  ~answers() {
    try {
      end();
    } catch (...) {
    }
  }
  answers(answers const&) = delete;
  answers& operator=(answers const&) = delete;
  void end() {
    if (!std::exchange(ended_, true)) of_.end();
  }

 private:
  answered_queues& of_;
  bool ended_ = false;
};

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
class bench_controllers final : public answered_queues {
 public:
  /// Throws controller_error, device_error, std::system_error, or std::runtime_error if a
  /// controller grants fewer queue pairs.
  explicit bench_controllers(controllers_options const& o);
  ~bench_controllers() override;

  [[nodiscard]] controllers_options const& options() const { return options_; }
  [[nodiscard]] std::byte* data() const { return data_.data(); }
  /// The address of data() for each controller.
  [[nodiscard]] std::uint64_t bus() const { return reinterpret_cast<std::uint64_t>(data_.data()); }
  [[nodiscard]] std::uint64_t commands() const override;
  /// Completions that they have posted.
  [[nodiscard]] std::uint64_t completions() const;

 private:
  void add_controller();

  controllers_options const options_;
  pinned_buffer<std::byte> data_;
  std::vector<std::unique_ptr<nvme_host::software_link>> links_;
  std::vector<std::unique_ptr<nvme_host::control_plane>> planes_;
};

}  // namespace gpufs::apps
