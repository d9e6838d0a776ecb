// The dirty buffers that a background thread writes next, in the order of their files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace gpufs::daemon {

/// The write buffers [begin, end).
struct buffer_stretch {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// A search finds buffers in the order of their numbers. Neighbouring pages that several blocks
/// write lie far apart there. In the order of their files they join to long calls. All that one
/// search found is written before the next search, and that goes on where a full one has stopped.
/// So no page waits behind pages that become dirty again and again.
///
/// Entries are hints: a buffer may be clean, or another page's, when it is taken. Not thread-safe.
class write_order {
 public:
  /// Has places for `most` entries. Only this needs memory.
  explicit write_order(std::size_t most) : most_{most} { entries_.reserve(most); }

  [[nodiscard]] bool empty() const noexcept { return next_ == entries_.size(); }
  [[nodiscard]] bool full() const noexcept { return entries_.size() == most_; }
  /// Whether the search was for all dirty buffers, and not only for those that have rested.
  [[nodiscard]] bool pressed() const noexcept { return pressed_; }
  /// The buffer behind the last one that a full search has found; else 0.
  [[nodiscard]] std::uint32_t searched_to() const noexcept { return full() ? found_ + 1 : 0; }

  /// Removes all entries, before a search.
  void clear(bool pressed) noexcept {
    entries_.clear();
    next_ = 0;
    pressed_ = pressed;
  }
  /// Adds a buffer that a search has found. It is not full.
  void add(std::uint32_t buffer, std::uint64_t version, std::uint64_t page) {
    entries_.push_back({version, page, buffer});
    found_ = buffer;
  }
  /// Ends a search. From now on take() may be called.
  void sort() {
    std::ranges::sort(entries_, {}, [](entry const& e) { return std::tuple{e.version, e.page}; });
  }
  /// Takes the next buffer. It is not empty.
  [[nodiscard]] std::uint32_t take() noexcept { return entries_[next_++].buffer; }

 private:
  struct entry {
    std::uint64_t version;
    std::uint64_t page;
    std::uint32_t buffer;
  };

  std::size_t most_;
  std::vector<entry> entries_;
  std::size_t next_ = 0;
  std::uint32_t found_ = 0;
  bool pressed_ = false;
};

}  // namespace gpufs::daemon
