#include <nvme-host/vfio.hpp>

#include <algorithm>
#include <utility>

namespace gpufs::nvme_host {

namespace {

constexpr std::uint64_t first_address = 64 << 10;

}  // namespace

iova_allocator::iova_allocator(std::vector<iova_range> ranges) : ranges_{std::move(ranges)} {
  std::sort(ranges_.begin(), ranges_.end(),
            [](iova_range const& a, iova_range const& b) { return a.first < b.first; });
}

std::uint64_t iova_allocator::take(std::uint64_t bytes) {
  for (iova_range const& range : ranges_) {
    std::uint64_t at = (std::max(range.first, first_address) + 4095) / 4096 * 4096;
    auto next = taken_.lower_bound(at);
    if (next != taken_.begin() && std::prev(next)->second >= at) at = std::prev(next)->second + 1;
    // `next` is the first taken piece behind `at`.
    while (at <= range.last && bytes - 1 <= range.last - at) {
      if (next == taken_.end() || next->first > at + (bytes - 1)) {
        taken_[at] = at + (bytes - 1);
        return at;
      }
      at = next->second + 1;
      ++next;
    }
  }
  return 0;
}

void iova_allocator::give_back(std::uint64_t first) { taken_.erase(first); }

}  // namespace gpufs::nvme_host
