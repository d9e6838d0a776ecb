#include <nvme-controller/drive_model.hpp>

#include <algorithm>

namespace gpufs::nvme_controller {

std::chrono::nanoseconds drive_model::cost(bool writes, std::uint64_t bytes) const {
  constexpr double small = 512, large = 4096;
  double const of_small = 1e9 / (writes ? rates_.write_512 : rates_.read_512);
  double const of_large = 1e9 / (writes ? rates_.write_4k : rates_.read_4k);
  auto const size = static_cast<double>(bytes);
  double const part = std::clamp((size - small) / (large - small), 0.0, 1.0);
  double const ns =
      size > large ? of_large * size / large : of_small + (of_large - of_small) * part;
  return std::chrono::nanoseconds{static_cast<std::int64_t>(ns)};
}

drive_model::clock::time_point drive_model::due(bool writes, std::uint64_t bytes,
                                                clock::time_point now) {
  using std::chrono::duration_cast;
  auto const earliest = (now - duration_cast<clock::duration>(burst)).time_since_epoch().count();
  auto const takes = duration_cast<clock::duration>(cost(writes, bytes)).count();
  auto seen = busy_until_.load(std::memory_order_relaxed);
  clock::rep done = 0;
  do {
    done = std::max(seen, earliest) + takes;
  } while (!busy_until_.compare_exchange_weak(seen, done, std::memory_order_relaxed));
  clock::time_point const end{clock::duration{done}};
  return std::max(end, now) + duration_cast<clock::duration>(rates_.latency);
}

}  // namespace gpufs::nvme_controller
