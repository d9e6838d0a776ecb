// Write indices: a list of those that no file has.
#include <host-daemon/files/version_numbers.hpp>

namespace gpufs::daemon {

version_numbers::version_numbers(std::size_t remembered, std::uint32_t write_indices)
    : remembered_{remembered} {
  free_write_indices_.reserve(write_indices);
  for (auto write_index = write_indices; write_index > 0; --write_index)
    free_write_indices_.push_back(write_index);
}

std::uint32_t version_numbers::take_write_index() noexcept {
  std::lock_guard const lock{mutex_};
  if (free_write_indices_.empty()) return 0;
  auto const write_index = free_write_indices_.back();
  free_write_indices_.pop_back();
  return write_index;
}

void version_numbers::return_write_index(std::uint32_t write_index) noexcept {
  if (write_index == 0) return;
  std::lock_guard const lock{mutex_};
  free_write_indices_.push_back(write_index);
}

bool version_numbers::has_write_index() noexcept {
  std::lock_guard const lock{mutex_};
  return !free_write_indices_.empty();
}

}  // namespace gpufs::daemon
