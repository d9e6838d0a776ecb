// Measures one row of `gpufs bench nvme` once, with its counterpart.
#pragma once

#include <gpufs/config.hpp>

#include <apps/bench/nvme_commands.hpp>
#include <apps/bench/nvme_device_controller.hpp>
#include <apps/bench/nvme_reads.hpp>
#include <apps/bench/nvme_rows.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::apps {

/// What all rows have in common.
struct nvme_setup {
  block_reads_setup reads;
  bool emulated = false;
  std::uint32_t controller_threads = 1;
  std::uint32_t pairs = 1;
  std::uint32_t depth = 1024;
};

/// A part of a row that has a figure of its own.
struct nvme_point {
  std::string name;  ///< "8 pairs"
  double value = 0;
};

/// A round of a row.
struct nvme_outcome {
  double rate = 0;                    ///< in the unit of the row
  std::optional<double> counterpart;  ///< the same
  std::vector<nvme_point> points;
  std::uint64_t commands = 0;        ///< that kernels sent
  std::uint64_t doorbells = 0;       ///< for them, of submission queues; 0: not counted
  std::uint64_t head_doorbells = 0;  ///< of completion queues
  std::uint64_t missed_pages = 0;    ///< that kernels sent commands for; 0: nothing was cached
};

class nvme_runs {
 public:
  explicit nvme_runs(nvme_setup const& setup);

  /// Throws usage_error, config_error, device_error, std::system_error, or std::runtime_error if a
  /// command or a read fails or is not answered in time, or if bytes or counts are wrong.
  /// `check`: compares the bytes of files, too, untimed. Those of `drives` are always checked.
  [[nodiscard]] nvme_outcome measure(nvme_row const& row, bool check);

 private:
  [[nodiscard]] nvme_outcome measure_commands() const;
  [[nodiscard]] nvme_outcome measure_protocol() const;
  [[nodiscard]] nvme_outcome measure_doorbells() const;
  [[nodiscard]] nvme_outcome measure_pairs() const;
  [[nodiscard]] nvme_outcome measure_gpuctl() const;
  [[nodiscard]] nvme_outcome measure_gpuorder() const;
  [[nodiscard]] nvme_outcome measure_drives();
  [[nodiscard]] nvme_outcome measure_rand_4k(bool check);
  [[nodiscard]] nvme_outcome measure_rand_512(bool check);
  [[nodiscard]] nvme_outcome measure_file_4k(bool check);
  [[nodiscard]] nvme_outcome measure_cold_4k(bool check);
  [[nodiscard]] block_reads const& reads();

  /// Millions of round trips a second: the best of several numbers of blocks.
  [[nodiscard]] double ring_rate() const;
  [[nodiscard]] command_shape shape() const;
  /// As many callers as the published protocol was tried with.
  [[nodiscard]] command_shape few() const;
  [[nodiscard]] controllers_options controllers(std::uint32_t pairs) const;
  [[nodiscard]] device_controller_options device_controllers(std::uint32_t pairs) const;
  [[nodiscard]] command_run run_commands(std::uint32_t pairs) const;
  [[nodiscard]] command_run run_drives(std::uint32_t drives) const;

  nvme_setup setup_;
  std::shared_ptr<nvme_controller::memory_namespace> drive_blocks_;
  std::unique_ptr<block_reads> reads_;
};

}  // namespace gpufs::apps
