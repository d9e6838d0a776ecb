// Settings as CLI11 options. Their text is kept while the command line is parsed. It is assigned
// after file and environment.
#include <gpufs/cli.hpp>
#include <gpufs/owner/setting_kinds.hpp>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <map>
#include <string>

namespace gpufs {

struct cli_settings::given {
  std::string file;
  std::map<setting const*, std::string> values;
};

cli_settings::cli_settings(CLI::App& app) : given_(std::make_unique<given>()) {
  constexpr char const* group = "Settings";
  auto* const state = given_.get();
  app.add_option("--config", state->file, "TOML file with settings, in place of gpufs.toml")
      ->type_name("FILE")
      ->group(group);
  for (auto const& s : settings()) {
    std::string const flag = s.flag();
    std::string names = flag;
    constexpr std::string_view suffix = "-size";
    if (flag.ends_with(suffix)) names += "," + flag.substr(0, flag.size() - suffix.size());
    if (!s.former_key.empty()) {
      std::string const former = owner::flag_name(s.former_key);
      app.add_option_function<std::string>(former,
                                           [state, &s, former](std::string const& value) {
                                             owner::note_former_name(former, s.flag());
                                             state->values[&s] = value;
                                           })
          ->group("");  // not shown by --help
    }
    app.add_option_function<std::string>(
           names, [state, &s](std::string const& value) { state->values[&s] = value; },
           std::string(s.help))
        ->type_name(" ")
        ->default_str(s.print(config{}))
        ->group(group);
  }
}

cli_settings::~cli_settings() = default;

config cli_settings::load(config defaults) const {
  config c = defaults;
  if (given_->file.empty()) {
    c = load_config(defaults);
  } else {
    if (!std::filesystem::is_regular_file(given_->file)) {
      throw config_error("--config=" + given_->file + ": must be the path of a TOML file");
    }
    load_file(c, given_->file);
    load_environment(c);
  }
  for (auto const& [s, value] : given_->values) s->assign(c, value, s->flag());
  return c;
}

}  // namespace gpufs
