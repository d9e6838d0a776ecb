// Memory that a controller can reach.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace gpufs::nvme_host {

/// Maps memory for a controller. Any thread calls.
class dma_space {
 public:
  virtual ~dma_space() = default;

  /// Lets the controller reach `bytes` bytes at `memory`; both are multiples of 4096. Returns the
  /// address by which it does. Throws std::system_error with the remedy.
  virtual std::uint64_t map(std::byte* memory, std::uint64_t bytes) = 0;

  /// Takes back what map() gave for `memory`. The controller no longer accesses it afterwards, or
  /// has been reset before.
  virtual void unmap(std::byte* memory, std::uint64_t bytes) noexcept = 0;
};

/// Gives zeroed memory, aligned to 4096 bytes, that host and device reach at one address. Throws if
/// there is none.
using memory_source = std::function<std::shared_ptr<std::byte>(std::uint64_t bytes)>;

/// Anonymous pages of this process. For controllers whose driver runs on the host.
[[nodiscard]] memory_source anonymous_memory();

/// Zeroed memory that a controller reaches, until this object ends.
class dma_memory {
 public:
  dma_memory() = default;
  /// `bytes` > 0 are rounded up to whole pages. `space` outlives this object.
  dma_memory(dma_space& space, memory_source const& source, std::uint64_t bytes);
  ~dma_memory();
  dma_memory(dma_memory&& other) noexcept;
  dma_memory& operator=(dma_memory&& other) noexcept;

  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// The address of the first byte for the controller.
  [[nodiscard]] std::uint64_t bus() const { return bus_; }

  /// Gives up the memory without freeing it, for a controller that does not stop. It is unmapped:
  /// behind an IOMMU the controller reaches it no more.
  void leak() noexcept;

 private:
  /// Memory that is leaked, so that it can be found, by leak checkers, too.
  struct leaked {
    std::shared_ptr<std::byte> memory;
    leaked* next = nullptr;
  };

  void give_back() noexcept;

  dma_space* space_ = nullptr;
  std::shared_ptr<std::byte> memory_;
  std::unique_ptr<leaked> if_leaked_;  // as leak() can ask for no memory
  std::uint64_t bytes_ = 0;
  std::uint64_t bus_ = 0;
};

}  // namespace gpufs::nvme_host
