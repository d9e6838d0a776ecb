// Stores to the records of open files.
#include <host-daemon/files/record_tables.hpp>

#include <fmt/format.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>

namespace gpufs::daemon {

record_tables::record_tables(std::vector<rpc::shared_region> regions)
    : regions_{std::move(regions)} {
  auto const refuse = [](std::string const& why) {
    throw std::invalid_argument{"file_registry: " + why};
  };
  if (regions_.empty()) refuse("there is no endpoint");
  for (auto const& r : regions_) {
    if (r.open_files == nullptr || r.control == nullptr)
      refuse("the region has no open-file records or no control block");
    if (r.max_open_files < 1 || r.max_open_files > 65536)
      refuse(fmt::format("max_open_files={}: must be from 1 to 65536", r.max_open_files));
    if (r.max_open_files != size())
      refuse(fmt::format("max_open_files={}: another endpoint has {}", r.max_open_files, size()));
    if ((r.writes.count != 0) != writable())
      refuse("some endpoints have write buffers, others have none");
  }
}

void record_tables::store(std::uint32_t index, field f, std::uint64_t value) noexcept {
  for (auto const& r : regions_)
    std::atomic_ref<std::uint64_t>{r.open_files[index].*f}.store(value, std::memory_order_release);
}

std::uint64_t record_tables::load(std::uint32_t index, field f) const noexcept {
  return std::atomic_ref<std::uint64_t>{regions_.front().open_files[index].*f}.load(
      std::memory_order_relaxed);
}

void record_tables::bump_epoch() noexcept {
  // Pairs with the device's acquire of the epoch: a thread that sees the new one sees the records
  // as they are now.
  for (auto const& r : regions_)
    std::atomic_ref<std::uint64_t>{r.control->epoch}.fetch_add(1, std::memory_order_release);
}

void record_tables::count_change() noexcept {
  // Pairs with the acquire of the thread that answers an open: the count that it tells comes after
  // the records.
  for (auto const& r : regions_)
    std::atomic_ref<std::uint64_t>{r.control->changes}.fetch_add(1, std::memory_order_release);
}

}  // namespace gpufs::daemon
