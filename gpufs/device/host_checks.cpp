// Checks of host calls, and other host code that is the same for both devices.
#include <gpufs/device/launch_check.hpp>
#include <gpufs/device/memory.hpp>
#include <gpufs/device/shared_range.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace gpufs::device_memory {

void zero_pinned(void* memory, std::uint64_t bytes) noexcept {
  if (bytes != 0) std::memset(memory, 0, bytes);
}

std::uint64_t array_bytes(std::uint64_t count, std::uint64_t size, char const* what) {
  if (count > UINT64_MAX / size)
    throw std::length_error(std::string(what) + ": " + std::to_string(count) + " elements of " +
                            std::to_string(size) + " bytes do not fit 64 bits");
  return count * size;
}

void check_range(std::uint64_t offset, std::uint64_t count, std::uint64_t size, char const* what) {
  if (offset > size || count > size - offset)
    throw std::out_of_range(std::string(what) + ": elements " + std::to_string(offset) + " to " +
                            std::to_string(offset) + " + " + std::to_string(count) +
                            " of a buffer of " + std::to_string(size));
}

}  // namespace gpufs::device_memory

namespace gpufs::device_memory {

std::uint64_t longest_file() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return ~0ull;
  return limit.rlim_cur;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> data_of(int file, std::uint64_t at,
                                                             std::uint64_t bytes) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  for (auto const end = at + bytes; at < end;) {
    auto const first = ::lseek(file, off_t(at), SEEK_DATA);
    if (first < 0 && errno == ENXIO) return found;
    auto const hole = first < 0 ? -1 : ::lseek(file, first, SEEK_HOLE);
    if (hole < 0) {  // it does not tell: all of it
      found.emplace_back(at, end);
      return found;
    }
    if (std::uint64_t(first) >= end) return found;
    found.emplace_back(first, std::min<std::uint64_t>(end, hole));
    at = std::uint64_t(hole);
  }
  return found;
}

}  // namespace gpufs::device_memory

namespace gpufs::detail {

void check_launch(launch_options const& options, std::uint64_t most_dynamic_shared_bytes) {
  auto const shape = [](dim3 const& d) {
    return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z);
  };
  auto const within = [](dim3 const& d, unsigned x, unsigned y, unsigned z) {
    return d.x >= 1 && d.x <= x && d.y >= 1 && d.y <= y && d.z >= 1 && d.z <= z;
  };
  constexpr unsigned most_threads = 1024;
  if (!within(options.grid, 0x7fffffff, 0xffff, 0xffff))
    throw device_error("launch: grid " + shape(options.grid) +
                       ": must be from 1x1x1 to 2147483647x65535x65535");
  if (!within(options.block, most_threads, most_threads, 64) ||
      options.block.x * options.block.y * options.block.z > most_threads)
    throw device_error("launch: block " + shape(options.block) +
                       ": must be from 1x1x1 to 1024x1024x64, of at most 1024 threads");
  if (options.dynamic_shared_bytes > most_dynamic_shared_bytes)
    throw device_error("launch: dynamic_shared_bytes " +
                       std::to_string(options.dynamic_shared_bytes) + ": at most " +
                       std::to_string(most_dynamic_shared_bytes) + " here");
}

}  // namespace gpufs::detail
