// Block files for device code: members, where bytes lie on them, and memory for their commands.
#pragma once

#include <gpufs/base/host_device.hpp>
#include <gpufs/nvme/format.hpp>
#include <gpufs/nvme/prp.hpp>
#include <gpufs/nvme/queue_group_ref.hpp>

#include <cstdint>

namespace gpufs::nvme {

/// A member of a backing, as device code sees it.
struct block_member {
  queue_pair_ref const* pairs = nullptr;  ///< in GPU memory
  prp_piece staging;                      ///< the filesystem's; see most_by_list()
};

/// How the bytes of a block file lie on its members. In GPU memory.
struct block_backing {
  block_member const* members = nullptr;
  std::uint32_t member_count = 0;
  std::uint32_t pairs = 0;  ///< of each member
  bool is_replicated = false;
  std::uint32_t stripe_shift = 0;
  std::uint32_t lba_shift = 0;
  std::uint32_t nsid = 1;
  std::uint64_t most_bytes = 0;  ///< of one command
  /// Of several replicas, each: the device's clock before which it is out of turn. Else null.
  std::uint64_t* out_until = nullptr;
  std::uint64_t out_ns = 0;  ///< how long a replica that fails is out of turn
};

/// Where the first of some bytes lies, and how many follow there.
struct block_place {
  std::uint32_t member;
  std::uint64_t offset;
  std::uint64_t bytes;
};

/// The first piece of `bytes` > 0 bytes at `offset` of the file. Readers of replicas take turns by
/// `turn`.
GPUFS_HOST_DEVICE constexpr block_place place_of(block_backing const& b, std::uint64_t offset,
                                                 std::uint64_t bytes, std::uint32_t turn) {
  std::uint64_t const most = bytes < b.most_bytes ? bytes : b.most_bytes;
  if (b.is_replicated || b.member_count == 1)
    return {b.is_replicated ? turn % b.member_count : 0, offset, most};
  std::uint64_t const stripe = offset >> b.stripe_shift;
  std::uint64_t const in_stripe = offset & ((std::uint64_t{1} << b.stripe_shift) - 1);
  std::uint64_t const left = (std::uint64_t{1} << b.stripe_shift) - in_stripe;
  return {static_cast<std::uint32_t>(stripe % b.member_count),
          (stripe / b.member_count << b.stripe_shift) + in_stripe, most < left ? most : left};
}

/// Bytes from `at` of staging on that one command can have: its list must not cross a page.
GPUFS_HOST_DEVICE constexpr std::uint64_t most_by_list(std::uint64_t at) {
  constexpr std::uint64_t entries = page_bytes / 8;
  std::uint64_t const page = at >> page_shift;
  return ((page + 1 + entries - page % entries) << page_shift) - at;
}

}  // namespace gpufs::nvme
