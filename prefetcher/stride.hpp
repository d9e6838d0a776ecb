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

/// The distances between the pieces that a caller has brought in itself, one after the other. A
/// piece that others bring in ends a series: the next distance is another one.
struct strides {
  std::uint64_t begin = 0;   ///< of the last piece
  std::uint64_t length = 0;  ///< of the last piece; 0: there was none
  /// from the piece before, forwards; 0: there was none, or it did not end before this one
  std::uint64_t distance = 0;
  std::uint32_t repeats = 0;  ///< distances in a row that were this one, after the first
  std::uint32_t depth = 0;    ///< pieces to have under way beyond the current one

  /// The strides after a piece. The depth is at most `limit`.
  [[nodiscard]] GPUFS_HOST_DEVICE strides after(piece const& p, std::uint32_t limit) const {
    // Pieces that overlap would be requested twice where they do.
    bool const forwards = p.length != 0 && length != 0 && p.begin >= begin + length;
    std::uint64_t const step = forwards ? p.begin - begin : 0;
    bool const again = forwards && step == distance && p.length == length;
    std::uint32_t const most = ~std::uint32_t{0};
    std::uint32_t const count = !again ? 0 : repeats == most ? most : repeats + 1;
    std::uint32_t const share = count / stride_share;
    return {p.begin, p.length, step, count, share < limit ? share : limit};
  }
};

}  // namespace gpufs::prefetch
