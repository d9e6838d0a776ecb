// `gpufs info`: what this machine offers and what gpufs makes of it.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/mapping_settings.hpp>

#include <functional>
#include <string>

namespace gpufs::apps {

struct info_options {
  bool json = false;    ///< one JSON object, with all settings
  bool expert = false;  ///< with the settings whose `is_expert` is true
};

/// The settings of a table, and where each comes from.
template <class Config>
struct settings_in_force {
  Config values;
  std::function<std::string(basic_setting<Config> const&)> origin;
};

/// Prints device, host, I/O backends, I/O paths, limits and settings, and why something does not
/// work. Does not throw if the machine lacks something.
void print_info(settings_in_force<config> const& settings,
                settings_in_force<mapping_config> const& shared, info_options const& o);

}  // namespace gpufs::apps
