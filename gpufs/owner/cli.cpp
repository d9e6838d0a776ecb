// Settings as CLI11 options. Their text is kept while the command line is parsed. It is assigned
// after file and environment.
#include <gpufs/cli.hpp>
#include <gpufs/mapping_cli.hpp>
#include <gpufs/mapping_settings.hpp>
#include <gpufs/owner/setting_kinds.hpp>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <vector>

namespace gpufs {

namespace {

/// What the command line says about the settings of one table.
template <class Config>
struct texts {
  CLI::Option const* file = nullptr;
  std::map<basic_setting<Config> const*, std::string> values;

  void add_to(CLI::App& app, std::vector<basic_setting<Config>> const& all, char const* group);
  Config over(Config c) const;
};

template <class Config>
void texts<Config>::add_to(CLI::App& app, std::vector<basic_setting<Config>> const& all,
                           char const* group) {
  constexpr char const* what = "TOML file with settings, in place of gpufs.toml";
  file = app.get_option_no_throw("--config");
  if (file == nullptr || file->get_description() != what) {  // one of the program's is an error
    file = app.add_option("--config", what)->type_name("FILE")->group(group);
  }
  for (auto const& s : all) {
    std::string const flag = s.flag();
    std::string names = flag;
    constexpr std::string_view suffix = "-size";
    if (flag.ends_with(suffix)) names += "," + flag.substr(0, flag.size() - suffix.size());
    if (!s.former_key.empty()) {
      std::string const former = owner::flag_name(s.former_key);
      app.add_option_function<std::string>(former,
                                           [this, &s, former](std::string const& value) {
                                             owner::note_former_name(former, s.flag());
                                             values[&s] = value;
                                           })
          ->group("");  // not shown by --help
    }
    app.add_option_function<std::string>(
           names, [this, &s](std::string const& value) { values[&s] = value; }, std::string(s.help))
        ->type_name(" ")
        ->default_str(s.print(Config{}))
        ->group(group);
  }
}

config load_usual(config c) { return load_config(std::move(c)); }
mapping_config load_usual(mapping_config c) { return load_mapping_config(std::move(c)); }

template <class Config>
Config texts<Config>::over(Config c) const {
  if (file->count() == 0) {
    c = load_usual(std::move(c));
  } else {
    auto const named = file->as<std::string>();
    std::error_code ignored;  // of a loop of links, or of a long name
    if (!std::filesystem::is_regular_file(named, ignored))
      throw config_error("--config=" + named + ": must be the path of a TOML file");
    load_file(c, named);
    load_environment(c);
  }
  for (auto const& [s, value] : values) s->assign(c, value, s->flag());
  return c;
}

}  // namespace

struct cli_settings::given : texts<config> {};
struct cli_mapping_settings::given : texts<mapping_config> {};

cli_settings::cli_settings(CLI::App& app) : given_(std::make_unique<given>()) {
  given_->add_to(app, settings(), "Settings");
}
cli_settings::~cli_settings() = default;
config cli_settings::load(config defaults) const { return given_->over(std::move(defaults)); }

cli_mapping_settings::cli_mapping_settings(CLI::App& app) : given_(std::make_unique<given>()) {
  given_->add_to(app, mapping_settings(), "Settings of shared memory");
}
cli_mapping_settings::~cli_mapping_settings() = default;
mapping_config cli_mapping_settings::load(mapping_config defaults) const {
  return given_->over(std::move(defaults));
}

}  // namespace gpufs
