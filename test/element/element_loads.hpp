// Loads of chosen elements by the lanes of one warp, and what they must give.
#pragma once

#include <gpufs/gpufs.hpp>

#include <test/support/cache_state.hpp>
#include <test/support/device_buffers.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace gpufs::test {

inline constexpr std::uint64_t no_load = ~0ull;

/// In round r, lane l of the only warp loads element at[32 * r + l], unless that is no_load.
template <class T>
__global__ void load_rounds(fs_ref fs, int fd, std::uint64_t const* at, std::uint64_t rounds,
                            T* values, std::int32_t* errors) {
  io_context io(fs, cooperative_groups::this_thread_block());
  array<T const> const a(io, fd);
  for (std::uint64_t r = 0; r < rounds; ++r) {
    __syncwarp();
    std::uint64_t const n = 32 * r + lane_id();
    if (at[n] != no_load) values[n] = a[at[n]];
  }
  errors[lane_id()] = a.error();
}

template <class T>
struct loaded {
  std::vector<T> values;
  std::int32_t error;  ///< the lowest of all lanes
};

/// Loads elements as load_rounds() does.
template <class T>
loaded<T> load(filesystem& fs, int fd, std::vector<std::uint64_t> at) {
  at.resize((at.size() + 31) / 32 * 32, no_load);
  auto const device_at = filled(at);
  auto values = zeroed<T>(at.size());
  auto errors = zeroed<std::int32_t>(32);
  launch(load_rounds<T>, 1, 32, fs.ref(), fd, device_at.data(), at.size() / 32, values.data(),
         errors.data());
  auto const all = result_in(errors);
  CHECK(inspect(fs.ref()).problems == "");
  return {contents(values), *std::min_element(all.begin(), all.end())};
}

/// Number of the elements that differ from the file's bytes.
template <class T>
std::uint64_t differing(std::vector<T> const& values, std::vector<std::uint64_t> const& at,
                        std::vector<std::byte> const& bytes) {
  std::uint64_t count = 0;
  for (std::size_t n = 0; n < at.size(); ++n)
    count += at[n] != no_load &&
                     std::memcmp(&values[n], bytes.data() + at[n] * sizeof(T), sizeof(T)) != 0
                 ? 1
                 : 0;
  return count;
}

/// One lane loads these elements, one after the other.
inline std::vector<std::uint64_t> by_one_lane(std::vector<std::uint64_t> const& elements,
                                              unsigned lane = 0) {
  std::vector<std::uint64_t> at(32 * elements.size(), no_load);
  for (std::size_t n = 0; n < elements.size(); ++n) at[32 * n + lane] = elements[n];
  return at;
}

}  // namespace gpufs::test
