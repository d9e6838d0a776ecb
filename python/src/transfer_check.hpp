// What is checked before a transfer starts, and the names of records in errors.
#pragma once

#include <python/src/tensor.hpp>
#include <python/src/transfer.hpp>

#include <cstdint>
#include <string>

namespace gpufs::python {

#if defined(GPUFS_EMULATED)
constexpr bool host_is_in_reach = true;
#else
constexpr bool host_is_in_reach = false;
#endif

/// The elements of a tensor of offsets.
[[nodiscard]] std::uint64_t const* numbers_of(tensor const& offsets);

/// The number of those elements. Throws TypeError unless they are int64 or uint64.
[[nodiscard]] std::uint64_t records_in(tensor const& offsets);

/// Names a record. `kind`: the offset's, which says whether it has a sign.
[[nodiscard]] std::string place_of(std::uint64_t record, std::uint64_t offset, element_kind kind);

/// Checks that records at `offsets`, in host memory, lie within the file, or for a scatter within
/// the bytes that a file may have. `name`: as for throw_file_error().
/// Returns all bits of the offsets. The caller holds the GIL, which is given away meanwhile.
/// Throws IndexError, OSError.
std::uint64_t check_records(filesystem& files, transfer_request const& of, tensor const& offsets,
                            std::string const& name);

}  // namespace gpufs::python
