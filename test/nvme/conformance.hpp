// The conformance suite: what any NVMe controller does for its driver. The cases know a controller
// by its registers and its memory alone. A program that links them says which controller it is.
#pragma once

#include <nvme-host/controller_link.hpp>

#include <cstdint>

namespace gpufs::test {

/// The controller under test. Its namespace 1 has pattern_blocks blocks of pattern_lba bytes with
/// the pattern; what cases write to the last blocks may stay.
[[nodiscard]] nvme_host::controller_link& conformance_link();

/// How controllers may differ.
struct conformance_traits {
  /// Status of a transfer whose memory is not mapped. QEMU's controller says success: the IOMMU
  /// drops the bytes, and nobody tells it.
  std::uint16_t unmapped_status;
  /// Status of the deletion of a completion queue that does not exist. QEMU's controller says 100h,
  /// the specification 101h.
  std::uint16_t missing_cq_status;
};
[[nodiscard]] conformance_traits const& controller_traits();

}  // namespace gpufs::test
