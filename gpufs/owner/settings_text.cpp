#include <gpufs/owner/setting_kinds.hpp>
#include <gpufs/owner/settings_text.hpp>
#include <gpufs/settings.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace gpufs::owner {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  std::size_t const first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

/// The line up to a # that does not stand in the double quotes of its value.
std::string_view without_comment(std::string_view line) {
  std::size_t from = 0;
  std::size_t const equals = line.find('=');
  if (equals < line.find('#')) {
    std::size_t const first = line.find_first_not_of(" \t", equals + 1);
    bool const quoted = first != std::string_view::npos && line[first] == '"';
    std::size_t const last = quoted ? line.find('"', first + 1) : std::string_view::npos;
    if (last != std::string_view::npos) from = last;
  }
  return line.substr(0, line.find('#', from));
}

void load_line(config& c, std::string_view line, unsigned number) {
  std::size_t const equals = line.find('=');
  if (equals == std::string_view::npos)
    throw config_error(
        fmt::format("settings, line {}: \"{}\": must be KEY = VALUE, such as "
                    "page_size = 64K",
                    number, line));
  std::string_view const key = trimmed(line.substr(0, equals));
  std::string_view value = trimmed(line.substr(equals + 1));
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
    value = value.substr(1, value.size() - 2);
  auto const origin = fmt::format("settings, line {}: {}", number, key);
  find_setting(key, origin).assign(c, value, origin);
}

}  // namespace

void load_text(config& c, std::string_view text) {
  for (unsigned number = 1; !text.empty(); ++number) {
    std::size_t const end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = trimmed(without_comment(line));
    if (!line.empty()) load_line(c, line, number);
  }
}

}  // namespace gpufs::owner
