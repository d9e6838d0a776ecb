// What a caller is told about a command's status.
#pragma once

#include <gpufs/base/host_device.hpp>
#include <gpufs/nvme/format.hpp>

#include <cerrno>
#include <cstdint>

namespace gpufs::nvme {

/// Which command a status answers: an LBA out of range means something else to a write.
enum class direction : std::uint8_t { read, write };

/// Returns 0 or the -errno for a status code (type << 8 | code). Codes that the table does not name
/// are -EIO. 082h and those of the path (3xxh) may be tried again, if do_not_retry is not set.
GPUFS_HOST_DEVICE constexpr std::int32_t error_of(std::uint16_t code, direction d) {
  switch (code) {
    case status::success: return 0;
    case status::invalid_opcode: return -EOPNOTSUPP;
    case status::invalid_field:
    case status::invalid_prp_offset:
    case status::conflicting_attributes: return -EINVAL;
    case status::aborted: return -ETIMEDOUT;
    case status::invalid_namespace: return -ENXIO;
    case status::write_protected:
    case status::write_to_read_only: return -EROFS;
    case status::lba_out_of_range: return d == direction::write ? -ENOSPC : -EIO;
    case status::capacity_exceeded: return -ENOSPC;
    case status::guard_check:
    case status::application_tag_check:
    case status::reference_tag_check: return -EILSEQ;
    case status::access_denied: return -EACCES;
    default: return -EIO;
  }
}

/// Whether the driver itself made a mistake: such answers are counted.
GPUFS_HOST_DEVICE constexpr bool own_fault(std::uint16_t code) {
  return code == status::invalid_field || code == status::invalid_prp_offset ||
         code == status::conflicting_attributes;
}

/// Whether a command with this status may succeed if it is sent again.
GPUFS_HOST_DEVICE constexpr bool worth_retry(std::uint16_t code, bool do_not_retry) {
  return !do_not_retry && (code == status::namespace_not_ready || code >> 8 == 3);
}

/// Most times that such a command is sent again.
inline constexpr unsigned most_retries = 3;

}  // namespace gpufs::nvme
