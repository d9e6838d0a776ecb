// Every setting of gpufs::mapping_config as a command-line option of a CLI11 program, by the
// library gpufs::cli. Any host thread calls.
#pragma once

#include <gpufs/mapping_options.hpp>

#include <memory>

namespace CLI {
class App;
}

namespace gpufs {

/// The settings of a program's shared memory. A program may have cli_settings as well: `--config`
/// is of both.
class cli_mapping_settings {
 public:
  /// As cli_settings.
  explicit cli_mapping_settings(CLI::App& app);
  ~cli_mapping_settings();
  cli_mapping_settings(cli_mapping_settings const&) = delete;
  cli_mapping_settings& operator=(cli_mapping_settings const&) = delete;

  /// As cli_settings::load().
  [[nodiscard]] mapping_config load(mapping_config defaults = {}) const;

 private:
  struct given;
  std::unique_ptr<given> given_;
};

}  // namespace gpufs
