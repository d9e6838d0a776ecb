// A link to a drive that vfio-pci holds.
#pragma once

#include <nvme-host/controller_link.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gpufs::nvme_host {

/// A file descriptor that is closed at the end.
class owned_fd {
 public:
  owned_fd() = default;
  explicit owned_fd(int fd) : fd_{fd} {}
  ~owned_fd();
  owned_fd(owned_fd&& other) noexcept;
  owned_fd& operator=(owned_fd&& other) noexcept;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_ = -1;
};

/// The registers of a device, mapped until the end.
class mapped_registers {
 public:
  mapped_registers() = default;
  /// `base`: what mmap() gave for `bytes` bytes.
  mapped_registers(void* base, std::uint64_t bytes)
      : view_{static_cast<std::uint32_t*>(base), bytes} {}
  ~mapped_registers();
  mapped_registers(mapped_registers&& other) noexcept;
  mapped_registers& operator=(mapped_registers&& other) noexcept;
  [[nodiscard]] register_file view() const { return view_; }

 private:
  register_file view_;
};

/// Bus addresses that an IOMMU takes, both ends included.
struct iova_range {
  std::uint64_t first;
  std::uint64_t last;
};

/// Gives bus addresses out of ranges. One thread at a time calls.
class iova_allocator {
 public:
  /// The first 64 KiB of all addresses are never given.
  explicit iova_allocator(std::vector<iova_range> ranges);
  /// Returns the lowest free address for `bytes` > 0 bytes, a multiple of 4096, or 0 if there is
  /// none.
  [[nodiscard]] std::uint64_t take(std::uint64_t bytes);
  void give_back(std::uint64_t first);

 private:
  std::vector<iova_range> ranges_;
  std::map<std::uint64_t, std::uint64_t> taken_;  // first -> last
};

/// Memory that a drive reaches through an IOMMU of type 1.
class vfio_space final : public dma_space {
 public:
  /// `container` has its IOMMU set, and outlives this object.
  explicit vfio_space(int container);
  std::uint64_t map(std::byte* memory, std::uint64_t bytes) override;
  void unmap(std::byte* memory, std::uint64_t bytes) noexcept override;

 private:
  int container_;
  std::mutex mutex_;
  iova_allocator addresses_;
  std::map<std::byte*, std::uint64_t> mapped_;
};

/// The drive at a PCI address such as 0000:03:00.0, through the group interface of vfio. It works
/// with an IOMMU only. Nobody else may use the drive.
class vfio_link final : public controller_link {
 public:
  /// Throws std::system_error with the remedy.
  explicit vfio_link(std::string const& device);
  vfio_link(vfio_link const&) = delete;
  vfio_link& operator=(vfio_link const&) = delete;

  [[nodiscard]] register_file registers() const override { return registers_.view(); }
  [[nodiscard]] dma_space& memory() override { return *space_; }

 private:
  void open_device(std::string const& device);
  void map_registers(std::string const& device);
  void set_command_register(std::string const& device) const;

  owned_fd container_;
  owned_fd group_;
  owned_fd device_;
  std::unique_ptr<vfio_space> space_;
  mapped_registers registers_;
};

}  // namespace gpufs::nvme_host
