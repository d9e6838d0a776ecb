// What the software controller does by itself: its threads answer commands that lie in the queues.
#include <gpufs/nvme/format.hpp>

#include <apps/bench/nvme_commands.hpp>
#include <apps/common/seconds_since.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace gpufs::apps {

namespace {

void ring(std::uint32_t* doorbell, std::uint32_t value) {
  // Pairs with the controller's acquire: the entries are there.
  std::atomic_ref<std::uint32_t>{*doorbell}.store(value, std::memory_order_release);
}

}  // namespace

double measure_controller_rate(bench_controllers const& on, std::uint32_t laps) {
  constexpr std::chrono::microseconds look_interval{20};
  std::uint32_t const depth = on.options().depth;
  for (auto const& place : on.places())
    for (std::uint32_t i = 0; i < depth; ++i) place.sq[i] = nvme::make_flush(0, 1);
  std::uint64_t sent = 0;
  std::uint64_t const timeout = on.options().timeout_ns;
  auto const start = std::chrono::steady_clock::now();
  for (std::uint32_t lap = 0; lap < laps; ++lap) {
    // A queue takes all entries but one. Their completions are taken back at once.
    std::uint32_t const done = lap * (depth - 1), tail = done + depth - 1;
    for (auto const& place : on.places()) {
      ring(place.cq_doorbell, done % (2 * depth));
      ring(place.sq_doorbell, tail % depth);
      sent += depth - 1;
    }
    while (on.completions() < sent) {
      if (seconds_since(start) * 1e9 > static_cast<double>(timeout))
        throw std::runtime_error("the controller did not answer in time");
      std::this_thread::sleep_for(look_interval);
    }
  }
  return static_cast<double>(sent) / seconds_since(start) / 1e6;
}

}  // namespace gpufs::apps
