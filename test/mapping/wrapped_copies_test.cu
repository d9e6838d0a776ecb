// What wrapped copies of CUDA do with objects, by the internal calls that the wrappers make. On the
// emulated device a kernel stands for CUDA's copy.
#include <gpufs/mapping.hpp>
#include <gpufs/mapping/quiet_lock.hpp>
#include <gpufs/owner/shared_launches.hpp>

#include <test/mapping/kernels.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10;
constexpr coherence_protocol protocols[] = {coherence_protocol::batch, coherence_protocol::lazy,
                                            coherence_protocol::rolling};

__global__ void copy_words(std::uint32_t* to, std::uint32_t const* from, std::uint64_t count) {
  for (auto i = thread_number(); i < count; i += thread_count()) to[i] = from[i];
}

/// As the wrapper of cudaMemcpyAsync().
void copy(std::uint32_t* to, std::uint32_t const* from, std::uint64_t count) {
  owner::shared_copy const handed(this_thread_stream(), {to, count * 4}, {from, count * 4});
  if (to != from) launch(copy_words, 4, 64, to, from, count);
}

map_options with(coherence_protocol p) {
  map_options o;
  o.protocol = p;
  o.block = 64 * kibi;
  return o;
}

void count_up(mapping const& m, std::uint32_t first) {
  auto* const words = m.as<std::uint32_t>();
  std::iota(words, words + m.size() / 4, first);
}

}  // namespace

