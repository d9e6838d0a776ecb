// Which calls on streams have ended, and streams that run behind them. One implementation per
// device.
#pragma once

#include <gpufs/device.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace gpufs::device_memory {

/// Calls by their numbers. A call ends with the work before it, also if that fails.
///
/// Emulated: the stream tells at once, before it says that its work is done. GPU: a mark lies in
/// the stream, and those who wait ask whether it has been reached. (A callback of the stream costs
/// each launch more than ten times as much.) GPUFS_SEPARATE_SIDES: the emulated device is asked,
/// too.
class call_ends {
 public:
#if defined(GPUFS_EMULATED) && !defined(GPUFS_SEPARATE_SIDES)
  static constexpr bool must_ask = false;
#else
  static constexpr bool must_ask = true;
#endif

  /// Emulated: a stream runs `ended` with the number of each call that has ended. It may not use
  /// the device, nor wait for anybody who does.
  explicit call_ends(std::function<void(std::int64_t)> ended);
  ~call_ends();
  call_ends(call_ends const&) = delete;
  call_ends& operator=(call_ends const&) = delete;

  // One thread at a time calls these.

  /// The call ends with the work that `on` has so far. Throws device_error.
  void add(stream& on, std::int64_t call);

  /// GPU: tells `ended` of calls that have ended since the last time. Emulated: of none. Needs no
  /// memory. `ended` throws nothing, and does not come back here.
  void ask(std::function<void(std::int64_t)> const& ended) noexcept;

  /// Calls on streams other than `on` that are not known to have ended. In ascending order.
  [[nodiscard]] std::vector<std::int64_t> under_way_beside(stream const& on) const;

  /// What `on` gets from now on runs behind these calls, which the device sees to. `calls` are some
  /// of those that under_way_beside() has just said. Throws device_error.
  void order_behind(stream& on, std::vector<std::int64_t> const& calls);

 private:
  struct implementation;
  std::unique_ptr<implementation> implementation_;
};

}  // namespace gpufs::device_memory
