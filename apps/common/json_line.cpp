#include <apps/common/json_line.hpp>

#include <fmt/format.h>

#include <cmath>

namespace gpufs::apps {

namespace {

/// Bytes of the UTF-8 character that `text` begins with, 0 if it begins with none. Sorts out
/// overlong forms and surrogates.
std::size_t utf8_length(std::string_view text) {
  auto const at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned const first = at(0);
  std::size_t const length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  if (length < 3) return length;
  unsigned const second = at(1);
  bool const bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                   (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return bad ? 0 : length;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    std::size_t const length = utf8_length(text);
    char const c = text[0];
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

std::string printed(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{:.6g}", *value) : std::string("null");
}

}  // namespace

json_line& json_line::add(std::string_view key, std::string_view raw) {
  return members(fmt::format("{}: {}", quoted(key), raw));
}
json_line& json_line::text(std::string_view key, std::string_view value) {
  return add(key, quoted(value));
}
json_line& json_line::integer(std::string_view key, std::uint64_t value) {
  return add(key, fmt::format("{}", value));
}
json_line& json_line::number(std::string_view key, std::optional<double> value) {
  return add(key, printed(value));
}
json_line& json_line::boolean(std::string_view key, bool value) {
  return add(key, value ? "true" : "false");
}
json_line& json_line::object(std::string_view key, json_line const& value) {
  return add(key, value.str());
}

json_line& json_line::numbers(std::string_view key, std::vector<double> const& values) {
  std::string list;
  for (double const v : values) list += fmt::format("{}{}", list.empty() ? "" : ", ", printed(v));
  return add(key, fmt::format("[{}]", list));
}

json_line& json_line::members(std::string_view text) {
  if (!inside_.empty()) inside_ += ", ";
  inside_ += text;
  return *this;
}

std::string json_line::str() const { return fmt::format("{{{}}}", inside_); }

}  // namespace gpufs::apps
