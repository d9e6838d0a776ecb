// The text of a file.
#pragma once

#include <filesystem>
#include <string>

namespace gpufs::owner {

/// Reads all of it. Throws std::system_error: it cannot be opened or read.
[[nodiscard]] std::string file_text(std::filesystem::path const& file);

}  // namespace gpufs::owner
