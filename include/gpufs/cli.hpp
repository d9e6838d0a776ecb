// Every setting of gpufs::config as a command-line option of a CLI11 program. This is the library
// gpufs::cli; programs without it need no CLI11. Any host thread calls.
#pragma once

#include <gpufs/config.hpp>

#include <memory>

namespace CLI {
class App;
}

namespace gpufs {

/// The settings of a program. It adds `--config FILE` and one option per setting to `app`.
/// load() then puts the layers together.
///
/// An option whose name ends in -size also has the name without it: --cache for --cache-size.
class cli_settings {
 public:
  /// Adds the options. Call before app.parse().
  explicit cli_settings(CLI::App& app);
  ~cli_settings();
  cli_settings(cli_settings const&) = delete;
  cli_settings& operator=(cli_settings const&) = delete;

  /// The settings: `defaults`, then the file, then the environment, then the command line. The file
  /// is that of --config, else that of load_config(). Call after app.parse().
  ///
  /// Throws config_error naming the wrong flag, variable or line. It does not validate().
  [[nodiscard]] config load(config defaults = {}) const;

 private:
  struct given;
  std::unique_ptr<given> given_;
};

}  // namespace gpufs
