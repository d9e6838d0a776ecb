// What a folder has.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace gpufs::apps {

/// The names in a folder, in any order, up to the first error. The folder is closed afterwards: a
/// descriptor for each level of folders that stayed open could be more than a process may have.
[[nodiscard]] std::vector<std::filesystem::path> names_in(std::filesystem::path const& folder,
                                                          std::error_code& error);

}  // namespace gpufs::apps
