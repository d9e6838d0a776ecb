// The memory that a controller may reach.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace gpufs::nvme_controller {

/// Memory of `bytes` bytes at a bus address.
struct mapped_range {
  std::uint64_t bus;
  std::uint64_t bytes;
  std::byte* memory;
};

/// Ranges at one moment, by rising address.
using range_table = std::vector<mapped_range>;

/// Returns the memory at [bus, bus + bytes), or null unless it lies in one range.
[[nodiscard]] std::byte* find_memory(range_table const& table, std::uint64_t bus,
                                     std::uint64_t bytes);

/// Plays the part of an IOMMU. Any thread calls.
class address_map {
 public:
  address_map();

  /// Throws std::invalid_argument if the range is empty, wraps, or overlaps another one.
  void add(mapped_range const& range);

  /// The range that begins at `bus`. Throws std::invalid_argument if there is none.
  [[nodiscard]] mapped_range at(std::uint64_t bus) const;

  /// Takes away the range that begins at `bus`. Returns once no thread of the controller uses it.
  /// Throws std::invalid_argument if there is none.
  void remove(std::uint64_t bus);

  /// The ranges. remove() waits for those who hold them, so they are held for a moment only.
  [[nodiscard]] std::shared_ptr<range_table const> snapshot() const;

  /// The ranges for a thread that looks at them often. It takes no lock unless they have changed.
  /// Belongs to one thread.
  class reader {
   public:
    explicit reader(address_map const& map) : map_{map} {}

    /// The ranges as they are now. They are held until the next look() or let_go(). So the thread
    /// calls let_go() before it waits for anything.
    [[nodiscard]] range_table const& look();
    void let_go() noexcept { table_.reset(); }
    /// The ranges of the last look().
    [[nodiscard]] std::shared_ptr<range_table const> const& held() const { return table_; }

   private:
    address_map const& map_;
    std::shared_ptr<range_table const> table_;
    std::uint64_t number_ = 0;
  };

 private:
  // Outlives this object if a snapshot does.
  struct living {
    std::mutex mutex;
    std::condition_variable changed;
    std::set<std::uint64_t> tables;  // numbers of those that are still held
  };

  [[nodiscard]] std::shared_ptr<range_table const> make(range_table table);

  std::shared_ptr<living> living_ = std::make_shared<living>();
  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> number_{0};  // changes with current_
  std::shared_ptr<range_table const> current_;
};

}  // namespace gpufs::nvme_controller
