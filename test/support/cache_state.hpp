// What a filesystem's device-side state must look like when no kernel runs.
#pragma once

#include <gpufs/fs_ref.hpp>

#include <cstdint>
#include <set>
#include <string>

namespace gpufs::test {

struct cache_state {
  std::uint64_t ready = 0;        ///< frames that hold a page
  std::set<std::uint64_t> pages;  ///< their numbers, of whatever files they are
  std::uint64_t quarantined = 0;  ///< channels whose late answer nobody has picked up yet
  std::uint64_t ahead = 0;        ///< requests of array::prefetch() that wait for their miss
  /// empty, or the first invariant that does not hold: pins, locks, claims or channels left behind,
  /// a page in two frames, a table entry without its page or the other way round
  std::string problems;
};

/// Looks at the state while no kernel that uses `fs` runs. `pinned` = frames that the test itself
/// has pinned once.
cache_state inspect(fs_ref const& fs, std::uint64_t pinned = 0);

}  // namespace gpufs::test
