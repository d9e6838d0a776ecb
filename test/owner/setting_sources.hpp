// Where settings come from, for the length of a test: variables and files. And what errors say.
#pragma once

#include <gpufs/settings.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include <unistd.h>

namespace gpufs::test {

/// What the config_error that `act` throws says; empty if it throws none.
inline std::string error_of(std::function<void()> const& act) {
  try {
    act();
  } catch (config_error const& error) {
    return error.what();
  }
  return {};
}

/// An environment variable for the length of a test.
struct variable {
  variable(std::string name, std::string const& value) : name_(std::move(name)) {
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ~variable() { unsetenv(name_.c_str()); }
  variable(variable const&) = delete;
  std::string name_;
};

/// A TOML file with the given text, in an empty working directory, for the length of a test.
struct toml_file {
  explicit toml_file(std::string const& text) {
    std::filesystem::create_directory(folder_);
    std::filesystem::current_path(folder_);
    std::ofstream("gpufs.toml") << text;
  }
  ~toml_file() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }
  toml_file(toml_file const&) = delete;
  std::filesystem::path before_ = std::filesystem::current_path();
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("gpufs_config_test_" + std::to_string(getpid()));
};

}  // namespace gpufs::test
