// Counts lines as gpufs-grep does, on the host and in the plainest way. The kernel is compared with
// it.
#pragma once

#include <apps/gpufs-grep/grep_job.hpp>

#include <cstdint>
#include <string_view>

namespace gpufs::apps {

/// Whether `line` contains `word` between bytes that belong to no word.
[[nodiscard]] inline bool contains_word(std::string_view line, std::string_view word) {
  for (std::size_t at = line.find(word); at != line.npos; at = line.find(word, at + 1)) {
    bool const begins = at == 0 || !is_word_byte(line[at - 1]);
    bool const ends = at + word.size() == line.size() || !is_word_byte(line[at + word.size()]);
    if (begins && ends) return true;
  }
  return false;
}

/// Lines of `text` that contain `word`; what follows the last newline is a line too.
[[nodiscard]] inline std::uint64_t count_lines(std::string_view text, std::string_view word) {
  std::uint64_t count = 0;
  while (!text.empty()) {
    std::string_view const line = text.substr(0, text.find('\n'));
    count += contains_word(line, word) ? 1 : 0;
    text.remove_prefix(line.size() == text.size() ? line.size() : line.size() + 1);
  }
  return count;
}

}  // namespace gpufs::apps
