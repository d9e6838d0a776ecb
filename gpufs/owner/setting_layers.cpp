// The layers that fill a config or a mapping_config: a TOML file, the environment.
#include <gpufs/mapping_settings.hpp>
#include <gpufs/owner/setting_kinds.hpp>
#include <gpufs/owner/settings_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace gpufs {

namespace {

using owner::file_setting;

template <class Config>
auto const& table_of() {
  if constexpr (std::is_same_v<Config, config>)
    return settings();
  else
    return mapping_settings();
}

template <class Config>
basic_setting<Config> const* find(std::string_view key, std::string_view origin) {
  auto const& all = table_of<Config>();
  auto found = std::ranges::find(all, key, &basic_setting<Config>::key);
  if (found != all.end()) return &*found;
  found = std::ranges::find(all, key, &basic_setting<Config>::former_key);
  if (found == all.end() || key.empty()) return nullptr;
  owner::note_former_name(origin, found->key);
  return &*found;
}

/// Returns whether the key is a former name of one of these settings.
template <class Config>
bool has_former(file_setting const& s) {
  auto const& all = table_of<Config>();
  return !s.key.empty() &&
         std::ranges::find(all, s.key, &basic_setting<Config>::former_key) != all.end();
}

/// Returns whether the key is one of these settings.
template <class Config>
bool take(Config& c, file_setting const& s) {
  auto const* const found = find<Config>(s.key, s.origin);
  if (found == nullptr) return false;
  if (!s.value && !s.other_value.empty()) {  // most settings say by themselves what would be right
    Config unused = c;
    found->assign(unused, s.other_value, s.origin);
  }
  if (!s.value)
    throw config_error(fmt::format("{}: must be an integer or a string such as \"64K\"", s.origin));
  if (s.has_lost_letters)
    throw config_error(fmt::format("{}: must be ASCII in a file of settings", s.origin));
  found->assign(c, *s.value, s.origin);
  return true;
}

template <class Config, class Other>
void take_file(Config& c, std::filesystem::path const& file) {
  Other others;  // their values are checked
  auto all = owner::read_settings_file(file);
  // Today's name wins where both are there: it is taken later.
  std::stable_partition(all.begin(), all.end(), [](file_setting const& s) {
    return has_former<Config>(s) || has_former<Other>(s);
  });
  for (auto const& s : all) {
    if (take(c, s) || take(others, s)) continue;
    std::string known;
    for (auto const& one : settings()) known += fmt::format("{}, ", one.key);
    for (auto const& one : mapping_settings()) known += fmt::format("{}, ", one.key);
    known.resize(known.size() - 2);
    throw config_error(fmt::format("{}: no such setting; there are {}", s.origin, known));
  }
}

template <class Config>
void take_environment(Config& c) {
  for (char const* const* e = environ; e != nullptr && *e != nullptr; ++e) {
    std::string_view const variable(*e, std::strcspn(*e, "="));
    if (variable.starts_with("GPUFS_")) owner::note_similar_name(variable);
  }
  for (auto const& s : table_of<Config>()) {
    std::string const name = s.environment_name();
    char const* const value = std::getenv(name.c_str());
    if (value != nullptr) s.assign(c, value, name);
    if (s.former_key.empty()) continue;
    // Today's name wins where both are set.
    std::string const former = owner::environment_name(s.former_key);
    char const* const old_value = std::getenv(former.c_str());
    if (old_value == nullptr) continue;
    owner::note_former_name(former, name);
    if (value == nullptr) s.assign(c, old_value, former);
  }
}

template <class Config>
Config take_all(Config c) {
  auto const file = owner::usual_settings_file();
  if (!file.empty()) load_file(c, file);
  load_environment(c);
  return c;
}

}  // namespace

void load_file(config& c, std::filesystem::path const& file) {
  take_file<config, mapping_config>(c, file);
}
void load_file(mapping_config& c, std::filesystem::path const& file) {
  take_file<mapping_config, config>(c, file);
}

void load_environment(config& c) { take_environment(c); }
void load_environment(mapping_config& c) { take_environment(c); }

config load_config(config defaults) { return take_all(std::move(defaults)); }
mapping_config load_mapping_config(mapping_config defaults) {
  return take_all(std::move(defaults));
}

}  // namespace gpufs
