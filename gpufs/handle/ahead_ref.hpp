// What device code needs of the pages that were requested ahead.
#pragma once

#include <cstdint>

namespace gpufs::ring {
struct ahead_page;
}

namespace gpufs::handle {

/// Requests for pages that no caller waits for yet. See gpufs/io/element/ahead.hpp.
struct ahead_ref {
  ring::ahead_page* pages = nullptr;  ///< `count` entries, in GPU memory
  std::uint32_t count = 0;            ///< a power of two, or 0
};

}  // namespace gpufs::handle
