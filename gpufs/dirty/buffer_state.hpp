// The state of a write buffer on the device, and the words and bytes that belong to it.
#pragma once

#include <gpufs/device.hpp>
#include <gpufs/dirty/sizes.hpp>
#include <gpufs/fs_ref.hpp>
#include <gpufs/rpc/write_format.hpp>

#include <cstddef>
#include <cstdint>

namespace gpufs::dirty {

/// values of buffer_state::owner; any other is 1 + frame
inline constexpr std::uint32_t buffer_free = 0;
inline constexpr std::uint32_t buffer_taken = 0xffffffffu;
inline constexpr std::uint32_t frame_locked = 1u << 31;

/// State of a write buffer, in GPU memory. The lock of the buffer's frame protects all members but
/// `owner`.
struct buffer_state {
  std::uint32_t owner;
  std::uint16_t ranges;
  std::uint16_t urgent;    ///< 1: posts hand the page to write-back at once, until it is clean
  std::uint64_t sequence;  ///< as last posted
  std::uint64_t version;   ///< of the page
  std::uint64_t page;
  /// copy of the pinned header's list, which is quick to read
  rpc::byte_range range[rpc::most_ranges];
};
static_assert(sizeof(buffer_state) == buffer_state_bytes);

__device__ __forceinline__ atomic_ref<std::uint64_t, scope::system> posted_word(
    fs_ref const& fs, std::uint32_t buffer) {
  return atomic_ref<std::uint64_t, scope::system>(fs.link.shared.writes.posted[buffer]);
}
__device__ __forceinline__ atomic_ref<std::uint64_t, scope::system> written_word(
    fs_ref const& fs, std::uint32_t buffer) {
  return atomic_ref<std::uint64_t, scope::system>(fs.link.shared.writes.written[buffer]);
}
__device__ __forceinline__ std::byte* buffer_bytes(fs_ref const& fs, std::uint32_t buffer) {
  return fs.link.shared.writes.bytes + (std::uint64_t(buffer) << fs.cache.page_shift);
}
__device__ __forceinline__ atomic_ref<std::uint32_t, scope::device> frame_buffer(
    fs_ref const& fs, std::uint32_t frame) {
  return atomic_ref<std::uint32_t, scope::device>(fs.writes.frame_buffers[frame]);
}

}  // namespace gpufs::dirty
