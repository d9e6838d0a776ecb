// A software controller with one namespace, and memory, for tests of its commands.
#pragma once

#include <test/nvme/plain_queue.hpp>

#include <nvme-controller/controller.hpp>
#include <nvme-host/control_plane.hpp>
#include <nvme-host/software.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace gpufs::test {

/// A controller of one thread with one namespace, up, with a queue pair and memory.
struct controller_scene {
  nvme_host::software_link link;
  nvme_host::control_plane plane{link};
  nvme_host::dma_memory memory{link.memory(), nvme_host::anonymous_memory(), 1 << 20};

  explicit controller_scene(std::shared_ptr<nvme_controller::block_namespace> blocks,
                            std::shared_ptr<nvme_controller::fault_plan> faults =
                                std::make_shared<nvme_controller::fault_plan>())
      : link{{.namespaces = {std::move(blocks)}, .faults = std::move(faults)}} {
    plane.bring_up();
  }
  plain_queue queue(std::uint32_t depth = 16) {
    return plain_queue{plane.create_queue_pair(1, depth)};
  }
  [[nodiscard]] nvme::sqe transfer(nvme::opcode code, std::uint16_t cid, std::uint64_t lba,
                                   std::uint32_t blocks = 1) const {
    return nvme::make_transfer(code, cid, 1, {lba, blocks},
                               {memory.bus(), memory.bus() + nvme::page_bytes});
  }
};

}  // namespace gpufs::test
