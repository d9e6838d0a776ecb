// What host and kernel of gpufs-grep hand each other.
#pragma once

#include <cstdint>

namespace gpufs::apps {

inline constexpr unsigned longest_word = 255;

/// The word to look for: 1 to longest_word bytes, none of them a newline.
struct search_word {
  unsigned length = 0;
  char bytes[longest_word + 1] = {};
};

/// Letters, digits and the underscore, as in the C locale.
constexpr bool is_word_byte(char c) {
  auto const u = static_cast<unsigned char>(c);
  auto const lower = static_cast<unsigned char>(u | 0x20);
  return (lower >= 'a' && lower <= 'z') || (u >= '0' && u <= '9') || u == '_';
}

/// A file, or bytes [begin, end) of one. `end` of a file's last range is ~0: it goes on to wherever
/// the file ends.
struct grep_range {
  std::uint64_t path;  ///< place of the path in grep_job::paths
  std::uint64_t begin;
  std::uint64_t end;
};

/// Bytes in front of the chunk of each block: the end of the chunk before it, long enough for a
/// word on the border.
inline constexpr std::uint64_t front_bytes = longest_word + 1;
static_assert(front_bytes % 8 == 0);

/// Pointers are to device memory, but `finished` to pinned memory.
struct grep_job {
  grep_range const* range = nullptr;
  std::uint64_t ranges = 0;
  char const* paths = nullptr;        ///< NUL-terminated, one behind the other
  std::int64_t* results = nullptr;    ///< one per range: a packed line_state, or -errno
  std::uint64_t* next = nullptr;      ///< the next range to take; 0 at first
  std::uint64_t* finished = nullptr;  ///< for each block: ranges done
  char* windows = nullptr;            ///< for each block front_bytes and a chunk
  std::uint64_t chunk_bytes = 0;      ///< a multiple of 8, at least 2 * front_bytes
  search_word word;
};

}  // namespace gpufs::apps
