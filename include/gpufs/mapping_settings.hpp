// The text forms of gpufs::mapping_config: as gpufs/settings.hpp has them for gpufs::config, in the
// same file and with the same layers. Any host thread calls.
#pragma once

#include <gpufs/mapping_options.hpp>
#include <gpufs/settings.hpp>

#include <filesystem>
#include <vector>

namespace gpufs {

/// One documented setting of a shared_memory.
using mapping_setting = basic_setting<mapping_config>;

/// All of them, in the order in which they are documented.
[[nodiscard]] std::vector<mapping_setting> const& mapping_settings();

/// Overrides `c` by the keys of a TOML file. Those of a filesystem are checked, and not taken.
/// Throws config_error as load_file() of a config.
void load_file(mapping_config& c, std::filesystem::path const& file);

/// Overrides `c` by environment variables GPUFS_<KEY>.
/// Throws config_error as load_environment() of a config.
void load_environment(mapping_config& c);

/// `defaults`, then gpufs.toml or the file that GPUFS_CONFIG names, then the environment.
/// Throws config_error as load_config().
[[nodiscard]] mapping_config load_mapping_config(mapping_config defaults = {});

}  // namespace gpufs
