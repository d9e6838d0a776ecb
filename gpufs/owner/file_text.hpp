// The text of a file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace gpufs::owner {

/// Reads all of it. Throws std::system_error: it cannot be opened or read.
[[nodiscard]] std::string file_text(std::filesystem::path const& file);

/// The whole path of a setting's value: the program may change its folder. Throws config_error:
/// there is no working folder.
[[nodiscard]] std::string absolute_path(std::string_view setting, std::string const& path);

}  // namespace gpufs::owner
