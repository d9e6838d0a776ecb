// Text as a JSON string.
#pragma once

#include <string>
#include <string_view>

namespace gpufs::daemon {

/// `text` as a JSON string, with its quotes. Bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace gpufs::daemon
