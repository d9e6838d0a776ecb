// What the throughput of a program is compared with, measured in the same run: the limits of the
// device, those of the storage, and hand-written code for the same bytes.
#pragma once

#include <apps/common/host_file.hpp>
#include <apps/common/json_line.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::apps {

/// In GB/s (1e9 bytes per second) but where the name says otherwise; nothing where it was not
/// measured.
struct yardsticks {
  std::optional<double> pull_limit;            ///< a kernel reads pinned memory
  std::optional<double> pull_limit_one_block;  ///< the same with one block
  std::optional<double> dma_limit;             ///< one large copy from pinned memory
  std::optional<double> cpuio;      ///< hand-written: one thread reads everything, then one copy
  std::optional<double> pipelined;  ///< hand-written: threads with double-buffered chunks
  std::optional<double>
      baseline_gpufs;  ///< our model of GPUfs (apps/baseline); measured by the caller
  /// a kernel reads random ranges of pinned memory; measured by the caller
  std::optional<double> random_pull;
  std::optional<double> copy_kernel;          ///< a plain copy kernel in device memory
  std::optional<double> storage_sequential;   ///< io_uring with O_DIRECT
  std::optional<double> storage_random_iops;  ///< the same, random 4 KiB reads per second
  std::vector<std::string> notes;             ///< what was not measured, or differently, and why
};

struct yardstick_options {
  /// the files are not in the OS page cache: `prepare` is called before each reading; measures the
  /// storage
  bool cold = false;
  bool thorough = false;  ///< `pipelined` is the best of several, not just 8 threads with 4 MiB
  std::function<void()> prepare = [] {};
  std::function<void(char const*)> say = [](char const*) {};  ///< told what comes next
};

/// Measures all but copy_kernel, random_pull and baseline_gpufs. `files` are read up to 4 GiB in
/// all. Throws device_error or std::system_error as the parts do.
[[nodiscard]] yardsticks measure_yardsticks(std::vector<host_file> const& files,
                                            std::uint64_t bytes, yardstick_options const& options);

/// Adds the members pull_limit_GBps, dma_limit_GBps, ...: and how `GBps` compares with each
/// (of_pull_limit, ...).
void add_members(json_line& to, yardsticks const& y, double GBps);

/// The same for people: one line for each.
[[nodiscard]] std::string to_text(yardsticks const& y, double GBps);

}  // namespace gpufs::apps
