// The part of an async_read that belongs to one page.
#pragma once

#include <gpufs/ring/channel.hpp>

#include <cstdint>

namespace gpufs::io {

/// A requested page of an async_read. Lane i of the group's first warp has page i.
struct async_page {
  ring::channel via;
  std::uint32_t writes = 0;  ///< writes_counted() at the time of the request
  std::uint64_t since = 0;   ///< that time, of device_clock_ns()
};

}  // namespace gpufs::io
