// The file of mapping_config::mapping_profile.
#pragma once

#include <gpufs/mapping/profile_keeper.hpp>

#include <string>

namespace gpufs::owner {

/// Reads it. `is_written`: makes it, if it is missing; else it may be missing. An empty path: there
/// is no file. Throws config_error: it cannot be read or written, or has a wrong line.
[[nodiscard]] shared::profile_keeper open_profile(std::string const& path, bool is_written);

}  // namespace gpufs::owner
