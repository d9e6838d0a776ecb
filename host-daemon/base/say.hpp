// Lines on stderr for what nobody else can be told.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace gpufs::daemon {

/// Writes "gpufs: " and the formatted text as a line on stderr. Throws nothing, unlike fmt::print:
/// a line that cannot be written, or made for want of memory, is left out.
template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) noexcept {
  try {
    auto const line = "gpufs: " + fmt::format(text, std::forward<Args>(args)...) + '\n';
    std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (...) {  // no memory, and nobody to tell
  }
}

}  // namespace gpufs::daemon
