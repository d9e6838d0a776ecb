// Events of the emulated device: points that a stream's thread reaches.
#include <gpufs/device.hpp>
#include <gpufs/device/emulated/stream_implementation.hpp>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace gpufs {

// A recorded point of an event. Recording again makes a new point.
struct event::implementation {
  struct point {
    std::mutex mutex;
    std::condition_variable reached;
    std::optional<std::chrono::steady_clock::time_point> at;
  };
  std::shared_ptr<point> last;
};

event::event() : implementation_(std::make_shared<implementation>()) {}
event::~event() = default;
event::event(event&&) noexcept = default;
event& event::operator=(event&&) noexcept = default;

void event::record(stream& on) {
  auto const point = std::make_shared<implementation::point>();
  on.access().enqueue({[point] {
                         std::lock_guard const lock(point->mutex);
                         point->at = std::chrono::steady_clock::now();
                         point->reached.notify_all();
                         return std::string();
                       },
                       false});
  implementation_->last = point;  // not before: if memory runs out, nothing will reach it
}

void event::synchronize() const {
  auto const point = implementation_->last;
  if (point == nullptr) return;
  std::unique_lock lock(point->mutex);
  point->reached.wait(lock, [&] { return point->at.has_value(); });
}

double event::seconds_between(event const& from, event const& to) {
  std::chrono::steady_clock::time_point at[2];
  event const* const both[2] = {&from, &to};
  for (int i = 0; i < 2; ++i) {
    auto const point = both[i]->implementation_->last;
    if (point == nullptr) throw device_error("event::seconds_between: an event was never recorded");
    std::lock_guard const lock(point->mutex);
    if (!point->at)
      throw device_error(
          "event::seconds_between: an event has not been reached; synchronize() with it first");
    at[i] = *point->at;
  }
  return std::chrono::duration<double>(at[1] - at[0]).count();
}

}  // namespace gpufs
