// The software controller as the controller under test. The cases are in conformance_*.cpp.
#include <test/nvme/conformance.hpp>
#include <test/nvme/pattern.hpp>
#include <test/nvme/pinned_memory.hpp>

#include <nvme-controller/controller.hpp>
#include <nvme-host/software.hpp>

namespace gpufs::test {

nvme_host::controller_link& conformance_link() {
  static auto const disk = [] {
    auto made = std::make_shared<nvme_controller::memory_namespace>(pattern_blocks * pattern_lba,
                                                                    pattern_lba);
    fill_pattern(made->bytes(), 0);
    return made;
  }();
  // Kernels ring the doorbells among the registers.
  static nvme_host::software_link link{
      {.namespaces = {disk}, .threads = 2},
      device_available() ? pinned_memory() : nvme_host::anonymous_memory(),
      std::uint64_t{1} << 44};
  return link;
}

conformance_traits const& controller_traits() {
  static conformance_traits const traits{.unmapped_status = nvme::status::data_transfer_error,
                                         .missing_cq_status = nvme::status::invalid_queue_id};
  return traits;
}

}  // namespace gpufs::test
