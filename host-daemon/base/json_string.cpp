// Escapes of JSON, and what is no UTF-8.
#include <host-daemon/base/json_string.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace gpufs::daemon {

namespace {

// How many bytes the character at the front of `text` has in UTF-8; 0: it is none.
std::size_t utf8_length(std::string_view text) noexcept {
  auto const at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned const first = at(0);
  std::size_t const length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  if (length < 3) return length;
  unsigned const second = at(1);
  bool const bad = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                   (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return bad ? 0 : length;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    auto const length = utf8_length(text);
    auto const c = static_cast<unsigned char>(text[0]);
    if (length == 0)
      out += "\\ufffd";
    else if (c == '"' || c == '\\')
      (out += '\\') += char(c);
    else if (c < 0x20)
      out += fmt::format("\\u{:04x}", unsigned(c));
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out += '"';
}

}  // namespace gpufs::daemon
