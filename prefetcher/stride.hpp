// Reads at a constant distance, such as those of a column or of every n-th record: how far to read
// ahead of them. It uses no memory and no requests, so that a table can test it.
#pragma once

#include <gpufs/base/host_device.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// The part of a file that one read wants. `length` 0: the read is too long to be predicted.
struct piece {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
};

/// A caller that has read n pieces at a constant distance has at most n / stride_share pieces
/// ahead. If it stops there, what was read in vain is at most this part of what it read.
inline constexpr std::uint32_t stride_share = 8;

/// The distances between the pieces that a caller reads one after the other. Pieces that it has
/// brought in itself are noted. It may have read others between two of these, which were there.
struct strides {
  std::uint64_t begin = 0;   ///< of the last piece noted
  std::uint64_t length = 0;  ///< of the last piece noted; 0: there was none
  /// of the last read from the one before, forwards; 0: there was none, or they overlapped
  std::uint64_t distance = 0;
  std::uint32_t repeats = 0;  ///< distances in a row that were this one, after the first
  std::uint32_t depth = 0;    ///< pieces to have under way beyond the current one
  std::uint32_t entered = 0;  ///< of pieces_by_pages(): those that come with the last one noted

  /// The strides after a piece that the caller brings in. Its read before ended at byte `last_end`,
  /// and counts as a piece of the same length. The depth is at most `limit`.
  [[nodiscard]] GPUFS_HOST_DEVICE strides after(piece const& p, std::uint64_t last_end,
                                                std::uint32_t limit) const {
    // Pieces that overlap would be requested twice where they do.
    bool const forwards =
        p.length != 0 && length != 0 && last_end >= begin + length && last_end <= p.begin;
    strides next;
    next.begin = p.begin;
    next.length = p.length;
    if (!forwards) return next;
    next.distance = p.begin + p.length - last_end;
    if (next.distance != distance || p.length != length) return next;
    std::uint32_t const passed = distances_to(p.begin);
    if (passed == 0) return next;
    // Those behind the entered ones do not count: it may have left some of them out.
    std::uint32_t const own = passed <= entered ? passed : entered + 1;
    std::uint32_t const most = ~std::uint32_t{0};
    next.repeats = repeats > most - own ? most : repeats + own;
    std::uint32_t const share = next.repeats / stride_share;
    next.depth = share < limit ? share : limit;
    return next;
  }

 private:
  /// How many distances lead from the last piece noted to byte `at`; 0: none of these numbers does.
  [[nodiscard]] GPUFS_HOST_DEVICE std::uint32_t distances_to(std::uint64_t at) const {
    std::uint64_t const way = at - begin;
    if (way == distance * (entered + 1)) return entered + 1;
    constexpr std::uint32_t most_found = 128;
    std::uint64_t next = distance;
    for (std::uint32_t n = 1; n <= most_found && next <= way; ++n, next += distance)
      if (next == way) return n;
    return 0;
  }
};

/// The longest page of pieces_by_pages(), in bytes: one that a warp reads alone.
inline constexpr std::uint64_t longest_page_alone = 4096;

/// Whether pieces of this length come into the page cache ahead, a page or two each. Longer ones
/// come into chunks.
GPUFS_HOST_DEVICE inline bool pieces_by_pages(std::uint64_t length, std::uint64_t page_bytes) {
  return page_bytes <= longest_page_alone && length <= page_bytes;
}

/// What callers of a filesystem share when they bring in pieces ahead.
struct pieces_pools {
  std::uint32_t callers = 1;
  std::uint32_t channels = 0;  ///< for pages
  std::uint32_t frames = 0;
};

/// Pieces that a caller brings into the page cache beside the current one, at most.
inline constexpr std::uint32_t most_pieces_entered = 14;

/// How many pieces of a series of pieces_by_pages() come with the last one noted. Half of the
/// frames are left to what callers have read.
GPUFS_HOST_DEVICE inline std::uint32_t pieces_entered(strides const& s, pieces_pools const& of,
                                                      std::uint64_t page_bytes) {
  auto const lesser = [](std::uint32_t a, std::uint32_t b) { return a < b ? a : b; };
  std::uint64_t const in_page = page_bytes - 1;
  bool const aligned = (s.distance & in_page) == 0 && (s.begin & in_page) + s.length <= page_bytes;
  std::uint32_t const share =
      lesser(of.channels, of.frames / 2) / (of.callers == 0 ? 1 : of.callers);
  std::uint32_t const pieces = aligned ? share : share / 2;  // else a piece may lie in two pages
  return lesser(s.depth, lesser(pieces == 0 ? 0 : pieces - 1, most_pieces_entered));
}

}  // namespace gpufs::prefetch
