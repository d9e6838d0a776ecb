#include <nvme-controller/address_map.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gpufs::nvme_controller {

namespace {

bool begins_below(std::uint64_t bus, mapped_range const& range) { return bus < range.bus; }

}  // namespace

std::byte* find_memory(range_table const& table, std::uint64_t bus, std::uint64_t bytes) {
  auto const above = std::upper_bound(table.begin(), table.end(), bus, begins_below);
  if (above == table.begin()) return nullptr;
  mapped_range const& range = *std::prev(above);
  std::uint64_t const offset = bus - range.bus;
  if (offset > range.bytes || bytes > range.bytes - offset) return nullptr;
  return range.memory + offset;
}

address_map::address_map() : current_{make({})} {}

std::shared_ptr<range_table const> address_map::make(range_table table) {
  // First: a number that is inserted is taken back by `forget` alone.
  auto made = std::make_unique<range_table>(std::move(table));
  std::uint64_t const number = number_.load(std::memory_order_relaxed);
  {
    std::lock_guard const lock{living_->mutex};
    living_->tables.insert(number);
  }
  number_.store(number + 1, std::memory_order_relaxed);
  auto const forget = [state = living_, number](range_table const* gone) {
    delete gone;
    std::lock_guard const lock{state->mutex};
    state->tables.erase(number);
    state->changed.notify_all();
  };
  return {made.release(), forget};  // calls it, too, if there is no memory
}

void address_map::add(mapped_range const& range) {
  if (range.bytes == 0 || range.bus + range.bytes < range.bus)
    throw std::invalid_argument{"nvme: a range of memory is empty or ends beyond 2^64"};
  std::shared_ptr<range_table const> old;
  std::lock_guard const lock{mutex_};
  range_table table = *current_;
  auto const at = std::upper_bound(table.begin(), table.end(), range.bus, begins_below);
  bool const below = at != table.begin() && std::prev(at)->bus + std::prev(at)->bytes > range.bus;
  bool const above = at != table.end() && range.bus + range.bytes > at->bus;
  if (below || above) throw std::invalid_argument{"nvme: ranges of memory overlap"};
  table.insert(at, range);
  old = std::exchange(current_, make(std::move(table)));
}

mapped_range address_map::at(std::uint64_t bus) const {
  for (mapped_range const& range : *snapshot())
    if (range.bus == bus) return range;
  throw std::invalid_argument{"nvme: no range of memory begins at this address"};
}

void address_map::remove(std::uint64_t bus) {
  std::uint64_t mine = 0;
  {
    std::lock_guard const lock{mutex_};
    range_table table = *current_;
    auto const at = std::find_if(table.begin(), table.end(),
                                 [bus](mapped_range const& range) { return range.bus == bus; });
    if (at == table.end())
      throw std::invalid_argument{"nvme: no range of memory begins at this address"};
    table.erase(at);
    mine = number_;
    current_ = make(std::move(table));
  }
  std::unique_lock lock{living_->mutex};
  living_->changed.wait(
      lock, [&] { return living_->tables.empty() || *living_->tables.begin() >= mine; });
}

// Relaxed: who sees the old number works with the old ranges, and remove() waits until it looks
// again. The mutex orders the rest.
range_table const& address_map::reader::look() {
  if (table_ == nullptr || map_.number_.load(std::memory_order_relaxed) != number_) {
    table_.reset();
    std::lock_guard const lock{map_.mutex_};
    number_ = map_.number_.load(std::memory_order_relaxed);
    table_ = map_.current_;
  }
  return *table_;
}

std::shared_ptr<range_table const> address_map::snapshot() const {
  std::lock_guard const lock{mutex_};
  return current_;
}

}  // namespace gpufs::nvme_controller
