// A kernel takes an object, and leaves its bytes as they are.
#pragma once

#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>

#include <cstdint>

namespace gpufs::test {

/// A kernel may read and write the object. So its newest bytes are the device's afterwards.
inline void use_by_kernel(shared_memory& memory, mapping const& m) {
  shared_call call;
  call.reads_writes(m);
  auto* const words = m.as<std::uint32_t>();
  launch(call, mix_words, 1, 32, words, words, 0, 0, 0);
  memory.synchronize();
}

}  // namespace gpufs::test
