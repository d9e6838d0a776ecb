#include <gpufs/config.hpp>
#include <gpufs/owner/setting_kinds.hpp>
#include <gpufs/owner/settings_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
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

// The text of `file`, with a '?' for each byte beyond ASCII, and whether there were any. Comments
// may have them. Version 3.3 of toml++ has undefined behaviour after a value that is followed by
// some of them
// ("64K" and U+032E): its look-up of white space believes that no such character gets there.
std::string ascii_text(std::filesystem::path const& file, bool& has_others) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (!stream.is_open() || stream.bad())
    throw config_error(fmt::format("{}: cannot be read: {}", file.string(), std::strerror(errno)));
  auto const is_other = [](char c) { return (c & 0x80) != 0; };
  has_others = std::ranges::any_of(text, is_other);
  std::ranges::replace_if(text, is_other, '?');
  return text;
}

}  // namespace

std::vector<file_setting> read_settings_file(std::filesystem::path const& file) {
  bool has_others = false;
  std::string const text = ascii_text(file, has_others);
  toml::table table;
  try {
    table = toml::parse(text, file.string());
  } catch (toml::parse_error const& error) {
    throw config_error(
        fmt::format("{}:{}: {}", file.string(), error.source().begin.line, error.description()));
  }
  std::vector<file_setting> all;
  for (auto const& [key, node] : table) {
    std::string const origin =
        fmt::format("{}:{}: {}", file.string(), node.source().begin.line, key.str());
    auto const value = toml_text(node);
    // See ascii_text().
    bool const has_lost_letters = has_others && value && value->find('?') != value->npos;
    all.push_back({std::string(key.str()), value, has_lost_letters, origin});
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
  if (!std::filesystem::exists(usual, error) && !error) return {};
  if (!std::filesystem::is_regular_file(usual, error))
    throw config_error("gpufs.toml: must be a file, or not there");
  return usual;
}

}  // namespace gpufs::owner
