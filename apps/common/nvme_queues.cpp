#include <apps/common/nvme_queues.hpp>

#include <memory>

namespace gpufs::apps {

nvme_host::memory_source kernel_memory() {
  return [](std::uint64_t bytes) {
    auto owner = std::make_shared<pinned_buffer<std::byte>>(bytes);
    owner->fill_zero();
    return std::shared_ptr<std::byte>{owner, owner->data()};
  };
}

std::vector<nvme::queue_pair_place> make_queue_pairs(nvme_host::control_plane& plane,
                                                     std::uint32_t count, std::uint32_t depth) {
  std::vector<nvme::queue_pair_place> places;
  for (std::uint32_t id = 1; id <= count; ++id) {
    auto const& made = plane.create_queue_pair(static_cast<std::uint16_t>(id), depth);
    places.push_back({id, depth, made.sq, made.cq, made.sq_doorbell, made.cq_doorbell});
  }
  return places;
}

}  // namespace gpufs::apps
