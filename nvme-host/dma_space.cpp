#include <gpufs/nvme/format.hpp>

#include <nvme-host/dma_space.hpp>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include <sys/mman.h>

namespace gpufs::nvme_host {

memory_source anonymous_memory() {
  return [](std::uint64_t bytes) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw std::system_error{errno, std::generic_category(),
                              "nvme: no memory for queues, free some or use smaller queues"};
    auto const unmap = [bytes](std::byte* at) { ::munmap(at, bytes); };
    return std::shared_ptr<std::byte>{static_cast<std::byte*>(memory), unmap};
  };
}

dma_memory::dma_memory(dma_space& space, memory_source const& source, std::uint64_t bytes)
    : space_{&space}, bytes_{(bytes + nvme::page_bytes - 1) / nvme::page_bytes * nvme::page_bytes} {
  if_leaked_ = std::make_unique<leaked>();
  memory_ = source(bytes_);
  bus_ = space.map(memory_.get(), bytes_);
}

dma_memory::~dma_memory() { give_back(); }

dma_memory::dma_memory(dma_memory&& other) noexcept
    : space_{std::exchange(other.space_, nullptr)},
      memory_{std::move(other.memory_)},
      if_leaked_{std::move(other.if_leaked_)},
      bytes_{std::exchange(other.bytes_, 0)},
      bus_{std::exchange(other.bus_, 0)} {}

dma_memory& dma_memory::operator=(dma_memory&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  space_ = std::exchange(other.space_, nullptr);
  memory_ = std::move(other.memory_);
  if_leaked_ = std::move(other.if_leaked_);
  bytes_ = std::exchange(other.bytes_, 0);
  bus_ = std::exchange(other.bus_, 0);
  return *this;
}

void dma_memory::give_back() noexcept {
  if (memory_ != nullptr) space_->unmap(memory_.get(), bytes_);
  memory_ = nullptr;
}

void dma_memory::leak() noexcept {
  if (memory_ == nullptr) return;
  space_->unmap(memory_.get(), bytes_);
  static std::atomic<leaked*> all{nullptr};
  leaked* const mine = if_leaked_.release();
  mine->memory = std::move(memory_);
  mine->next = all.load(std::memory_order_relaxed);
  while (!all.compare_exchange_weak(mine->next, mine, std::memory_order_release)) {
  }
}

}  // namespace gpufs::nvme_host
