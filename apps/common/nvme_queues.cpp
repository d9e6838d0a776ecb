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

std::unique_ptr<nvme_host::doorbell_relay> relay_doorbells(
    std::vector<nvme::queue_pair_place>& places) {
  std::vector<nvme_host::relayed_doorbell> all;
  for (auto const& each : places) {
    all.push_back({each.sq_doorbell});
    all.push_back({each.cq_doorbell});
  }
  auto relay = std::make_unique<nvme_host::doorbell_relay>(all, kernel_memory());
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i].sq_doorbell = relay->word(2 * i);
    places[i].cq_doorbell = relay->word(2 * i + 1);
  }
  return relay;
}

}  // namespace gpufs::apps
