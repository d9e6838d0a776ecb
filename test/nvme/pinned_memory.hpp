// Memory for queues and data that kernels reach.
#pragma once

#include <gpufs/device.hpp>

#include <nvme-host/dma_space.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace gpufs::test {

inline nvme_host::memory_source pinned_memory() {
  return [](std::uint64_t bytes) {
    auto owner = std::make_shared<pinned_buffer<std::byte>>(bytes);
    owner->fill_zero();
    return std::shared_ptr<std::byte>{owner, owner->data()};
  };
}

}  // namespace gpufs::test
