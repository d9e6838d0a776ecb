#include <test/crash/memory_log.hpp>

namespace gpufs::test {

namespace {

std::atomic<memory_log*> current{nullptr};

}  // namespace

void memory_log::start(std::function<std::uint64_t()> clock) {
  clock_ = std::move(clock);
  changes_.clear();
  // Pairs with the acquire in file_calls_wanted() and below.
  current.store(this, std::memory_order_release);
}

void memory_log::stop() noexcept {
  auto* self = this;
  current.compare_exchange_strong(self, nullptr);
}

std::uint64_t memory_log::begins(file_change&& what) {
  std::lock_guard const lock{mutex_};
  changes_.push_back({std::move(what), clock_()});
  return changes_.size() - 1;
}

void memory_log::ends(std::uint64_t number, std::int64_t result) {
  std::lock_guard const lock{mutex_};
  if (number >= changes_.size()) return;  // what was noted has been taken
  changes_[number].end = clock_();
  changes_[number].result = result;
}

bool file_calls_wanted() noexcept { return current.load(std::memory_order_acquire) != nullptr; }

std::uint64_t file_call_begins(file_change&& what) {
  auto* const log = current.load(std::memory_order_acquire);
  return log != nullptr ? log->begins(std::move(what)) : ~0ull;
}

void file_call_ends(std::uint64_t number, std::int64_t result) {
  auto* const log = current.load(std::memory_order_acquire);
  if (log != nullptr && number != ~0ull) log->ends(number, result);
}

}  // namespace gpufs::test
