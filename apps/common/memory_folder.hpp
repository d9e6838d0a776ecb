// Whether files of a folder lie in memory.
#pragma once

#include <string>

namespace gpufs::apps {

/// Whether the folder is there and on tmpfs or ramfs.
[[nodiscard]] bool is_in_memory(std::string const& folder);

/// Throws usage_error naming `option`, which gave the folder, unless is_in_memory().
void require_in_memory(std::string const& option, std::string const& folder);

}  // namespace gpufs::apps
