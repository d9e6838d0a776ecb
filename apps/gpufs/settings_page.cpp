#include <gpufs/config.hpp>

#include <apps/gpufs/settings_page.hpp>

#include <fmt/format.h>

namespace gpufs::apps {

namespace {

std::string default_of(setting const& s) {
  auto const text = s.print(config{});
  return text.empty() ? "(empty)" : text;
}

void add_table(std::string& page, bool is_expert) {
  page += "| setting | default | environment | command line | |\n|---|---|---|---|---|\n";
  for (auto const& s : settings()) {
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
  for (auto const& s : settings())
    text += fmt::format("{:<18} {:<10} {}\n", s.key, default_of(s), s.help);
  return text;
}

std::string settings_page() {
  std::string page =
      "# Settings\n"
      "\n"
      "<!-- gpufs settings --markdown wrote this page, from the table in gpufs/owner/settings.cpp. "
      "-->\n"
      "\n"
      "A setting can be given in code (`gpufs::config`), in `gpufs.toml`, in the environment, or "
      "on the\ncommand line of every program of this repository. Later ones win. `GPUFS_CONFIG` "
      "names another file\nthan `gpufs.toml`. Sizes take the suffixes K, M, G and T (powers of "
      "1024). Times are in\nmilliseconds, or have the suffix ms or s. `gpufs info` lists the "
      "values that hold here, and where\neach comes from.\n"
      "\n";
  add_table(page, false);
  page += "\n## For tests and measurements\n\nThe defaults of these serve.\n\n";
  add_table(page, true);
  return page;
}

}  // namespace gpufs::apps
