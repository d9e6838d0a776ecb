#include <apps/common/baselines.hpp>
#include <apps/common/device_limits.hpp>
#include <apps/common/storage_limits.hpp>
#include <apps/common/yardsticks.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace gpufs::apps {

namespace {

constexpr std::uint64_t most_bytes = 4ull << 30;

std::vector<file_part> first_bytes(std::vector<host_file> const& files, std::uint64_t bytes) {
  std::vector<file_part> parts;
  for (auto const& f : files) {
    std::uint64_t const part = std::min(f.size(), bytes);
    if (part != 0) parts.push_back({&f, part});
    bytes -= part;
  }
  return parts;
}

struct entry {
  char const* key;    // in JSON; "_GBps" is added
  char const* ratio;  // in JSON
  char const* text;
  std::optional<double> yardsticks::*value;
};

constexpr std::array entries{
    entry{"pull_limit", "of_pull_limit", "GPU pulls pinned memory", &yardsticks::pull_limit},
    entry{"pull_limit_1block", "of_pull_limit_1block", "the same, one block",
          &yardsticks::pull_limit_one_block},
    entry{"dma_limit", "of_dma_limit", "one large DMA", &yardsticks::dma_limit},
    entry{"cpuio", "times_cpuio", "hand-written, 1 thread, copy", &yardsticks::cpuio},
    entry{"pipelined", "times_pipelined", "hand-written, pipelined", &yardsticks::pipelined},
    entry{"baseline_gpufs", "times_baseline_gpufs", "our model of GPUfs",
          &yardsticks::baseline_gpufs},
    entry{"random_pull", "of_random_pull", "GPU pulls the same ranges", &yardsticks::random_pull},
    entry{"copy_kernel", "of_copy_kernel", "plain copy kernel", &yardsticks::copy_kernel},
    entry{"storage_sequential", "of_storage_sequential", "storage, O_DIRECT",
          &yardsticks::storage_sequential},
};

}  // namespace

yardsticks measure_yardsticks(std::vector<host_file> const& files, std::uint64_t bytes,
                              yardstick_options const& options) {
  yardsticks y;
  options.say("measuring the limits of the device");
  device_limits const d = measure_device_limits();
  y.pull_limit = d.pull_GBps;
  y.pull_limit_one_block = d.pull_one_block_GBps;
  y.dma_limit = d.dma_GBps;

  auto const parts = first_bytes(files, std::min(bytes, most_bytes));
  if (parts.empty()) {
    y.notes.emplace_back("no hand-written baselines: there are no bytes to read");
    return y;
  }
  if (bytes > most_bytes)
    y.notes.emplace_back("hand-written baselines: measured on the first 4 GiB");
  options.say("measuring hand-written reads");
  options.prepare();
  y.cpuio = measure_cpuio_GBps(parts);
  if (options.thorough) {
    y.pipelined = measure_best_pipelined_GBps(parts, options.prepare);
  } else {
    options.prepare();
    y.pipelined = measure_pipelined_GBps(parts, 8, 4 << 20);
  }
  if (options.cold) {
    options.say("measuring the storage");
    options.prepare();
    storage_limits const s = measure_storage_limits(*parts.front().file, most_bytes, 1);
    y.storage_sequential = s.sequential_GBps;
    y.storage_random_iops = s.random_iops;
    if (!s.why_not.empty()) y.notes.push_back("storage not measured: " + s.why_not);
  }
  return y;
}

void add_members(json_line& to, yardsticks const& y, double GBps) {
  for (auto const& e : entries) {
    std::optional<double> const& limit = y.*e.value;
    if (!limit) continue;
    to.number(fmt::format("{}_GBps", e.key), limit);
    if (GBps > 0) to.number(e.ratio, GBps / *limit);
  }
  if (y.storage_random_iops) to.number("storage_random_4K_iops", y.storage_random_iops);
}

std::string to_text(yardsticks const& y, double GBps) {
  std::string out;
  bool const is_emulated = current_device().kind == "emulated";
  for (auto const& e : entries) {
    std::optional<double> const& limit = y.*e.value;
    if (!limit) continue;
    out += fmt::format("  {:<30} {:>10.3f} GB/s", e.text, *limit);
    if (GBps > 0 && !is_emulated) {
      bool const times = std::string_view(e.ratio).starts_with("times_");
      out +=
          fmt::format("   {:>7.3f} {}", GBps / *limit, times ? "times as fast" : "of it reached");
    }
    out += "\n";
  }
  if (y.storage_random_iops)
    out += fmt::format("  {:<30} {:>10.0f} /s\n", "storage, O_DIRECT random 4K",
                       *y.storage_random_iops);
  if (is_emulated)
    out += "  note: emulated device: correctness only, its rates say nothing of a GPU\n";
  for (auto const& note : y.notes) out += fmt::format("  note: {}\n", note);
  return out;
}

}  // namespace gpufs::apps
