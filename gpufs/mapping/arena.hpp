// Which addresses of a reservation are free. First fit; neighbours that are free become one.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace gpufs::shared {

class arena {
 public:
  explicit arena(std::uint64_t bytes) { free_.emplace(0, bytes); }

  /// Returns the offset of `bytes` free ones, or nothing. `bytes` > 0.
  std::optional<std::uint64_t> take(std::uint64_t bytes) {
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      auto const [offset, room] = *at;
      if (room < bytes) continue;
      free_.erase(at);
      if (room > bytes) free_.emplace(offset + bytes, room - bytes);
      return offset;
    }
    return std::nullopt;
  }

  void give_back(std::uint64_t offset, std::uint64_t bytes) {
    auto next = free_.upper_bound(offset);
    if (next != free_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      auto const before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    free_.emplace(offset, bytes);
  }

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes
};

}  // namespace gpufs::shared
