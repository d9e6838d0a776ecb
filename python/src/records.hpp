// The kernels that move records between a file and device memory.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/fs_ref.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::python {

/// Records of one size at any offsets of a file, and the memory that they lie in one after the
/// other. All pointers are the device's.
struct record_job {
  fs_ref fs;
  int fd = -1;
  std::uint64_t const* offsets = nullptr;  ///< in bytes
  std::uint64_t count = 0;
  std::uint64_t size = 0;  ///< of a record, in bytes
  std::byte* data = nullptr;
  /// The least of failure_of(), ~0 while there is none.
  std::uint64_t* failure = nullptr;
  /// Not 0: warps stop soon.
  std::uint64_t* stop = nullptr;
};

/// Bytes that a file may have.
inline constexpr std::uint64_t most_file_bytes = std::uint64_t{1} << 48;

/// A record could not be moved: its number, and an errno, or one of these. `lies_outside`: of the
/// bytes that a file may have.
inline constexpr std::uint64_t came_short = 0xffff, lies_outside = 0xfffe;
constexpr std::uint64_t failure_of(std::uint64_t record, std::uint64_t code) {
  return record << 16 | code;
}

/// Most records of a job, as failure_of() counts them.
inline constexpr std::uint64_t most_records = (std::uint64_t{1} << 48) - 1;

/// The widest word, of up to 32 bytes, that `bits` is a multiple of. `bits` is the union of the
/// record's size, all offsets and the address of the data.
constexpr unsigned word_of(std::uint64_t bits) {
  unsigned word = 1;
  while (word < 32 && bits % (word * 2) == 0) word *= 2;
  return word;
}

/// Puts a kernel on `on` that reads the records into `data`. `word`: as word_of(), 0 if unknown.
/// Throws device_error.
///
/// Records of up to half a page are read as words of an array, which brings in less than their
/// pages where the file is registered. Larger records are read by gread, each by a warp.
void launch_gather(stream& on, record_job const& job, unsigned word, std::uint64_t page_size);

/// Puts a kernel on `on` that writes `data` to the records. Throws device_error.
void launch_scatter(stream& on, record_job const& job);

/// Loads the kernels, before any code waits for a running kernel. Throws device_error.
void load_record_kernels();

}  // namespace gpufs::python
