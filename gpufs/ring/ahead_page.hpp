// A page that was requested ahead of the miss that will need it, in GPU memory.
#pragma once

#include <cstdint>

namespace gpufs::ring {

//            request              the request is in the ring
//   empty -----------> changing ----------------------------> requested
//     ^                  ^   |                                    |
//     |                  |   | another page, or not answered      | take, replace
//     +------------------+   +------------------------------------+
//       taken, no channel
//
/// The thread that stored `changing` owns the entry. It never waits meanwhile.
enum class ahead_phase : std::uint32_t { empty, changing, requested };

struct alignas(16) ahead_page {
  std::uint32_t phase;     ///< an ahead_phase
  std::uint32_t channel;   ///< number of the page channel that the entry holds
  std::uint32_t sequence;  ///< of its request
  std::uint32_t writes;    ///< writes_counted() before the request
  std::uint64_t version;   ///< of the file; others look at it and at `page` without owning them
  std::uint64_t page;
  std::uint64_t expected;  ///< bytes of the page that were requested
  std::uint64_t reserved;
};
static_assert(sizeof(ahead_page) == 48);

}  // namespace gpufs::ring
