// The layers that fill a config: a TOML file, the environment. And its validation.
#include <gpufs/config.hpp>
#include <gpufs/owner/setting_kinds.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <unistd.h>

// Version 3.3 asserts what follows from the file alone ("[^"). Without its assertions it reports
// the same as a parse error.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

namespace gpufs {

namespace {

using owner::reject;

setting const* find(std::string_view key) {
  auto const found = std::ranges::find(settings(), key, &setting::key);
  return found == settings().end() ? nullptr : &*found;
}

setting const* find_former(std::string_view key) {
  auto const found = std::ranges::find(settings(), key, &setting::former_key);
  return found == settings().end() || key.empty() ? nullptr : &*found;
}

std::string toml_text(toml::node const& node, std::string const& origin) {
  if (auto const* integer = node.as_integer()) return std::to_string(integer->get());
  if (auto const* text = node.as_string()) return text->get();
  throw config_error(fmt::format("{}: must be an integer or a string such as \"64K\"", origin));
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

void load_file(config& c, std::filesystem::path const& file) {
  bool has_others = false;
  std::string const text = ascii_text(file, has_others);
  toml::table table;
  try {
    table = toml::parse(text, file.string());
  } catch (toml::parse_error const& error) {
    throw config_error(
        fmt::format("{}:{}: {}", file.string(), error.source().begin.line, error.description()));
  }
  for (auto const& [key, node] : table) {
    std::string const origin =
        fmt::format("{}:{}: {}", file.string(), node.source().begin.line, key.str());
    auto const* found = find(key.str());
    if (found == nullptr) {
      found = find_former(key.str());
      if (found != nullptr) owner::note_former_name(origin, found->key);
    }
    if (found == nullptr) {
      std::string known;
      for (auto const& s : settings())
        known += fmt::format("{}{}", known.empty() ? "" : ", ", s.key);
      throw config_error(fmt::format("{}: no such setting; there are {}", origin, known));
    }
    auto const value = toml_text(node, origin);
    // See ascii_text(): the letters are lost.
    if (has_others && value.find('?') != value.npos)
      throw config_error(fmt::format("{}: must be ASCII in a file of settings", origin));
    found->assign(c, value, origin);
  }
}

void load_environment(config& c) {
  for (char const* const* e = environ; e != nullptr && *e != nullptr; ++e) {
    std::string_view const variable(*e, std::strcspn(*e, "="));
    if (variable.starts_with("GPUFS_")) owner::note_similar_name(variable);
  }
  for (auto const& s : settings()) {
    std::string const name = s.environment_name();
    char const* const value = std::getenv(name.c_str());
    if (value != nullptr) s.assign(c, value, name);
    if (s.former_key.empty()) continue;
    // Today's name wins where both are set.
    std::string const former = owner::environment_name(s.former_key);
    char const* const old_value = std::getenv(former.c_str());
    if (old_value == nullptr) continue;
    owner::note_former_name(former, name);
    if (value == nullptr) s.assign(c, old_value, former);
  }
}

config load_config(config defaults) {
  if (char const* named = std::getenv("GPUFS_CONFIG")) {
    if (!std::filesystem::is_regular_file(named))
      reject("GPUFS_CONFIG", named, "the path of a TOML file");
    load_file(defaults, named);
  } else if (std::filesystem::exists("gpufs.toml")) {
    if (!std::filesystem::is_regular_file("gpufs.toml"))
      throw config_error("gpufs.toml: must be a file, or not there");
    load_file(defaults, "gpufs.toml");
  }
  load_environment(defaults);
  return defaults;
}

registered_files files_to_register(config const& c) {
  if (c.registered_memory == 0) return registered_files::none;
  return c.path == io_path::registered  ? registered_files::all
         : c.path == io_path::automatic ? registered_files::noticed
                                        : registered_files::none;
}

void validate(config const& c) {
  // A value that was set in code passes the same check as its text would.
  config checked;
  for (auto const& s : settings()) s.assign(checked, s.print(c), s.key);

  if (c.cache_size / c.page_size < 8) {
    reject("cache_size", format_size(c.cache_size),
           fmt::format("at least 8 pages, {} with page_size={}", format_size(8 * c.page_size),
                       format_size(c.page_size)));
  }
  // Frames have numbers of 32 bits on the device.
  if (constexpr std::uint64_t most_pages = 1ull << 31; c.cache_size / c.page_size > most_pages) {
    reject("cache_size", format_size(c.cache_size),
           fmt::format("at most {} pages, {} with page_size={}", most_pages,
                       format_size(most_pages * c.page_size), format_size(c.page_size)));
  }
  bool const fixed = c.prefetch_size != prefetch_automatic;
  if (fixed && c.prefetch_size % c.page_size != 0) {
    reject("prefetch_size", format_size(c.prefetch_size),
           fmt::format("a multiple of page_size={}", format_size(c.page_size)));
  }
  if (c.page_size > c.staging_size / 8) {
    reject("staging_size", format_size(c.staging_size),
           fmt::format("at least {}, 8 times page_size={}", format_size(8 * c.page_size),
                       format_size(c.page_size)));
  }
  if (std::uint64_t const request = c.page_size + c.prefetch_size;
      fixed && c.prefetch_size != 0 && request > c.prefetch_memory / 8) {
    reject("prefetch_memory", format_size(c.prefetch_memory),
           fmt::format("at least {}: 8 times page_size={} plus prefetch_size={}",
                       format_size(8 * request), format_size(c.page_size),
                       format_size(c.prefetch_size)));
  }
  bool const maps = files_to_register(c) != registered_files::none;
  if (maps && c.file_window_size < c.page_size) {
    reject("file_window_size", format_size(c.file_window_size),
           fmt::format("at least page_size={}", format_size(c.page_size)));
  }
  if (maps && c.registered_memory < c.file_window_size) {
    reject("registered_memory", format_size(c.registered_memory),
           fmt::format("0, or at least file_window_size={}", format_size(c.file_window_size)));
  }
}

}  // namespace gpufs