TEST_CASE("wrapped copies: the newest bytes of the source, and a target at home on the device") {
  constexpr std::uint64_t count = 100'000;
  for (auto const protocol : protocols) {
    CAPTURE(int(protocol));
    shared_memory memory;
    auto const from = memory.allocate(count * 4, with(protocol));
    auto const to = memory.allocate(count * 4, with(protocol));
    auto const other = memory.allocate(count * 4, with(protocol));
    count_up(from, 5);
    count_up(to, 900);
    count_up(other, 1);
    copy(to.as<std::uint32_t>() + 100, from.as<std::uint32_t const>() + 7, 50'000);
    memory.synchronize();
    auto const* const got = to.as<std::uint32_t>();
    bool right = true;
    for (std::uint64_t i = 0; i < count; ++i) {
      bool const is_copied = i >= 100 && i < 50'100;
      right = right && got[i] == (is_copied ? i - 100 + 7 + 5 : i + 900);
    }
    CHECK(right);
    // The source is on both sides, and others stay with the CPU.
    CHECK(from.stats().bytes_d2h == 0);
    CHECK(other.stats().release_bytes + other.stats().batch_h2d_bytes == 0);
    CHECK(memory.stats().calls == 1);
    CHECK(memory.stats().declared_calls == 1);
  }
}

TEST_CASE("wrapped copies: of blocks, those that are named") {
  shared_memory memory({.rolling_size = 100});
  constexpr std::uint64_t block = 64 * kibi, words = block / 4;
  auto const from = memory.allocate(8 * block, with(coherence_protocol::rolling));
  auto const to = memory.allocate(8 * block, with(coherence_protocol::rolling));
  count_up(from, 0);
  copy(to.as<std::uint32_t>() + 2 * words, from.as<std::uint32_t const>() + 2 * words, 2 * words);
  memory.synchronize();
  CHECK(from.stats().release_blocks == 2);
  CHECK(to.stats().release_blocks == 0);
  CHECK(to.as<std::uint32_t>()[4 * words] == 0);
  CHECK(to.stats().bytes_d2h == 0);
  CHECK(to.as<std::uint32_t>()[2 * words + 3] == 2 * words + 3);
  CHECK(to.stats().fault_read_blocks == 1);
}

TEST_CASE("wrapped copies: a source that is the target is only sent") {
  shared_memory memory;
  auto const m = memory.allocate(256 * kibi, with(coherence_protocol::rolling));
  count_up(m, 3);
  copy(m.as<std::uint32_t>(), m.as<std::uint32_t const>(), m.size() / 4);
  memory.synchronize();
  auto const s = m.stats();
  CHECK(s.bytes_h2d == 256 * kibi);
  CHECK(m.as<std::uint32_t>()[17] == 20);
  CHECK(m.stats().bytes_d2h == 0);
}

TEST_CASE("wrapped copies: plain memory on one side or on both, and no address space") {
  buffer<std::uint32_t> plain(1000);
  plain.fill_zero();
  { owner::shared_copy const none(this_thread_stream(), {plain.data(), 4000}, {nullptr, 0}); }
  shared_memory memory, second;
  auto const m = memory.allocate(4000), n = second.allocate(4000);
  count_up(m, 9);
  copy(plain.data(), m.as<std::uint32_t const>(), 1000);
  copy(n.as<std::uint32_t>(), plain.data(), 1000);
  this_thread_stream().synchronize();
  std::vector<std::uint32_t> got(1000);
  plain.copy_to_host(got.data(), 1000);
  CHECK(std::memcmp(got.data(), m.data(), 4000) == 0);
  CHECK(std::memcmp(got.data(), n.data(), 4000) == 0);
  copy(m.as<std::uint32_t>(), n.as<std::uint32_t const>(), 1000);  // across address spaces
  memory.synchronize();
  CHECK(std::memcmp(m.data(), n.data(), 4000) == 0);
}

TEST_CASE("wrapped copies: bytes beyond the object are not ours; objects may have gone") {
  shared_memory memory;
  auto m = memory.allocate(4000);
  auto* const address = m.as<std::uint32_t>();
  address[999] = 1;
  { owner::shared_copy const more(this_thread_stream(), {nullptr, 0}, {address, 1 << 30}); }
  CHECK(m.stats().release_bytes == 4000);
  this_thread_stream().synchronize();
  REQUIRE(m.unmap() == 0);
  { owner::shared_copy const gone(this_thread_stream(), {address, 4000}, {address + 1, 400}); }
  CHECK(memory.stats().calls == 1);
  CHECK(owner::space_at(address) != nullptr);
  CHECK(owner::space_at(&memory) == nullptr);
}

TEST_CASE("wrapped launches: a launch within a launch of ours is handed nothing more") {
  shared_memory memory;
  auto const a = memory.allocate(4000), b = memory.allocate(4000);
  CHECK(!shared::is_in_library());
  {
    shared::no_signals const quiet;  // as within launch()
    CHECK(shared::is_in_library());
    launch(copy_words, 1, 32, b.as<std::uint32_t>(), b.as<std::uint32_t const>(), std::uint64_t(0));
  }
  CHECK(!shared::is_in_library());
  memory.synchronize();
  CHECK(memory.stats().calls == 0);
  launch(copy_words, 1, 32, b.as<std::uint32_t>(), a.as<std::uint32_t const>(),
         std::uint64_t(1000));
  memory.synchronize();
  CHECK(memory.stats().calls == 1);
}

TEST_CASE("wrapped copies: from managed memory to other objects, and back") {
  constexpr std::uint64_t count = 100'000;
  for (auto const protocol : protocols) {
    CAPTURE(int(protocol));
    shared_memory memory;
    auto managed = with(protocol);
    managed.backing = memory_backing::managed;
    auto const a = memory.allocate(count * 4, with(protocol));
    auto const m = memory.allocate(count * 4, managed);
    count_up(a, 5);
    count_up(m, 900);
    copy(a.as<std::uint32_t>() + 7, m.as<std::uint32_t>(), 1000);
    copy(m.as<std::uint32_t>() + 2000, a.as<std::uint32_t>(), 1000);
    memory.synchronize();
    auto const* const in_a = a.as<std::uint32_t>();
    auto const* const in_m = m.as<std::uint32_t>();
    CHECK(in_a[6] == 11);
    CHECK(in_a[7] == 900);
    CHECK(in_a[1006] == 1899);
    CHECK(in_a[1007] == 1012);
    CHECK(in_m[1999] == 2899);
    CHECK(in_m[2000] == 5);
    CHECK(in_m[2007] == 900);
    CHECK(in_m[2999] == 1892);
    CHECK(in_m[3000] == 3900);
    CHECK(m.stats().calls == 2);
    CHECK(a.stats().calls == 2);
    CHECK(memory.stats().calls == 2);
  }
}
