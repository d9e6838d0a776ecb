// Host values brought to the device.
#pragma once

#include <gpufs/device.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace gpufs::apps {

/// A buffer with the values; with room for one if there are none. Throws device_error.
template <class T>
[[nodiscard]] buffer<T> to_device(std::vector<T> const& values) {
  buffer<T> b(std::max<std::size_t>(values.size(), 1));
  b.copy_from_host(values.data(), values.size());
  return b;
}

}  // namespace gpufs::apps
