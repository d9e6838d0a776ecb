// What a thread works with that moves bytes between a file and the device.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/mapping/page_work.hpp>
#include <gpufs/mapping/pool.hpp>
#include <gpufs/mapping/staging.hpp>

#include <cstdint>

namespace gpufs::shared {

struct file_lane {
  static constexpr std::uint64_t pages = staging_piece::size / file_page;

  stream on;
  staging_piece pieces[2];  ///< one is copied while the file fills the other
  pinned_buffer<std::uint8_t> changed{pages};
  pinned_buffer<std::uint32_t> which{pages};
  buffer<page_hash> now{pages};
};

using lane_pool = pool<file_lane>;

}  // namespace gpufs::shared
