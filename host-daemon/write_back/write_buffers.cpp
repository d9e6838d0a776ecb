// Write buffers by number.
#include <host-daemon/write_back/write_buffers.hpp>

#include <stdexcept>
#include <utility>

namespace gpufs::daemon {

write_buffers::write_buffers(std::vector<rpc::write_region> regions)
    : regions_{std::move(regions)}, ended_(regions_.size()) {
  for (auto const& r : regions_) {
    if (r.count == 0) continue;
    if (count_ != 0 && r.page_shift != page_shift_)
      throw std::invalid_argument{"daemon: endpoints whose write buffers differ in page size"};
    page_shift_ = r.page_shift;
    count_ += std::uint32_t(r.count);
  }
}

void write_buffers::store_error(std::uint32_t write_index, int error) const noexcept {
  for (auto const& r : regions_)
    if (r.count != 0)
      word{r.errors[write_index - 1]}.store(std::uint64_t(error), std::memory_order_seq_cst);
}

// Pairs with ended(): what the caller knows of the endpoint's kernels precedes our next look at
// its buffers.
void write_buffers::end(std::size_t endpoint) noexcept {
  ended_[endpoint].store(true, std::memory_order_release);
}

bool write_buffers::ended(std::uint32_t i) const noexcept {
  return ended_[find(i).endpoint].load(std::memory_order_acquire);
}

}  // namespace gpufs::daemon
