// What acquire() makes ready stays ready for system calls, which do not wait for bytes.
#include <gpufs/mapping.hpp>

#include <test/mapping/beside_thread.hpp>
#include <test/mapping/budgets.hpp>
#include <test/mapping/held_kernels.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/memory_file.hpp>
#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

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

TEST_CASE("acquire: a launch that begins while it waits does not undo it") {
  constexpr std::uint64_t chunk = 2 << 20, chunks = 8, count = 16 << 10;
  scratch_folder const folder;
  auto settings = tight(chunk, 0);
  settings.spill_dir = folder.path();
  shared_memory memory(settings);
  mapping m = memory.allocate(count * 4);
  mapping const other = memory.allocate(chunks * chunk);
  auto const add_to_chunk = [&](std::uint64_t i) {
    shared_call call;
    call.reads_writes(other, i * chunk, chunk);
    launch(call, add_to_all, 1, 32, other.as<std::uint32_t>() + i * chunk / 4, chunk / 4, 1u);
  };
  handshake with;
  int result = 1;
  {
    beside_thread reader([&] { result = m.acquire(0, m.size(), access::read); });
    {
      shared_call call;
      call.writes(m);
      launch(call, store_in_halves, 1, 1, m.as<std::uint32_t>(), count, 5u, with.data());
    }
    with.wait_for_kernel(1);
    reader.go_as_far_as_it_can();
    CHECK(!reader.is_done());
    {
      shared_call call;
      call.reads_writes(m);
      launch(call, add_to_all, 1, 32, m.as<std::uint32_t>(), count, 1u);
    }
    with.let_go();
  }
  CHECK(result == 0);
  // Device memory and the host's are needed for others.
  add_to_chunk(0);
  for (std::uint64_t i = 1; i < chunks; ++i) other.as<std::uint32_t volatile>()[i * chunk / 4] = i;
  add_to_chunk(1);
  memory.synchronize();
  CHECK(m.tiers().away != 0);
  CHECK(memory.stats().spill_bytes != 0);
  memory_file const to;
  CHECK(::write(to.fd(), m.data(), m.size()) == ssize_t(m.size()));
  CHECK(to.content<std::uint32_t>() == std::vector<std::uint32_t>(count, 6));
  CHECK(m.stats().spill_bytes == 0);
  CHECK(other.as<std::uint32_t>()[chunk / 4] == 2);
}
