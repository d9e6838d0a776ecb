// What buffer and pinned_buffer need on either device.
#include <cstring>

#include <gpufs/device.hpp>

namespace gpufs::detail {

void zero_pinned(void* memory, std::uint64_t bytes) noexcept {
  if (bytes != 0) std::memset(memory, 0, bytes);
}

std::uint64_t array_bytes(std::uint64_t count, std::uint64_t size, char const* what) {
  if (count > UINT64_MAX / size)
    throw std::length_error(std::string(what) + ": " + std::to_string(count) + " elements of " + std::to_string(size) +
                            " bytes do not fit 64 bits");
  return count * size;
}

void check_range(std::uint64_t offset, std::uint64_t count, std::uint64_t size, char const* what) {
  if (offset > size || count > size - offset)
    throw std::out_of_range(std::string(what) + ": elements " + std::to_string(offset) + " to " + std::to_string(offset) + " + " +
                            std::to_string(count) + " of a buffer of " + std::to_string(size));
}

}  // namespace gpufs::detail
