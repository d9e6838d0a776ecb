// What device code needs of the channels that page and control requests go through.
#pragma once

#include <gpufs/handle/channel_pool_ref.hpp>

#include <cstdint>

namespace gpufs::handle {

struct channels_ref {
  channel_pool_ref control;          ///< 4 KiB staging pieces for paths and answers
  channel_pool_ref page;             ///< one page each
  std::uint32_t* async = nullptr;    ///< page channels that reads begun by gread_async have taken
  std::uint32_t* pulling = nullptr;  ///< warps that are pulling from staging
  std::uint32_t most_pulling = 0;    ///< config::pulls_in_flight
};

}  // namespace gpufs::handle
