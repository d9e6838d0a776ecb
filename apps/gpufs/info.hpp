// `gpufs info`: what this machine offers and what gpufs makes of it.
#pragma once

#include <gpufs/config.hpp>

#include <functional>
#include <string>

namespace gpufs::apps {

struct info_options {
  bool json = false;    ///< one JSON object, with all settings
  bool expert = false;  ///< with the settings whose `is_expert` is true
};

/// Prints device, host, I/O backends, I/O paths, limits and settings, and why something does not
/// work. `origin` returns where a setting comes from. Does not throw if the machine lacks
/// something.
void print_info(config const& settings, std::function<std::string(setting const&)> const& origin,
                info_options const& o);

}  // namespace gpufs::apps
