// What survives a loss of power: bytes of files, and names in folders.
#pragma once

#include <string>
#include <system_error>

namespace gpufs::apps {

/// Makes the bytes of an open file durable, or the names in an open folder, as fsync(2).
/// Storage that cannot be made durable counts as success. Returns the error, if any.
[[nodiscard]] std::error_code make_durable(int fd);

/// The same for a folder by its path. Makes all files of the system durable instead if the folder
/// may not be read.
[[nodiscard]] std::error_code make_folder_durable(std::string const& path);

/// The folder that holds a file: "." for a mere name.
[[nodiscard]] std::string folder_of(std::string const& path);

/// Makes a folder, and those above it that are missing. Their names are durable. Returns the error,
/// if any; there is none if the folder is there already.
[[nodiscard]] std::error_code make_folders(std::string const& path);

}  // namespace gpufs::apps
