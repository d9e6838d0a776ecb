// The matching lines of a stretch of text. States of adjacent stretches can be joined in any
// grouping.
#pragma once

#include <cstdint>

namespace gpufs::apps {

/// Of a stretch of bytes. Its first line may have begun before it, its last one may go on behind
/// it.
///
///     ...first line \n whole \n lines \n last line...
///      ^ head          ^ count           ^ tail             without \n: head alone
struct line_state {
  bool split = false;       ///< there is a newline
  bool head = false;        ///< a match before the first newline
  bool tail = false;        ///< a match after the last newline; false unless split
  std::uint64_t count = 0;  ///< matching lines that begin and end within; 0 unless split

  /// This stretch with the one behind it.
  [[nodiscard]] constexpr line_state then(line_state const& next) const {
    if (!split && !next.split) return {false, head || next.head, false, 0};
    if (!split) return {true, head || next.head, next.tail, next.count};
    if (!next.split) return {true, head, tail || next.head, count};
    return {true, head, next.tail, count + next.count + ((tail || next.head) ? 1 : 0)};
  }

  /// Matching lines if the stretch is a whole file. A last line without a newline counts.
  [[nodiscard]] constexpr std::uint64_t lines() const {
    return count + (head ? 1 : 0) + (tail ? 1 : 0);
  }

  /// As one word, never negative.
  [[nodiscard]] constexpr std::uint64_t packed() const {
    return count << 3 | std::uint64_t{split} | std::uint64_t{head} << 1 | std::uint64_t{tail} << 2;
  }
  [[nodiscard]] static constexpr line_state unpacked(std::uint64_t word) {
    return {(word & 1) != 0, (word & 2) != 0, (word & 4) != 0, word >> 3};
  }
};

}  // namespace gpufs::apps
