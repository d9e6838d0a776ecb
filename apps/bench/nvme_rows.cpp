#include <apps/bench/named_rows.hpp>
#include <apps/bench/nvme_rows.hpp>

namespace gpufs::apps {

std::vector<nvme_row> const& nvme_rows() {
  using enum nvme_measure;
  constexpr auto ratio = target_of::ratio, rate = target_of::rate;
  // Targets and stretch targets for 120 x 512 on an H100 or H200, eight controller threads, 32
  // queue pairs.
  static std::vector<nvme_row> const rows = {
      {commands, "commands", "commands without data", "empty round trips of the ring", "M/s", ratio,
       1.0, 2.0},
      {protocol, "protocol", "commands without data, fewer threads",
       "the same by the published protocol", "M/s", ratio, 8, 15},
      {rand_4k, "rand4K", "warps, random 4 KiB, memory namespace", "pull limit", "GB/s", ratio,
       0.55, 0.75},
      {rand_512, "rand512", "a[i], random 512 B, memory namespace", "pull of as many random 512 B",
       "M/s", rate, 25, 45},
      {file_4k, "file4K", "warps, random 4 KiB, namespace on a warm file",
       "the same file, io_path=pull", "GB/s", ratio, 0.90, 1.0},
      {cold_4k, "cold4K", "warps, random 4 KiB, namespace on a cold file, O_DIRECT",
       "storage limit, random 4 KiB", "GB/s", ratio, 0.90, 0.97},
      {doorbells, "doorbells", "commands per doorbell of either queue, 64 warps per pair", "", "",
       rate, 20, 0},
      {pairs, "pairs", "commands without data, 40 queue pairs", "the same, 128 queue pairs", "M/s",
       ratio, 0.95, 0},
      {gpuctl, "gpuctl", "commands without data, queues in GPU memory, a kernel answers",
       "the same by the published protocol", "M/s", ratio, 8, 20},
      {gpuorder, "gpuorder", "gpuctl, 128 queue pairs, entries loaded back",
       "the same, doorbells by release.sys", "M/s", ratio, 2, 4},
      {drives, "drives", "random 512 B, 4 modelled drives", "4 x the drive's specification", "M/s",
       ratio, 0.90, 0.95, true},
  };
  return rows;
}

std::vector<nvme_row> chosen_nvme_rows(std::vector<std::string> const& only) {
  return only.empty() ? nvme_rows() : named_rows(nvme_rows(), only);
}

}  // namespace gpufs::apps
