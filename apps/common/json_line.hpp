// One JSON object on one line, its members in the order in which they were added.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps {

class json_line {
 public:
  /// Text; bytes that are no UTF-8 become U+FFFD.
  json_line& text(std::string_view key, std::string_view value);
  json_line& integer(std::string_view key, std::uint64_t value);
  /// Six significant digits; null unless the value is there and finite.
  json_line& number(std::string_view key, std::optional<double> value);
  /// A hundredth of `value`, exactly: 12345 becomes 123.45.
  json_line& hundredths(std::string_view key, std::int64_t value);
  json_line& numbers(std::string_view key, std::vector<double> const& values);
  json_line& boolean(std::string_view key, bool value);
  /// An object as the value of `key`.
  json_line& object(std::string_view key, json_line const& value);
  /// Members as they stand inside an object: "\"hits\": 3, \"misses\": 4".
  json_line& members(std::string_view text);

  /// The object, without a newline.
  [[nodiscard]] std::string str() const;

 private:
  json_line& add(std::string_view key, std::string_view raw);

  std::string inside_;
};

}  // namespace gpufs::apps
