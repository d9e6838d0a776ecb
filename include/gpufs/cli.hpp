// Every setting of gpufs::config as a command-line option of a CLI11 program (library gpufs::cli;
// users of gpufs itself need no CLI11).
#pragma once

#include <gpufs/config.hpp>

#include <memory>

namespace CLI {
class App;
}

namespace gpufs {

/// The settings of a program: adds `--config FILE` and one option per setting to `app`, and after
/// app.parse() puts the layers together. An option whose name ends in -size also answers to the
/// name without it (--cache for --cache-size).
class cli_settings {
 public:
  explicit cli_settings(CLI::App& app);
  ~cli_settings();
  cli_settings(cli_settings const&) = delete;
  cli_settings& operator=(cli_settings const&) = delete;

  /// `defaults`, then the file (--config, else what load_config() takes), then the environment,
  /// then the command line. Call after app.parse(). Throws config_error naming the flag, variable
  /// or line that is wrong; does not validate().
  [[nodiscard]] config load(config defaults = {}) const;

 private:
  struct given;
  std::unique_ptr<given> given_;
};

}  // namespace gpufs
