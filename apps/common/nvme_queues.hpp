// Queue pairs of an NVMe controller for kernels of programs.
#pragma once

#include <gpufs/nvme/queue_group.hpp>

#include <nvme-host/control_plane.hpp>
#include <nvme-host/doorbell_relay.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace gpufs::apps {

/// Memory that kernels and controllers reach.
[[nodiscard]] nvme_host::memory_source kernel_memory();

/// Makes queue pairs 1 to `count` of a controller that is up. Throws as create_queue_pair().
[[nodiscard]] std::vector<nvme::queue_pair_place> make_queue_pairs(nvme_host::control_plane& plane,
                                                                   std::uint32_t count,
                                                                   std::uint32_t depth);

/// Has a thread pass on the doorbells of queue pairs: kernels ring those that the places have
/// afterwards. It ends before the queue pairs. Throws as doorbell_relay.
[[nodiscard]] std::unique_ptr<nvme_host::doorbell_relay> relay_doorbells(
    std::vector<nvme::queue_pair_place>& places);

}  // namespace gpufs::apps
