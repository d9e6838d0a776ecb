// Finds a word in a window of a file as `grep -w -F` does, with all threads of a block. For device
// code.
#pragma once

#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>

#include <apps/gpufs-grep/grep_job.hpp>
#include <apps/gpufs-grep/line_state.hpp>

#include <cstdint>

namespace gpufs::apps {

/// Bytes of a file in device memory. Places are offsets from `bytes`.
struct text_window {
  char const* bytes;  ///< 8-byte aligned; readable up to the multiple of 8 behind `end`
  /// where to begin to look; the byte before it is there unless the file begins here
  std::uint64_t scan;
  std::uint64_t stop;  ///< where to end
  /// end of the bytes that are there; stop + length of the word or more unless the file ends here
  std::uint64_t end;
  bool file_begins = false;  ///< `scan` is the file's first byte
};

namespace detail {

/// 0x80 in each byte of `word` that equals `byte`, 0 elsewhere.
constexpr std::uint64_t equal_bytes(std::uint64_t word, char byte) {
  constexpr std::uint64_t low = 0x7f7f7f7f7f7f7f7f;
  std::uint64_t const x = word ^ (0x0101010101010101u * static_cast<unsigned char>(byte));
  return ~(((x & low) + low) | x | low);
}
static_assert(equal_bytes(0x0a0b0a8a000a0a09, '\n') == 0x8000800000808000);
static_assert(equal_bytes(0xc3b8'43c3'007f'ffc3, '\xc3') == 0x8000008000000080);

__device__ inline bool word_at(text_window const& t, search_word const& word, std::uint64_t at) {
  if (t.end - at < word.length) return false;
  for (unsigned i = 1; i < word.length; ++i) {
    if (t.bytes[at + i] != word.bytes[i]) return false;
  }
  bool const begins = (t.file_begins && at == t.scan) || !is_word_byte(t.bytes[at - 1]);
  return begins && (at + word.length == t.end || !is_word_byte(t.bytes[at + word.length]));
}

/// The state of the part of the window that lies in 8-byte words [first, last).
__device__ inline line_state scan_words(text_window const& t, search_word const& word,
                                        std::uint64_t first, std::uint64_t last) {
  line_state s;
  bool matched = false;  // in the line so far
  auto const* words = reinterpret_cast<std::uint64_t const*>(t.bytes);
  for (std::uint64_t w = first; w < last; ++w) {
    std::uint64_t const text = words[w];
    std::uint64_t const newlines = equal_bytes(text, '\n');
    std::uint64_t interesting = newlines | equal_bytes(text, word.bytes[0]);
    if (8 * w < t.scan) interesting &= ~0ull << (8 * (t.scan - 8 * w));
    if (8 * w + 8 > t.stop) interesting &= ~0ull >> (8 * (8 * w + 8 - t.stop));
    for (; interesting != 0; interesting &= interesting - 1) {
      auto const byte = static_cast<unsigned>(__ffsll(static_cast<long long>(interesting)) - 1) / 8;
      if ((newlines >> (8 * byte) & 0x80) == 0) {
        matched = matched || word_at(t, word, 8 * w + byte);
        continue;
      }
      if (s.split) {
        s.count += matched ? 1 : 0;
      } else {
        s.split = true;
        s.head = matched;
      }
      matched = false;
    }
  }
  (s.split ? s.tail : s.head) = matched;
  return s;
}

}  // namespace detail

/// The state of window [scan, stop). All threads of a block call; its size is a multiple of 32. The
/// result is the first thread's alone. `scratch` is shared memory of 32 words. Ends with a barrier.
__device__ inline line_state scan_window(text_window const& t, search_word const& word,
                                         std::uint64_t* scratch) {
  std::uint64_t const first = t.scan / 8;
  std::uint64_t const words = t.scan < t.stop ? (t.stop + 7) / 8 - first : 0;
  std::uint64_t const each = (words + blockDim.x - 1) / blockDim.x;
  auto const clipped = [&](std::uint64_t w) { return first + (w < words ? w : words); };
  line_state mine =
      detail::scan_words(t, word, clipped(threadIdx.x * each), clipped((threadIdx.x + 1) * each));

  unsigned const lane = lane_id();
  unsigned const warp = threadIdx.x / base::warp_size;
  for (unsigned step = 1; step < base::warp_size; step *= 2) {
    // What lanes that are no multiple of 2 * step get is not used.
    auto const next =
        __shfl_down_sync(base::all_lanes, static_cast<unsigned long long>(mine.packed()), step);
    mine = mine.then(line_state::unpacked(next));
  }
  if (lane == 0) scratch[warp] = mine.packed();
  __syncthreads();
  line_state all;
  if (threadIdx.x == 0) {
    for (unsigned w = 0; w < blockDim.x / base::warp_size; ++w)
      all = all.then(line_state::unpacked(scratch[w]));
  }
  __syncthreads();
  return all;
}

}  // namespace gpufs::apps
