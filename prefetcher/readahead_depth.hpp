// Decides how far to read ahead. It uses no memory and no requests, so that a table can test it.
#pragma once

#include <gpufs/advice.hpp>
#include <gpufs/base/host_device.hpp>

#include <cstdint>

namespace gpufs::prefetch {

/// The pattern of a caller's reads of one file so far.
struct stream {
  std::uint64_t version = 0;  ///< file version; 0: nothing was read yet
  std::uint64_t next = 0;     ///< byte after the last one read
  std::uint32_t depth = 0;    ///< readahead depth: chunks to have under way beyond the current read
};

/// How the readahead depth changes. Without `automatic` (a fixed `prefetch_size`) it is `depth`
/// after a sequential read. With `automatic` it doubles with every sequential read, up to `limit`.
/// With `at_once` it is `limit` from the first such read. A read that is not sequential sets it to
/// 0.
struct depth_rule {
  bool automatic = false;
  std::uint32_t depth = 1;
  std::uint32_t limit = 1;
  bool at_once = false;
};

/// Whether a read is sequential. It is if it begins at most `slack` bytes (a page) before or after
/// the end of the last read of the same file version. RANDOM advice makes no read sequential.
/// SEQUENTIAL advice makes the first read of a file version sequential.
GPUFS_HOST_DEVICE inline bool is_sequential(stream const& s, std::uint64_t version,
                                            std::uint64_t begin, std::uint64_t slack,
                                            advice a = advice::normal) {
  if (a == advice::random) return false;
  if (s.version != version) return a == advice::sequential;
  return begin <= s.next ? s.next - begin <= slack : begin - s.next <= slack;
}

/// The readahead depth after a read.
GPUFS_HOST_DEVICE inline std::uint32_t next_depth(std::uint32_t depth, bool sequential,
                                                  depth_rule const& rule) {
  if (!sequential) return 0;
  if (!rule.automatic) return rule.depth;
  if (rule.at_once) return rule.limit;
  std::uint32_t const doubled = depth == 0 ? 1 : depth * 2;
  return doubled < rule.limit ? doubled : rule.limit;
}

/// The largest readahead depth of one caller. `callers` share `together` chunks, which keep the
/// host and the bus busy. The result is at least 1 and at most `each`.
GPUFS_HOST_DEVICE inline std::uint32_t depth_limit(std::uint32_t callers, std::uint32_t together,
                                                   std::uint32_t each) {
  std::uint32_t const share = together / (callers == 0 ? 1 : callers);
  return share < 1 ? 1 : share < each ? share : each;
}

}  // namespace gpufs::prefetch
