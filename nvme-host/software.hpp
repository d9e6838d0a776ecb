// A link to a software controller in this process.
#pragma once

#include <nvme-controller/controller.hpp>
#include <nvme-host/controller_link.hpp>

#include <cstdint>

namespace gpufs::nvme_host {

/// Owns the controller and its registers. Bus addresses are addresses of this process, plus
/// `bus_offset`, a multiple of 4096. Tests give one, so that the two are not mistaken.
class software_link final : public controller_link {
 public:
  /// Throws as nvme_controller::controller, and what `memory` throws. Device code reaches the
  /// doorbells, so `memory` gives what it can reach.
  explicit software_link(nvme_controller::controller_options const& options,
                         memory_source const& memory = anonymous_memory(),
                         std::uint64_t bus_offset = 0);

  [[nodiscard]] register_file registers() const override;
  [[nodiscard]] dma_space& memory() override { return space_; }
  [[nodiscard]] bool is_stopping() const override { return controller_.is_stopping(); }
  [[nodiscard]] nvme_controller::controller& controller() { return controller_; }

 private:
  class space final : public dma_space {
   public:
    space(nvme_controller::controller& to, std::uint64_t offset) : to_{to}, offset_{offset} {}
    std::uint64_t map(std::byte* memory, std::uint64_t bytes) override;
    void unmap(std::byte* memory, std::uint64_t bytes) noexcept override;

   private:
    nvme_controller::controller& to_;
    std::uint64_t offset_;
  };

  std::shared_ptr<std::byte> registers_;
  nvme_controller::controller controller_;
  space space_;
};

}  // namespace gpufs::nvme_host
