// The record of a page while a group writes to it.
#pragma once

#include <cstdint>

namespace gpufs::io {

enum class write_status : std::uint32_t {
  none,
  ready,    ///< the frame is pinned and locked, its buffer open
  filling,  ///< the same; this gwrite fills the page and must publish it
  later,    ///< another caller has the frame or buffer that the page needs; no pin, no lock
  failed,   ///< `error` is the reason; no pin, no lock
};

/// One page of a batch of gwrite.
struct write_page {
  write_status status = write_status::none;
  std::uint32_t frame = 0;
  std::uint32_t buffer = 0;
  std::int32_t error = 0;
};

}  // namespace gpufs::io
