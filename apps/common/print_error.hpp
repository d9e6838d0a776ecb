// Text on stderr that may be lost, but costs no exit status.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace gpufs::apps {

/// fmt::print() to stderr. If that is closed or full, the text is left out; fmt::print() would
/// throw.
template <class... Args>
void print_error(fmt::format_string<Args...> text, Args&&... args) {
  std::string const all = fmt::format(text, std::forward<Args>(args)...);
  std::fwrite(all.data(), 1, all.size(), stderr);
}

}  // namespace gpufs::apps
