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
  /// others have brought in pages that the caller read or had requested, and it has not jumped far
  std::uint32_t shared = 0;
  /// the last consecutive pages that the caller has brought in itself, as bytes
  std::uint64_t own_begin = 0;
  std::uint64_t own_end = 0;

  /// Whether a page at byte `begin` goes on where the caller's own pages end, or is one of them.
  [[nodiscard]] GPUFS_HOST_DEVICE bool follows(std::uint64_t begin) const {
    return own_begin <= begin && begin <= own_end;
  }
  /// The caller brings in the bytes [begin, end).
  GPUFS_HOST_DEVICE void bring_in(std::uint64_t begin, std::uint64_t end) {
    if (!follows(begin)) own_begin = begin;
    own_end = end;
  }
};

/// How the readahead depth changes. Without `automatic` (a fixed `prefetch_size`) it is `depth`
/// after a read that is no jump. With `automatic` it doubles with every such read, up to `limit`.
/// With `at_once` it is `limit` from the first such read. A jump sets it to 0.
struct depth_rule {
  bool automatic = false;
  std::uint32_t depth = 1;
  std::uint32_t limit = 1;
  bool at_once = false;
  bool random = false;        ///< RANDOM advice: nothing is read ahead
  std::uint32_t callers = 1;  ///< contexts that have a prefetcher
};

/// How a read follows the caller's last one.
enum class read_kind : std::uint32_t {
  jump,        ///< it begins more than a page away, or the file version is another
  gap,         ///< it leaves out some bytes, at most a page
  sequential,  ///< it begins where the last one ended, or up to a page before
};

/// The kind of a read at byte `begin`; `slack` is a page. With RANDOM advice each read is a jump.
/// With SEQUENTIAL advice the first read of a file version is sequential.
GPUFS_HOST_DEVICE inline read_kind kind_of(stream const& s, std::uint64_t version,
                                           std::uint64_t begin, std::uint64_t slack,
                                           advice a = advice::normal) {
  if (a == advice::random) return read_kind::jump;
  if (s.version != version)
    return a == advice::sequential ? read_kind::sequential : read_kind::jump;
  if (begin <= s.next) return s.next - begin <= slack ? read_kind::sequential : read_kind::jump;
  return begin - s.next <= slack ? read_kind::gap : read_kind::jump;
}

/// Whether a read at byte `first` is further than `reach` behind the caller's own pages, or before
/// them.
GPUFS_HOST_DEVICE inline bool is_far(stream const& s, std::uint64_t first, std::uint64_t reach) {
  return first < s.own_begin || first > s.own_end + reach;
}

/// A caller that may share pages with others has a chunk ahead for each `cautious_share` chunks
/// that it has brought in itself one after the other. If another caller takes over there, what was
/// read in vain is at most this part.
inline constexpr std::uint32_t cautious_share = 16;

/// The most chunks ahead of a caller that may share pages.
GPUFS_HOST_DEVICE inline std::uint32_t cautious_limit(std::uint64_t own_bytes,
                                                      std::uint64_t chunk_bytes) {
  std::uint64_t const chunks = own_bytes / (cautious_share * chunk_bytes);
  return chunks < 0xffffffffu ? static_cast<std::uint32_t>(chunks) : 0xffffffffu;
}

/// The readahead depth after a read.
GPUFS_HOST_DEVICE inline std::uint32_t next_depth(std::uint32_t depth, bool goes_on,
                                                  depth_rule const& rule) {
  if (!goes_on) return 0;
  if (!rule.automatic) return rule.depth;
  if (rule.at_once) return rule.limit;
  std::uint32_t const doubled = depth == 0 ? 1 : depth * 2;
  return doubled < rule.limit ? doubled : rule.limit;
}

/// Depths from this one on are filled up in rounds.
inline constexpr std::uint32_t least_depth_of_rounds = 8;

/// Whether `ahead` chunks are enough for the readahead depth: three quarters of it. Then it pays to
/// wait with the next requests. To give chunks back and to request others costs several trips to
/// memory, however many they are, and the caller's next batch would wait for them.
GPUFS_HOST_DEVICE inline bool enough_ahead(std::uint32_t ahead, std::uint32_t depth) {
  return depth >= least_depth_of_rounds && ahead >= depth - depth / 4;
}

/// The largest readahead depth of one caller. `callers` share `together` chunks, which keep the
/// host and the bus busy. The result is at least 1 and at most `each`.
GPUFS_HOST_DEVICE inline std::uint32_t depth_limit(std::uint32_t callers, std::uint32_t together,
                                                   std::uint32_t each) {
  std::uint32_t const share = together / (callers == 0 ? 1 : callers);
  return share < 1 ? 1 : share < each ? share : each;
}

}  // namespace gpufs::prefetch
