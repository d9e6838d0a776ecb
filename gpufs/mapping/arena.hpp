// Which addresses of a reservation are free. First fit; neighbours that are free become one.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace gpufs::shared {

class arena {
 public:
  explicit arena(std::uint64_t bytes) { free_.emplace(0, bytes); }

  /// Returns the offset of `bytes` free ones, or nothing. `bytes` > 0.
  std::optional<std::uint64_t> take(std::uint64_t bytes) {
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      auto const [offset, room] = *at;
      if (room < bytes) continue;
      auto rest = free_.extract(at);
      rest.key() += bytes;
      rest.mapped() -= bytes;
      if (room > bytes) free_.insert(std::move(rest));
      return offset;
    }
    return std::nullopt;
  }

  /// Needs memory only if no neighbour is free. If there is none, nothing changes.
  void give_back(std::uint64_t offset, std::uint64_t bytes) {
    auto const next = free_.upper_bound(offset);
    bool const joins_next = next != free_.end() && next->first == offset + bytes;
    auto const before = next == free_.begin() ? free_.end() : std::prev(next);
    if (before != free_.end() && before->first + before->second == offset) {
      before->second += bytes + (joins_next ? next->second : 0);
      if (joins_next) free_.erase(next);
    } else if (joins_next) {
      auto grown = free_.extract(next);
      grown.key() = offset;
      grown.mapped() += bytes;
      free_.insert(std::move(grown));
    } else {
      free_.emplace(offset, bytes);
    }
  }

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes
};

}  // namespace gpufs::shared
