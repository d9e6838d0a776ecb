#include <host-daemon/base/json_string.hpp>

#include <apps/common/json_line.hpp>

#include <fmt/format.h>

#include <cmath>

namespace gpufs::apps {

namespace {

std::string printed(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{:.6g}", *value) : std::string("null");
}

}  // namespace

json_line& json_line::add(std::string_view key, std::string_view raw) {
  return members(fmt::format("{}: {}", daemon::json_string(key), raw));
}
json_line& json_line::text(std::string_view key, std::string_view value) {
  return add(key, daemon::json_string(value));
}
json_line& json_line::integer(std::string_view key, std::uint64_t value) {
  return add(key, fmt::format("{}", value));
}
json_line& json_line::number(std::string_view key, std::optional<double> value) {
  return add(key, printed(value));
}
json_line& json_line::hundredths(std::string_view key, std::int64_t value) {
  std::uint64_t const size = value < 0 ? 0 - std::uint64_t(value) : std::uint64_t(value);
  return add(key, fmt::format("{}{}.{:02}", value < 0 ? "-" : "", size / 100, size % 100));
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
