// The ways in which kernels of the analytics programs get at their input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpufs::apps::analytics {

/// array     Each lane loads its elements by array<T>.
/// pointer   Each lane loads its elements through a held_ptr.
/// gread     Each warp greads pieces of up to 4 KiB into shared memory.
///
/// zerocopy  8 threads read the files into pinned memory. The kernel reads it over the bus.
/// managed   The same with memory that the driver moves. CUDA only.
/// copy      One thread reads each whole file, one copy brings it to the device.
/// pipeline  8 threads with two pinned pieces each bring the files to the device.
/// memory    The files are in device memory already: the kernel alone is timed.
/// tiles     vectorAdd only: tiles that are read, added and written at the same time.
enum class variant { array, pointer, gread, zerocopy, managed, copy, pipeline, memory, tiles };

[[nodiscard]] std::string_view name_of(variant v);

/// The names of variants, in order.
[[nodiscard]] std::vector<std::string> names_of(std::vector<variant> const& all);

/// The variant of that name. Throws usage_error if there is none.
[[nodiscard]] variant variant_named(std::string_view name);

/// Whether the kernel reads through a filesystem of gpufs.
[[nodiscard]] constexpr bool uses_filesystem(variant v) {
  return v == variant::array || v == variant::pointer || v == variant::gread;
}

}  // namespace gpufs::apps::analytics
