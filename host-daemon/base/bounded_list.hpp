// A list with room for a fixed number of elements.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace gpufs::daemon {

/// Never allocates, so it serves threads that must go on when there is no memory.
/// Not thread-safe. `T` is cheap to make empty.
template <class T, std::size_t Most>
class bounded_list {
 public:
  /// The list is not full.
  void push_back(T item) { items_[size_++] = std::move(item); }
  /// Removes the elements for which `done` is true, and keeps the order of the others. Returns
  /// their number.
  template <class Done>
  std::size_t erase_if(Done done) {
    auto* const last = std::remove_if(begin(), end(), done);
    std::fill(last, end(), T{});  // it owns nothing more
    auto const kept = std::size_t(last - begin());
    return std::exchange(size_, kept) - kept;
  }
  void clear() noexcept {
    std::fill(begin(), end(), T{});
    size_ = 0;
  }

  [[nodiscard]] T* begin() noexcept { return items_.data(); }
  [[nodiscard]] T* end() noexcept { return items_.data() + size_; }
  [[nodiscard]] T const* begin() const noexcept { return items_.data(); }
  [[nodiscard]] T const* end() const noexcept { return items_.data() + size_; }
  [[nodiscard]] T const& front() const noexcept { return items_[0]; }
  [[nodiscard]] T const& back() const noexcept { return items_[size_ - 1]; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] bool full() const noexcept { return size_ == Most; }

 private:
  std::array<T, Most> items_{};
  std::size_t size_ = 0;
};

}  // namespace gpufs::daemon
