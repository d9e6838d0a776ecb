// The text forms of gpufs::config: the table of settings, files, environment, validation. Any host
// thread calls.
#pragma once

#include <gpufs/config.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs {

/// Thrown for a wrong setting. what() names the setting as it was given (`GPUFS_PAGE_SIZE`,
/// `--page-size`, `page_size` in FILE), its value, and the allowed values.
struct config_error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// One documented setting. `key` is its name in gpufs.toml. The environment variable is GPUFS_ and
/// the key in upper case; the flag is -- and the key with dashes for underscores.
template <class Config>
struct basic_setting {
  std::string_view key;  ///< page_size
  /// One line with unit and allowed values.
  std::string_view help;
  /// Sets the member from text. Throws config_error naming `origin`.
  std::function<void(Config&, std::string_view value, std::string_view origin)> assign;
  /// The member as text that `assign` takes back.
  std::function<std::string(Config const&)> print;
  /// A former name that is still taken; empty: none.
  std::string_view former_key = {};
  /// The default serves, except for tests and measurements.
  bool is_expert = false;

  [[nodiscard]] std::string environment_name() const;  ///< GPUFS_PAGE_SIZE
  [[nodiscard]] std::string flag() const;              ///< --page-size
};

/// One of a filesystem. Those of a shared_memory (gpufs/mapping_settings.hpp) have other keys.
using setting = basic_setting<config>;

/// All settings of a filesystem, in the order in which they are documented.
[[nodiscard]] std::vector<setting> const& settings();

/// The setting of that key, or of that former one.
/// Throws config_error naming `origin`, and the keys that there are.
[[nodiscard]] setting const& find_setting(std::string_view key, std::string_view origin);

/// Parses a size in bytes: digits, then an optional suffix K, M, G or T (powers of 1024, in either
/// case), then an optional "iB" or "B".
///
/// Throws config_error naming `origin` for other text, or for a size beyond 64 bits.
[[nodiscard]] std::uint64_t parse_size(std::string_view text, std::string_view origin);

/// Prints a size so that parse_size reads it back exactly: 65536 -> "64K", 3000 -> "3000".
[[nodiscard]] std::string format_size(std::uint64_t bytes);

/// Overrides `c` by the keys of a TOML file. Their values are integers or strings. One file has the
/// settings of shared memory as well: these are checked, and not taken.
///
/// Throws config_error with file, line and key for a syntax error, an unknown key, a wrong type or
/// a bad value.
void load_file(config& c, std::filesystem::path const& file);

/// Overrides `c` by environment variables GPUFS_<KEY>. Other variables that begin with GPUFS_ are
/// ignored. If one looks like a misspelt setting, a line on stderr says so, once.
/// Throws config_error naming the variable.
void load_environment(config& c);

/// The usual start: `defaults`, then gpufs.toml in the working directory if it exists, then the
/// environment. GPUFS_CONFIG names another file, which must exist.
///
/// Throws config_error as load_file() and load_environment() do.
[[nodiscard]] config load_config(config defaults = {});

/// Checks each setting and how they fit together.
/// Throws config_error naming the first wrong setting, its value and the remedy.
void validate(config const& c);

/// Which files may be registered for the GPU under these settings. This function alone decides it;
/// docs/design/registered.md has the measurements behind it.
[[nodiscard]] registered_files files_to_register(config const& c);

}  // namespace gpufs
