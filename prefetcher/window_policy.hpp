// How far to read ahead: the decision alone, without memory or requests, so that a table can test
// it.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/host_device.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// What a caller's reads of one file have looked like so far.
struct stream {
  std::uint64_t uid = 0;     ///< file version; 0 = nothing read yet
  std::uint64_t next = 0;    ///< byte behind the last one read
  std::uint32_t window = 0;  ///< chunks to have on their way beyond the current read
};

/// How the window moves: either it stays at `depth` (static PREFETCH_SIZE), or it doubles with
/// every sequential read up to `limit`. In both cases a read that is not sequential brings it to 0.
/// `at_once`: it does not double but is at its limit from the first on.
struct window_rule {
  bool automatic = false;
  std::uint32_t depth = 1;
  std::uint32_t limit = 1;
  bool at_once = false;
};

/// A read that starts up to `slack` bytes (a page) before or behind the end of the last one of the
/// same file version is sequential. Advice can rule that out, or speak for a read of which nothing
/// else is known because it is the first one of the file version.
GPUFS_HOST_DEVICE inline bool is_sequential(stream const& s, std::uint64_t uid, std::uint64_t begin,
                                            std::uint64_t slack, advice a = advice::normal) {
  if (a == advice::random) return false;
  if (s.uid != uid) return a == advice::sequential;
  return begin <= s.next ? s.next - begin <= slack : begin - s.next <= slack;
}

/// The window after a sequential or other read.
GPUFS_HOST_DEVICE inline std::uint32_t next_window(std::uint32_t window, bool sequential,
                                                   window_rule const& rule) {
  if (!sequential) return 0;
  if (!rule.automatic) return rule.depth;
  if (rule.at_once) return rule.limit;
  std::uint32_t const doubled = window == 0 ? 1 : window * 2;
  return doubled < rule.limit ? doubled : rule.limit;
}

/// The most chunks one caller may have ahead, when `callers` share what keeps the host and the bus
/// busy: `together` chunks in all, at least 1 and at most `each`.
GPUFS_HOST_DEVICE inline std::uint32_t window_limit(std::uint32_t callers, std::uint32_t together,
                                                    std::uint32_t each) {
  std::uint32_t const share = together / (callers == 0 ? 1 : callers);
  return share < 1 ? 1 : share < each ? share : each;
}

}  // namespace gpufs::prefetch
