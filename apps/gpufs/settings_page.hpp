// gpufs settings: all settings, as text or as the page docs/settings.md.
#pragma once

#include <string>

namespace gpufs::apps {

/// A line per setting: its name, its default, what it means.
[[nodiscard]] std::string settings_text();

/// The page docs/settings.md, in Markdown. A test compares both.
[[nodiscard]] std::string settings_page();

}  // namespace gpufs::apps
