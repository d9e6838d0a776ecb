// How much memory the emulated device has for shared objects.
#pragma once

#include <cstdint>

namespace gpufs::emulated {

/// Takes device memory. Any thread calls. Throws device_error: less is left.
void take_memory(std::uint64_t bytes);
/// Gives back what was taken.
void give_memory(std::uint64_t bytes) noexcept;
/// Bytes that are left.
[[nodiscard]] std::uint64_t free_memory();

}  // namespace gpufs::emulated
