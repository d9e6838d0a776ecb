// One filesystem of a round, with its descriptors and its kernels' memory.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/filesystem.hpp>

#include <apps/gpufs-stress/plan.hpp>
#include <apps/gpufs-stress/worker.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gpufs::stress {

/// The files of a round in `folder`.
[[nodiscard]] std::string cell_file(std::string const& folder);
[[nodiscard]] std::string log_file(std::string const& folder, unsigned filesystem);

/// Made on the device that is current. One thread runs the kernels; any thread calls what is
/// marked "watches", and end().
class site {
 public:
  /// Throws what filesystem throws, device_error, and std::runtime_error if a file does not open.
  site(round_plan const& plan, std::string const& folder, unsigned number);

  /// All kernels, one after the other, until end(). Throws device_error.
  void run_kernels();
  /// Has each worker end after its operation.
  void end();

  /// Writes a cell of the host's own. Returns fs.write's result.
  [[nodiscard]] std::int64_t write_host_cell(std::uint64_t cell, std::uint32_t version);

  /// Watches: what all workers have done so far.
  [[nodiscard]] worker_progress progress() const;
  /// Watches: the version of a cell that gfsync has returned for. At least that which goes with the
  /// number of syncs that progress() gave before.
  [[nodiscard]] std::uint32_t synced(std::uint64_t cell) const;

  /// Watches: the first thing that a kernel found wrong, in words, or an empty text.
  [[nodiscard]] std::string problem() const;

  /// After the kernels. An empty text, or the problem.
  [[nodiscard]] std::string close();
  [[nodiscard]] std::vector<cell_versions> versions() const;
  [[nodiscard]] std::vector<append_state> appends() const;

 private:
  [[nodiscard]] int opened(std::string const& path, int flags);
  [[nodiscard]] stress_job job(unsigned launch) const;
  [[nodiscard]] std::string describe(wrong_operation const& f) const;

  round_plan const& plan_;
  unsigned number_;
  std::string path_;
  filesystem fs_;
  int fd_ = -1;
  int log_fd_ = -1;
  std::uint64_t stride_ = 0;
  buffer<cell_versions> versions_;
  buffer<append_state> appends_;
  buffer<worker_state> states_;
  buffer<std::byte> memory_;
  pinned_buffer<char> name_;
  pinned_buffer<std::uint32_t> synced_;
  pinned_buffer<worker_progress> progress_;
  pinned_buffer<std::uint32_t> end_;
  pinned_buffer<finding> finding_;
};

}  // namespace gpufs::stress
