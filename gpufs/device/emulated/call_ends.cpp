// Ends of calls on the emulated device: the stream tells.
#include <gpufs/device/call_ends.hpp>
#include <gpufs/device/emulated/launches.hpp>

#include <algorithm>
#include <latch>
#include <memory>
#include <utility>

namespace gpufs::device_memory {

namespace {

/// A call, and what other streams wait for.
struct marked_call {
  std::int64_t number;
  stream::implementation const* on;
  std::shared_ptr<std::latch> end;

  [[nodiscard]] bool has_ended() const { return end->try_wait(); }
};

}  // namespace

struct call_ends::implementation {
  std::function<void(std::int64_t)> ended;
  /// In the order of their streams. A stream that is made anew may lie where an old one was: that
  /// one's calls had ended by then.
  std::vector<marked_call> calls;
};

call_ends::call_ends(std::function<void(std::int64_t)> ended)
    : implementation_(std::make_unique<implementation>(std::move(ended))) {}
call_ends::~call_ends() = default;

void call_ends::add(stream& on, std::int64_t call) {
  auto& calls = implementation_->calls;
  if (!must_ask) std::erase_if(calls, [](auto const& c) { return c.has_ended(); });
  auto const end = std::make_shared<std::latch>(1);
  calls.push_back({call, &on.access(), end});
  try {
    // A copy: this object may go as soon as it has been told of the last call.
    emulated::when_done(on, [ended = implementation_->ended, call, end] {
      if (!must_ask) ended(call);
      end->count_down();
    });
  } catch (...) {
    calls.pop_back();
    throw;
  }
}

void call_ends::ask(std::function<void(std::int64_t)> const& ended) noexcept {
  if (!must_ask) return;
  std::erase_if(implementation_->calls, [&](auto const& c) {
    if (!c.has_ended()) return false;
    ended(c.number);
    return true;
  });
}

std::vector<std::int64_t> call_ends::under_way_beside(stream const& on) const {
  std::vector<std::int64_t> numbers;
  for (auto const& c : implementation_->calls) {
    if (c.on != &on.access() && !c.has_ended()) numbers.push_back(c.number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

// Streams wait for calls that were launched before, so never for each other in a circle.
void call_ends::order_behind(stream& on, std::vector<std::int64_t> const& calls) {
  std::vector<std::shared_ptr<std::latch>> ends;
  for (auto const& c : implementation_->calls) {
    if (std::ranges::binary_search(calls, c.number)) ends.push_back(c.end);
  }
  if (ends.empty()) return;
  emulated::when_done(on, [ends = std::move(ends)] {
    for (auto const& end : ends) end->wait();
  });
}

}  // namespace gpufs::device_memory
