// Shared memory: which host memory of objects is pinned. What moves does not depend on it.
#include <gpufs/mapping.hpp>

#include <test/mapping/used_by_kernel.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/mman.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t mebi = 1 << 20;
constexpr std::uint64_t page = 4096, block = 64 << 10;
constexpr std::uint64_t piece = 2 * mebi;  // what is pinned at once

mapping_config pinning(std::uint64_t at_most) {
  mapping_config c;
  c.coherence_block = block;
  c.pinned_memory = at_most;
  return c;
}

void write_all(mapping const& m, std::uint32_t value) {
  for (std::uint64_t i = 0; i < m.size() / 4; ++i) m.as<std::uint32_t>()[i] = value;
}

std::uint64_t wrong(mapping const& m, std::uint32_t value) {
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < m.size() / 4; ++i) count += m.as<std::uint32_t>()[i] != value;
  return count;
}

/// Pages of a part of an object that have memory.
std::uint64_t has_memory(mapping const& m, std::uint64_t first, std::uint64_t bytes) {
  std::vector<unsigned char> of_pages(bytes / page);
  REQUIRE(::mincore(m.as<char>() + first, bytes, of_pages.data()) == 0);
  return std::uint64_t(
      std::ranges::count_if(of_pages, [](unsigned char p) { return (p & 1) != 0; }));
}

}  // namespace

TEST_CASE("shared pins: an object that is copied again and again is pinned once") {
  shared_memory memory(pinning(pinned_automatic));
  auto const m = memory.allocate(8 * mebi + 5000);
  for (std::uint32_t round = 1; round <= 10; ++round) {
    CAPTURE(round);
    write_all(m, round);
    use_by_kernel(memory, m);
    CHECK(wrong(m, round) == 0);
    // Whole pages of the host.
    auto const pinned = memory.stats().pinned_bytes;
    CHECK(pinned <= 8 * mebi + 8192);
    CHECK((round < 10 || pinned == 8 * mebi + 8192));
    CHECK(m.stats().pinned_bytes == pinned);
    CHECK(memory.stats().bytes_h2d == round * m.size());
    CHECK(memory.stats().bytes_d2h == round * m.size());
  }
  for (auto const& note : memory.notes()) CHECK(note.find("pinned_memory") == std::string::npos);
}

TEST_CASE("shared pins: what is copied once is not pinned") {
  shared_memory memory(pinning(pinned_automatic));
  for (std::uint64_t const bytes : {block, 10 * block, 8 * mebi}) {
    auto const m = memory.allocate(bytes);
    write_all(m, 1);
    use_by_kernel(memory, m);
    CHECK(m.stats().bytes_h2d == bytes);
  }
  CHECK(memory.stats().pinned_bytes == 0);
}

TEST_CASE("shared pins: not more than pinned_memory is pinned, and it is given back") {
  for (std::uint64_t const most : {std::uint64_t(0), piece, 2 * piece + mebi}) {
    CAPTURE(most);
    shared_memory memory(pinning(most));
    std::uint64_t const pieces = most / piece;
    for (std::uint32_t round = 1; round <= 3; ++round) {
      auto const m = memory.allocate(8 * mebi);
      for (std::uint32_t again = 0; again < 8; ++again) {
        write_all(m, round);
        use_by_kernel(memory, m);
        CHECK(wrong(m, round) == 0);
      }
      CHECK(memory.stats().pinned_bytes == round * pieces * piece);
      CHECK(m.stats().pinned_bytes == pieces * piece);
    }
  }
}

TEST_CASE("shared pins: pieces of which little is copied are pinned when that comes often") {
  shared_memory memory(pinning(pinned_automatic));
  auto m = memory.allocate(8 * mebi);
  constexpr unsigned rounds = 200;
  for (unsigned round = 0; round < rounds; ++round) {
    CHECK((round > 10 || m.stats().pinned_bytes == 0));
    // Backwards, since nothing is made ready ahead then.
    for (std::uint64_t at = m.size(); at != 0; at -= piece)
      m.as<char>()[at - piece + 5 * block] = 1;
    CHECK(m.prefetch_to_device(0, m.size()) == 0);
  }
  CHECK(m.stats().pinned_bytes == m.size());
  CHECK(m.stats().bytes_h2d == rounds * 4 * block);
}

TEST_CASE("shared pins: bytes ahead of a CPU thread get memory, and do not move") {
  for (std::uint64_t const of_block : {block, piece}) {
    CAPTURE(of_block);
    auto c = pinning(pinned_automatic);
    c.coherence_block = of_block;
    shared_memory memory(c);
    auto m = memory.allocate(16 * mebi);
    std::uint64_t const touched = of_block == block ? 2 : 1;
    for (std::uint64_t n = 0; n < touched; ++n) m.as<char>()[n * of_block] = 1;
    // As much as it has gone through, and a piece at most.
    std::uint64_t const ahead = std::min(touched * of_block, piece);
    wait_until([&] { return has_memory(m, touched * of_block, ahead) == ahead / page; }, "memory");
    m.as<char>()[14 * mebi] = 1;
    auto const end = touched * of_block + ahead;
    CHECK(has_memory(m, end, 14 * mebi - end) == 0);
    CHECK(m.stats().pinned_bytes == 0);
    // Two blocks may be written and not sent.
    CHECK(m.stats().bytes_h2d == (touched + 1 - 2) * of_block);
    CHECK(m.stats().bytes_d2h == 0);
  }
}

TEST_CASE("shared pins: what is given memory ahead has gone with its object") {
  // Objects end while memory is given to them. The next ones at the same addresses have zeros, and
  // all memory is free at the end.
  auto c = pinning(pinned_automatic);
  c.coherence_block = block;
  shared_memory memory(c);
  for (std::uint32_t round = 1; round <= scaled(300, 60); ++round) {
    auto const m = memory.allocate(4 * mebi);
    auto* const words = m.as<std::uint32_t>();
    std::uint64_t wrong = 0;
    for (std::uint64_t n = 0; n < 20; ++n) {
      wrong += words[n * block / 4] != 0 ? 1 : 0;
      words[n * block / 4] = round;
    }
    CHECK(wrong == 0);
  }
  auto const m = memory.allocate(4 * mebi);
  CHECK(has_memory(m, 0, 4 * mebi) == 0);
}
