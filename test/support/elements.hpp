// What suites of elements of files share: files of values, and what kernels draw and count.
#pragma once

#include <gpufs/device.hpp>

#include <test/support/files.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace gpufs::test {

/// A file in the folder that has these values.
template <class T>
std::string file_of(scratch_folder const& folder, std::vector<T> const& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  auto path = folder / "elements";
  write_bytes(path, bytes);
  return path;
}

/// The values of a file from byte `offset` on.
template <class T>
std::vector<T> elements_in(std::string const& path, std::uint64_t offset = 0) {
  auto const bytes = pread_bytes(path, offset, ~0ull);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// Values that differ, from 0 on.
inline std::vector<std::uint64_t> counted_up(std::uint64_t count) {
  std::vector<std::uint64_t> values(count);
  for (std::uint64_t i = 0; i < count; ++i) values[i] = i * 0x9e3779b97f4a7c15ull;
  return values;
}

/// Adds 1 to `wrong` if something is bad. Any thread calls.
__device__ inline void count_if(bool bad, std::uint64_t* wrong) {
  if (bad) atomic_ref<std::uint64_t>(*wrong).fetch_add(1, memory_order_relaxed);
}

/// A random number of 31 bits, of a series that `random` holds.
__device__ inline std::uint64_t draw(std::uint64_t& random) {
  random = random * 6364136223846793005ull + 1442695040888963407ull;
  return random >> 33;
}

}  // namespace gpufs::test
