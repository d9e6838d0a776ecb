// A set of block numbers, kept as runs of neighbours.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace gpufs::shared {

/// Blocks [first, end).
struct block_run {
  std::uint64_t first;
  std::uint64_t end;

  [[nodiscard]] bool overlaps(block_run const& other) const {
    return first < other.end && other.first < end;
  }
  [[nodiscard]] bool contains(std::uint64_t block) const { return first <= block && block < end; }
  bool operator==(block_run const&) const = default;
};

/// Costs follow the number of runs, not that of blocks. If memory runs out, add() and take() leave
/// the set as it was.
class block_runs {
 public:
  void add(block_run r) {
    if (r.first >= r.end) return;
    auto at = runs_.upper_bound(r.first);
    if (at != runs_.begin() && std::prev(at)->second >= r.first) --at;
    if (at == runs_.end() || at->first > r.end) {
      runs_.emplace(r.first, r.end);
      return;
    }
    // A run that is there grows.
    auto grown = runs_.extract(at++);
    grown.key() = std::min(grown.key(), r.first);
    grown.mapped() = std::max(grown.mapped(), r.end);
    while (at != runs_.end() && at->first <= grown.mapped()) {
      grown.mapped() = std::max(grown.mapped(), at->second);
      at = runs_.erase(at);
    }
    runs_.insert(std::move(grown));
  }

  /// Takes the blocks of `r` out. Returns those that were in the set.
  std::vector<block_run> take(block_run r) {
    std::vector<block_run> taken = within(r);
    for (auto const& t : taken) {
      auto const at = std::prev(runs_.upper_bound(t.first));
      block_run const whole{at->first, at->second};
      if (whole.first < t.first) {
        // Only a run of which both ends stay needs memory, and then it is the only one.
        if (t.end < whole.end) runs_.emplace(t.end, whole.end);
        at->second = t.first;
      } else if (t.end < whole.end) {
        auto rest = runs_.extract(at);
        rest.key() = t.end;
        runs_.insert(std::move(rest));
      } else {
        runs_.erase(at);
      }
    }
    return taken;
  }

  /// The blocks of `r` that are in the set.
  [[nodiscard]] std::vector<block_run> within(block_run r) const {
    std::vector<block_run> found;
    auto at = runs_.upper_bound(r.first);
    if (at != runs_.begin()) --at;
    for (; at != runs_.end() && at->first < r.end; ++at) {
      block_run const common{std::max(r.first, at->first), std::min(r.end, at->second)};
      if (common.first < common.end) found.push_back(common);
    }
    return found;
  }

  [[nodiscard]] bool contains(std::uint64_t block) const {
    auto const at = runs_.upper_bound(block);
    return at != runs_.begin() && std::prev(at)->second > block;
  }

  [[nodiscard]] bool overlaps(block_run r) const {
    auto const at = runs_.lower_bound(r.end);
    return at != runs_.begin() && std::prev(at)->second > r.first;
  }

  /// All of them.
  [[nodiscard]] std::vector<block_run> runs() const {
    std::vector<block_run> all;
    for (auto const& [first, end] : runs_) all.push_back({first, end});
    return all;
  }

  /// Calls function(run) for all of them. Needs no memory.
  template <class Function>
  void for_each(Function const& function) const {
    for (auto const& [first, end] : runs_) function(block_run{first, end});
  }

  [[nodiscard]] bool empty() const { return runs_.empty(); }

 private:
  std::map<std::uint64_t, std::uint64_t> runs_;  // first -> end; neither overlap nor touch
};

}  // namespace gpufs::shared
