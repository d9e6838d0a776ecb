// A planted bug: the CPU writes to a shared object while a call uses it. ThreadSanitizer must
// report it on the emulated device. With the argument `clean` the CPU waits for the call first.
#include <gpufs/mapping.hpp>

#include <cstdint>
#include <cstring>

namespace {

__global__ void add_one(std::uint32_t* words) { words[threadIdx.x] += 1; }

}  // namespace

int main(int count, char** arguments) {
  bool const is_clean = count > 1 && std::strcmp(arguments[1], "clean") == 0;
  gpufs::shared_memory memory;
  gpufs::mapping const m = memory.allocate(4096);
  auto* const words = m.as<std::uint32_t>();
  words[0] = 1;
  gpufs::launch(add_one, 1, 32, words);
  if (is_clean) memory.synchronize();
  words[0] += 5;
  memory.synchronize();
  return !is_clean || words[0] == 7 ? 0 : 1;
}
