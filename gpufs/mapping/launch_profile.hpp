// What launches that have a name touch of the objects that they declare. No device, no system
// calls.
#pragma once

#include <gpufs/device/shared_range.hpp>
#include <gpufs/mapping/block_runs.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace gpufs::shared {

/// Touches are known by so many bytes of an object.
inline constexpr std::uint64_t profile_unit = device_memory::shared_range::granularity;

/// An object of a call.
struct profiled_object {
  std::string launch;    ///< its name
  std::uint64_t number;  ///< of the object: 0 the first that the call declares
  std::uint64_t bytes;   ///< of the object

  auto operator<=>(profiled_object const&) const = default;
};

/// Whether a launch can have this name: 1 to 200 bytes, of which none is a control character.
[[nodiscard]] bool is_launch_name(std::string_view name);

class launch_profile {
 public:
  /// The units that were touched, or null: none is known.
  [[nodiscard]] block_runs const* find(profiled_object const& of) const;
  /// Returns whether that was not known.
  bool add(profiled_object const& of, block_run units);
  /// The same for all that another one has.
  bool add(launch_profile const& other);

  /// A line for each object: its number, its bytes, runs of units, the launch.
  [[nodiscard]] std::string text() const;
  /// Adds what such a text has. Lines that begin with # say nothing. Returns the number of the
  /// first line that is wrong, from 1 on, or 0.
  [[nodiscard]] std::size_t read(std::string_view text);

 private:
  std::map<profiled_object, block_runs> all_;
};

}  // namespace gpufs::shared
