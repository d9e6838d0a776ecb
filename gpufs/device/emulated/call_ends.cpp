// Ends of calls on the emulated device: the stream tells.
#include <gpufs/device/call_ends.hpp>
#include <gpufs/device/emulated/launches.hpp>

#include <utility>

namespace gpufs::device_memory {

struct call_ends::implementation {
  std::function<void(std::int64_t)> ended;
};

call_ends::call_ends(std::function<void(std::int64_t)> ended)
    : implementation_(std::make_unique<implementation>(std::move(ended))) {}
call_ends::~call_ends() = default;

void call_ends::add(stream& on, std::int64_t call) {
  // A copy: this object may go as soon as it has been told of the last call.
  emulated::when_done(on, [ended = implementation_->ended, call] { ended(call); });
}

std::vector<std::int64_t> call_ends::ask() { return {}; }

}  // namespace gpufs::device_memory
