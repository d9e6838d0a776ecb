#include <gpufs/config.hpp>
#include <gpufs/mapping_settings.hpp>

#include <apps/gpufs/settings_page.hpp>

#include <fmt/format.h>

namespace gpufs::apps {

namespace {

template <class Config>
std::string default_of(basic_setting<Config> const& s) {
  auto const text = s.print(Config{});
  return text.empty() ? "(empty)" : text;
}

template <class Config>
void add_table(std::string& page, std::vector<basic_setting<Config>> const& all, bool is_expert) {
  page += "| setting | default | environment | command line | |\n|---|---|---|---|---|\n";
  for (auto const& s : all) {
    if (s.is_expert != is_expert) continue;
    auto const former =
        s.former_key.empty() ? "" : fmt::format(". Its former name is `{}`", s.former_key);
    page += fmt::format("| `{}` | `{}` | `{}` | `{}` | {}{} |\n", s.key, default_of(s),
                        s.environment_name(), s.flag(), s.help, former);
  }
}

}  // namespace

std::string settings_text() {
  std::string text;
  auto const add = [&](auto const& all) {
    for (auto const& s : all)
      text += fmt::format("{:<18} {:<10} {}\n", s.key, default_of(s), s.help);
  };
  add(settings());
  add(mapping_settings());
  return text;
}

std::string settings_page() {
  std::string page =
      "# Settings\n"
      "\n"
      "<!-- gpufs settings --markdown wrote this page, from the tables in gpufs/owner: "
      "settings.cpp "
      "and\nmapping_settings.cpp. -->\n"
      "\n"
      "A setting can be given in code (`gpufs::config`), in `gpufs.toml`, in the environment, or "
      "on the\ncommand line of the programs whose `--help` lists it. Later ones win. "
      "`GPUFS_CONFIG` names another\nfile than `gpufs.toml`. Sizes take the suffixes K, M, G and T "
      "(powers of 1024). Times are in\nmilliseconds, or have the suffix ms or s. `gpufs info` "
      "lists the values that hold here, and where\neach comes from.\n"
      "\n";
  add_table(page, settings(), false);
  page +=
      "\n## Shared memory\n\nThese are the settings of a `gpufs::shared_memory` "
      "(`gpufs::mapping_config`). They stand in the same\nfile. `gpufs info` and `gpufs tune "
      "--mapping` take them on the command line, and programs with\n`cli_mapping_settings`.\n\n";
  add_table(page, mapping_settings(), false);
  page += "\n## For tests and measurements\n\nThe defaults of these serve.\n\n";
  add_table(page, settings(), true);
  page += "\nOf shared memory:\n\n";
  add_table(page, mapping_settings(), true);
  return page;
}

}  // namespace gpufs::apps
