#include <gpufs/config.hpp>
#include <gpufs/owner/file_text.hpp>
#include <gpufs/owner/setting_kinds.hpp>
#include <gpufs/owner/settings_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

// Version 3.3 asserts what follows from the file alone ("[^"). Without its assertions it reports
// the same as a parse error.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

namespace gpufs::owner {

namespace {

std::optional<std::string> toml_text(toml::node const& node) {
  if (auto const* integer = node.as_integer()) return std::to_string(integer->get());
  if (auto const* text = node.as_string()) return text->get();
  return std::nullopt;
}

std::string text_of(std::filesystem::path const& file) try {
  return owner::file_text(file);
} catch (std::system_error const& e) {
  throw config_error(
      fmt::format("{}: cannot be read: {}", file.string(), std::strerror(e.code().value())));
}

// Puts one character in place of all bytes beyond ASCII, and returns it; 0: there were none.
// Comments may have them. Version 3.3 of toml++ has undefined behaviour after a value that is
// followed by some of them ("64K" and U+032E): its look-up of white space believes that no such
// character gets there. It is a character that means nothing outside of strings, and that the text
// has not, if there is one.
char make_ascii(std::string& text) {
  auto const is_other = [](char c) { return (c & 0x80) != 0; };
  if (!std::ranges::any_of(text, is_other)) return 0;
  constexpr std::string_view candidates = "?!~@$%^&|;<>`";
  auto const unused =
      std::ranges::find_if(candidates, [&](char c) { return text.find(c) == text.npos; });
  char const other = unused != candidates.end() ? *unused : candidates[0];
  std::ranges::replace_if(text, is_other, other);
  return other;
}

}  // namespace

std::vector<file_setting> read_settings_file(std::filesystem::path const& file) {
  std::string text = text_of(file);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // editors mark UTF-8 so
  char const other = make_ascii(text);
  toml::table table;
  try {
    table = toml::parse(text, file.string());
  } catch (toml::parse_error const& error) {
    throw config_error(fmt::format(
        "{}:{}: {}{}", file.string(), error.source().begin.line, error.description(),
        other == 0 ? "" : fmt::format(" (letters beyond ASCII are shown as {})", other)));
  }
  std::vector<file_setting> all;
  for (auto const& [key, node] : table) {
    std::string const origin =
        fmt::format("{}:{}: {}", file.string(), node.source().begin.line, key.str());
    auto const value = toml_text(node);
    auto const* const truth = node.as_boolean();
    std::string const other_value = truth == nullptr ? "" : truth->get() ? "true" : "false";
    bool const has_lost_letters = other != 0 && value && value->find(other) != value->npos;
    all.push_back({std::string(key.str()), value, other_value, has_lost_letters, origin});
  }
  return all;
}

std::filesystem::path usual_settings_file() {
  std::error_code error;  // of a loop of links
  if (char const* named = std::getenv("GPUFS_CONFIG")) {
    if (!std::filesystem::is_regular_file(named, error))
      reject("GPUFS_CONFIG", named, "the path of a TOML file");
    return named;
  }
  std::filesystem::path const usual = "gpufs.toml";
  // Settings may stand in a folder that cannot be searched, so it does not count as absent.
  bool const is_there = std::filesystem::exists(usual, error);
  if (error && error != std::errc::too_many_symbolic_link_levels)
    throw config_error(fmt::format("gpufs.toml: cannot be looked for in the working folder: {}",
                                   std::strerror(error.value())));
  if (!is_there && !error) return {};
  if (!std::filesystem::is_regular_file(usual, error))
    throw config_error("gpufs.toml: must be a file, or not there");
  return usual;
}

}  // namespace gpufs::owner
