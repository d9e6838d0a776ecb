// A TOML file of settings as texts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gpufs::owner {

/// One key of a file. `origin` says where it stands: "FILE:LINE: KEY".
struct file_setting {
  std::string key;
  std::optional<std::string> value;  ///< nothing: neither an integer nor a string
  std::string other_value;           ///< then: true or false, or empty for what has no short text
  bool has_lost_letters = false;     ///< the value had letters beyond ASCII
  std::string origin;
};

/// The keys of a file. Throws config_error with file and line: it cannot be read, a syntax error.
[[nodiscard]] std::vector<file_setting> read_settings_file(std::filesystem::path const& file);

/// The file that GPUFS_CONFIG names, or gpufs.toml in the working directory, or an empty path.
/// Throws config_error: what is named is no file.
[[nodiscard]] std::filesystem::path usual_settings_file();

}  // namespace gpufs::owner
