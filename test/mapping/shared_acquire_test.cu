// What acquire() makes ready stays ready for system calls, which do not wait for bytes.
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>

#include <doctest/doctest.h>

#include <cstdint>

#include <fcntl.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

TEST_CASE("acquire: blocks that were written before stay ready, however many others are written") {
  constexpr std::uint64_t block = 4096;
  mapping_config settings;
  settings.coherence_block = block;
  settings.rolling_size = 2;
  shared_memory memory(settings);
  mapping m = memory.allocate(16 * block, {.protocol = coherence_protocol::rolling});
  auto* const bytes = m.as<char volatile>();
  bytes[0] = 1;
  CHECK(m.acquire(0, block, access::write) == 0);
  for (std::uint64_t i = 3; i < 16; i += 3) bytes[i * block] = 1;
  CHECK(m.stats().eviction_blocks != 0);
  int const zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  CHECK(::read(zeros, m.data(), block) == ssize_t(block));
  ::close(zeros);
  CHECK(bytes[0] == 0);
  // Those that nobody has made ready are evicted as before, and all reach the device.
  launch(add_to_all, 1, 32, m.as<std::uint32_t>(), m.size() / 4, 1u);
  memory.synchronize();
  CHECK(bytes[0] == 1);
  CHECK(bytes[3 * block] == 2);
}
