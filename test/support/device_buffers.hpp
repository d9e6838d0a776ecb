// What suites of the device layer share: buffers made from and turned into host values, a wait.
#pragma once

#include <gpufs/device.hpp>

#include <cstdint>
#include <vector>

namespace gpufs::test {

template <class T>
buffer<T> zeroed(std::uint64_t count) {
  buffer<T> b(count);
  b.fill_zero();
  return b;
}

template <class T>
buffer<T> filled(std::vector<T> const& values) {
  buffer<T> b(values.size());
  b.copy_from_host(values.data(), values.size());
  return b;
}

template <class T>
std::vector<T> contents(buffer<T> const& b) {
  std::vector<T> host(b.size());
  b.copy_to_host(host.data(), host.size());
  return host;
}

/// The contents behind the work that this thread has launched.
template <class T>
std::vector<T> result_in(buffer<T> const& b) {
  this_thread_stream().synchronize();
  return contents(b);
}

/// Waits until another thread, block or the host has stored `value` with release.
__device__ inline void wait_for(std::uint32_t& word, std::uint32_t value) {
  unsigned state = 0;
  while (atomic_ref<std::uint32_t, scope::system>(word).load(memory_order_acquire) != value)
    backoff(state);
}

}  // namespace gpufs::test
