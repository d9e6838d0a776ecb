// Statuses that tests have a controller answer with: each row of the table of errors.
#pragma once

#include <gpufs/nvme/format.hpp>

#include <cstdint>

namespace gpufs::test {

/// Words of completions that are not worth another try.
inline constexpr std::uint16_t final_statuses[] = {
    nvme::status::invalid_opcode,
    nvme::status::invalid_field,
    nvme::status::data_transfer_error,
    nvme::status::power_loss,
    nvme::status::internal_error,
    nvme::status::aborted,
    nvme::status::sq_deleted,
    nvme::status::invalid_namespace,
    nvme::status::invalid_prp_offset,
    nvme::status::write_protected,
    nvme::status::lba_out_of_range,
    nvme::status::capacity_exceeded,
    nvme::status::namespace_not_ready | nvme::status::do_not_retry,
    nvme::status::conflicting_attributes,
    nvme::status::write_to_read_only,
    nvme::status::write_fault,
    nvme::status::unrecovered_read,
    nvme::status::guard_check,
    nvme::status::application_tag_check,
    nvme::status::reference_tag_check,
    nvme::status::compare_failure,
    nvme::status::access_denied,
    0x370 | nvme::status::do_not_retry,
    0x7ff};

}  // namespace gpufs::test
