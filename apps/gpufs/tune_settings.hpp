// The tables of settings by the type of their values, for code that serves both.
#pragma once

#include <gpufs/config.hpp>
#include <gpufs/mapping_settings.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps {

inline std::vector<setting> const& table_of(config const&) { return settings(); }
inline std::vector<mapping_setting> const& table_of(mapping_config const&) {
  return mapping_settings();
}

/// What gpufs has without a command line. The argument says of which table.
inline config usual_settings(config const&) { return load_config(); }
inline mapping_config usual_settings(mapping_config const&) { return load_mapping_config(); }

/// The setting of that name. It must exist.
template <class Config = config>
[[nodiscard]] basic_setting<Config> const& setting_named(std::string_view key) {
  for (auto const& s : table_of(Config{})) {
    if (s.key == key) return s;
  }
  throw config_error(std::string(key) + ": no such setting");
}

/// Whether all settings have the same values.
template <class Config>
[[nodiscard]] bool are_same(Config const& a, Config const& b) {
  for (auto const& s : table_of(a)) {
    if (s.print(a) != s.print(b)) return false;
  }
  return true;
}

}  // namespace gpufs::apps
