// The call that registers a file window: timed, recorded, refused by tests.
#include <host-daemon/base/profiler_range.hpp>
#include <host-daemon/device_work/window_registrar.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace gpufs::daemon {

window_mapper::outcome window_registrar::map_for_device(window_offer const& o, std::uint64_t bytes,
                                                        registered_window& out, std::string& why) {
  auto const begin = o.window * settings_.window_bytes;
  auto const fault = faults_ != nullptr ? faults_->before_map(begin, bytes) : fault_action::pass();
  if (fault.what == fault_action::kind::fail) {
    why = std::strerror(fault.error);
    return window_mapper::outcome::no_device;
  }
  using clock = std::chrono::steady_clock;
  auto const start = clock::now();
  profiler_range const range{[&] {
    return fmt::format("register {}: {} bytes at {}", o.file->traced_name(), bytes, begin);
  }};
  auto const outcome = mapper_->map(o.file->read_descriptor(), begin, bytes, out, why);
  auto const end = clock::now();
  std::chrono::nanoseconds const taken = end - start;
  if (auto* const requests = settings_.requests)
    requests->record({.kind = host_request::map,
                      .path = "registered",
                      .offset = begin,
                      .length = bytes,
                      .result = outcome == window_mapper::outcome::mapped ? std::int64_t(out.bytes)
                                                                          : -std::int64_t(EIO),
                      .begin = start,
                      .end = end},
                     *o.file);
  registering_ns_.fetch_add(std::uint64_t(taken.count()), std::memory_order_relaxed);
  return outcome;
}

}  // namespace gpufs::daemon
