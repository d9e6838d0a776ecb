// PRP entries of a piece of memory that is contiguous for the controller.
#pragma once

#include <gpufs/base/host_device.hpp>
#include <gpufs/nvme/format.hpp>

#include <cstdint>

namespace gpufs::nvme {

/// A piece of memory and its list. The list has the addresses of the piece's pages but the first,
/// so every transfer within the piece finds its entries there. It is written once.
struct prp_piece {
  std::uint64_t at = 0;    ///< bus address; a multiple of page_bytes
  std::uint64_t list = 0;  ///< bus address of the list; a multiple of page_bytes, unless all
                           ///< transfers have at most two pages
};

/// Largest piece: its list fills one page.
inline constexpr std::uint64_t most_piece_bytes = std::uint64_t{page_bytes} / 8 * page_bytes;

/// Entries of the list of a piece of `bytes` bytes.
GPUFS_HOST_DEVICE constexpr std::uint32_t list_entries(std::uint64_t bytes) {
  return bytes <= page_bytes
             ? 0
             : static_cast<std::uint32_t>((bytes + page_bytes - 1) / page_bytes - 1);
}

/// Entry `i` of the list.
GPUFS_HOST_DEVICE constexpr std::uint64_t list_entry(prp_piece const& piece, std::uint32_t i) {
  return piece.at + (std::uint64_t{i} + 1) * page_bytes;
}

/// Memory of a transfer of `bytes` > 0 bytes at byte `offset` of the piece, a multiple of 4.
GPUFS_HOST_DEVICE constexpr prp_pair prps(prp_piece const& piece, std::uint64_t offset,
                                          std::uint64_t bytes) {
  std::uint64_t const first_page = offset >> page_shift;
  std::uint64_t const last_page = (offset + bytes - 1) >> page_shift;
  prp_pair pair{piece.at + offset, 0};
  if (last_page == first_page + 1) pair.second = piece.at + (last_page << page_shift);
  if (last_page > first_page + 1) pair.second = piece.list + 8 * first_page;
  return pair;
}

}  // namespace gpufs::nvme
