// A call's part of one address space, from its declaration to its end.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/mapping/address_space.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpufs::shared {

/// What a call uses of one address space.
class call {
 public:
  explicit call(std::shared_ptr<address_space> space, parts_of_call parts = std::nullopt)
      : space_(std::move(space)), parts_(std::move(parts)) {}

  [[nodiscard]] address_space const* space() const { return space_.get(); }
  /// Of a call that declares parts.
  void add(part const& p) { parts_->push_back(p); }

  /// Why it did not begin.
  [[nodiscard]] std::string refusal() const { return space_->why_refused(); }
  /// Returns 0, or why not, as address_space::begin().
  int begin(beginning const& how) {
    auto const result = space_->begin(parts_, how);
    number_ = std::max<std::int64_t>(result, 0);
    return result < 0 ? int(result) : 0;
  }
  /// Bytes of files are read here, so that signals come through meanwhile.
  int prepare() { return space_->prepare(parts_); }
  /// Of a launch that has a name, in turn as those of address_space.
  void expect(std::string const& name) noexcept { space_->expect_launch(parts_, name); }
  bool watch() noexcept { return number_ > 0 && space_->watch_launch(parts_); }
  void keep_touches(std::string const& name) noexcept {
    if (number_ > 0) space_->keep_touches(parts_, name);
  }
  void end_behind(stream& on) noexcept {
    if (number_ > 0) space_->end_behind(on, std::exchange(number_, 0));
  }
  /// Nothing was launched.
  void cancel() noexcept {
    if (number_ > 0) space_->cancel(std::exchange(number_, 0));
  }
  void end(stream& on, bool is_launched) noexcept {
    if (is_launched)
      end_behind(on);
    else
      cancel();
  }

 private:
  std::shared_ptr<address_space> space_;
  parts_of_call parts_;
  std::int64_t number_ = 0;
};

/// The text of a refusal.
inline std::string refusal_text(std::string const& why) {
  if (!why.empty()) return "shared memory: " + why;
  return "shared memory: the device failed, or the system has no more mappings (vm.max_map_count)";
}

}  // namespace gpufs::shared
