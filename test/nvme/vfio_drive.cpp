// The drive that vfio-pci holds as the controller under test. GPUFS_NVME_DEVICE names it.
#include <gpufs/nvme/format.hpp>

#include <test/nvme/conformance.hpp>

#include <nvme-host/vfio.hpp>

#include <cstdlib>
#include <stdexcept>

namespace gpufs::test {

nvme_host::controller_link& conformance_link() {
  static nvme_host::vfio_link link = [] {
    char const* const device = std::getenv("GPUFS_NVME_DEVICE");
    if (device == nullptr) throw std::runtime_error{"GPUFS_NVME_DEVICE is not set"};
    return nvme_host::vfio_link{device};
  }();
  return link;
}

conformance_traits const& controller_traits() {
  // The IOMMU drops the bytes, and QEMU's controller is not told.
  static conformance_traits const traits{.unmapped_status = nvme::status::success,
                                         .missing_cq_status = nvme::status::invalid_cq};
  return traits;
}

}  // namespace gpufs::test
