// What of an object is found to be changed, and goes to its file: single bits, bytes at random
// places, and words of files that are not read.
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t page = 4096, mebi = 1 << 20;

using bytes = std::vector<std::byte>;

__global__ void flip_bits(std::uint8_t* all, std::uint64_t at, std::uint32_t bits) {
  if (thread_number() == 0) all[at] = static_cast<std::uint8_t>(all[at] ^ bits);
}

/// Each page's byte `at` gets other bits, and has its own again at the end.
__global__ void flip_and_flip_back(std::uint8_t* all, std::uint64_t pages, std::uint64_t at) {
  for (auto i = thread_number(); i < pages; i += thread_count()) {
    auto volatile& byte = all[i * page + at];
    byte = static_cast<std::uint8_t>(byte ^ 0x41u);
    byte = static_cast<std::uint8_t>(byte ^ 0x41u);
  }
}

struct change {
  std::uint64_t at;
  std::uint32_t bits;  ///< of the byte there that flip
};

__global__ void flip_all(std::uint8_t* all, change const* changes, std::uint64_t count) {
  for (auto i = thread_number(); i < count; i += thread_count())
    all[changes[i].at] = static_cast<std::uint8_t>(all[changes[i].at] ^ changes[i].bits);
}

/// Words of 8 bytes [first, first + count) become value, value + 1, ...
struct stretch {
  std::uint64_t first, count, value;
};

__global__ void store_stretches(std::uint64_t* all, stretch const* some, std::uint64_t count) {
  for (auto s = some; s < some + count; ++s) {
    for (auto i = thread_number(); i < s->count; i += thread_count())
      all[s->first + i] = s->value + i;
  }
}

/// A file of random bytes, and what it should have.
struct modelled_file {
  explicit modelled_file(std::uint64_t length)
      : path(make_file(folder, "data", length)), content(pread_bytes(path, 0, length)) {}

  void flip(std::uint64_t at, std::uint32_t bits) { content[at] ^= std::byte(bits); }
  [[nodiscard]] bool is_right() const { return pread_bytes(path, 0, ~0ull) == content; }

  scratch_folder folder;
  std::string path;
  bytes content;
};

std::uint8_t* byte_pointer(mapping const& m) { return m.as<std::uint8_t>(); }

/// Writes back. Returns how many pages that were.
std::uint64_t pages_written(mapping& m) {
  auto const before = m.stats();
  CHECK(m.write_back() == 0);
  auto const counts = m.stats() - before;
  CHECK(counts.writeback_bytes <= counts.writeback_pages * page);
  return counts.writeback_pages;
}

/// Where the bytes of an object are while kernels use it.
struct place {
  memory_advice advice;
  memory_backing backing;
};
constexpr place places[] = {{memory_advice::device, memory_backing::automatic},
                            {memory_advice::host, memory_backing::automatic},
                            {memory_advice::automatic, memory_backing::managed}};

map_options const read_and_written{.access = access::read_write, .eager = false};

/// An object with `options` at each place, by each protocol that files have.
template <class Use>
void with_objects_of(modelled_file const& file, map_options options, Use const& use) {
  for (auto const& where : places) {
    for (auto const how : {coherence_protocol::rolling, coherence_protocol::lazy}) {
      CAPTURE(int(where.advice));
      CAPTURE(int(where.backing));
      CAPTURE(int(how));
      options.protocol = how;
      options.backing = where.backing;
      shared_memory memory;
      mapping m = memory.map(file.path, options);
      CHECK(m.advise(0, m.size(), where.advice) == 0);
      use(memory, m);
      CHECK(m.unmap() == 0);
      CHECK(file.is_right());
    }
  }
}

/// Changes of different bytes.
std::vector<change> random_changes(std::mt19937_64& random, std::uint64_t count,
                                   std::uint64_t length) {
  std::map<std::uint64_t, std::uint32_t> found;
  while (found.size() < count) {
    auto const at = random() % length;
    found[at] = std::uint32_t(1 + random() % 255);
  }
  std::vector<change> all;
  for (auto const& [at, bits] : found) all.push_back({at, bits});
  std::ranges::shuffle(all, random);
  return all;
}

/// Up to `most` words at each of `count` places, most of them few.
std::vector<stretch> random_stretches(std::mt19937_64& random, std::uint64_t count,
                                      std::uint64_t words, std::uint64_t most) {
  std::vector<stretch> all;
  while (all.size() < count) {
    auto const first = random() % words, length = 1 + random() % (random() % 2 == 0 ? 3 : most);
    all.push_back({first, std::min(length, words - first), random()});
  }
  return all;
}

/// Stores to words of 8 bytes, and notes which.
void store(stretch const& s, std::byte* all, std::set<std::uint64_t>& written) {
  for (std::uint64_t i = 0; i < s.count; ++i) {
    auto const value = s.value + i;
    std::memcpy(all + (s.first + i) * sizeof value, &value, sizeof value);
    written.insert(s.first + i);
  }
}

/// Pages with words that were written now, and those of them with words that never were.
struct touched {
  std::uint64_t pages, parts;
};
touched pages_of(std::set<std::uint64_t> const& now, std::set<std::uint64_t> const& ever,
                 std::uint64_t words) {
  constexpr std::uint64_t in_page = page / sizeof(std::uint64_t);
  std::map<std::uint64_t, std::uint64_t> counts;
  for (auto const w : now) counts[w / in_page] = 0;
  for (auto const w : ever)
    if (counts.contains(w / in_page)) ++counts[w / in_page];
  auto const parts = std::ranges::count_if(counts, [&](auto const& c) {
    return c.second < std::min(in_page, words - c.first * in_page);
  });
  return {counts.size(), std::uint64_t(parts)};
}

}  // namespace

TEST_CASE("a kernel that flips one bit: its page is written, and no other") {
  constexpr std::uint64_t length = 5 * mebi + 100;
  modelled_file file(length);
  std::mt19937_64 random(seed());
  with_objects_of(file, read_and_written, [&](shared_memory& memory, mapping& m) {
    for (std::uint64_t const at : {std::uint64_t(0), page - 1, page, 2 * mebi - 1, 2 * mebi,
                                   5 * mebi - 1, 5 * mebi, length - 1, random() % length}) {
      auto const bit = 1u << random() % 8;
      CAPTURE(at);
      CAPTURE(bit);
      launch(flip_bits, 1, 32, byte_pointer(m), at, bit);
      file.flip(at, bit);
      CHECK(pages_written(m) == 1);
      CHECK(file.is_right());
      // Back to what the file had at first: that differs from what it has now.
      if (at % 2 == 0) continue;
      launch(flip_bits, 1, 32, byte_pointer(m), at, bit);
      file.flip(at, bit);
      CHECK(pages_written(m) == 1);
      CHECK(file.is_right());
    }
    memory.synchronize();
    byte_pointer(m)[3 * mebi] ^= 1;  // by the CPU
    file.flip(3 * mebi, 1);
    CHECK(pages_written(m) == 1);
  });
}

TEST_CASE("bytes that are changed and changed back: nothing is written") {
  constexpr std::uint64_t pages = 1000;
  modelled_file file(pages * page);
  with_objects_of(file, read_and_written, [&](shared_memory& memory, mapping& m) {
    launch(flip_and_flip_back, 2, 64, byte_pointer(m), pages, std::uint64_t(77));
    CHECK(pages_written(m) == 0);
    CHECK(m.stats().pages_unchanged == pages);
    memory.synchronize();
    // By the CPU and by a kernel behind it, and the other way round.
    byte_pointer(m)[10 * page] ^= 4;
    launch(flip_bits, 1, 32, byte_pointer(m), 10 * page, 4u);
    launch(flip_bits, 1, 32, byte_pointer(m), 20 * page + 9, 64u);
    memory.synchronize();
    byte_pointer(m)[20 * page + 9] ^= 64;
    CHECK(pages_written(m) == 0);
    CHECK(m.stats().writeback_bytes == 0);
  });
}

TEST_CASE("random changes of bytes are all found") {
  constexpr std::uint64_t length = scaled(64, 8) * mebi + 4001, rounds = 4;
  constexpr std::uint64_t count = scaled(10'000, 800) / rounds;
  modelled_file file(length);
  std::mt19937_64 random(seed());
  mapping_config settings;
  settings.chunk_size = 2 * mebi;
  shared_memory memory(settings);
  mapping m = memory.map(file.path, {.access = access::read_write});
  CHECK(m.advise(length / 2, length / 4, memory_advice::host) == 0);
  buffer<change> changes(count);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    CAPTURE(round);
    auto const some = random_changes(random, count, length);
    changes.copy_from_host(some.data(), some.size());
    launch(flip_all, 4, 64, byte_pointer(m), changes.data(), count);
    std::set<std::uint64_t> pages;
    for (auto const& c : some) {
      file.flip(c.at, c.bits);
      pages.insert(c.at / page);
    }
    CHECK(pages_written(m) == pages.size());
    CHECK(file.is_right());
  }
  CHECK(m.stats().fill_bytes == length);
}

TEST_CASE("words of a file that is not read: what nobody writes stays, by pages and within them") {
  constexpr std::uint64_t words = 3 * mebi / 8 + 100, offset = 3 * page, rounds = 4;
  modelled_file file(offset + words * 8 + page);
  std::mt19937_64 random(seed());
  map_options const written{.access = access::write, .length = words * 8, .offset = offset};
  with_objects_of(file, written, [&](shared_memory& memory, mapping& m) {
    std::set<std::uint64_t> ever;  // written so far
    for (std::uint64_t round = 0; round < rounds; ++round) {
      CAPTURE(round);
      auto const by_kernel = random_stretches(random, 40, words, 1500);
      auto const by_cpu = random_stretches(random, 40, words, 1500);
      buffer<stretch> some(by_kernel.size());
      some.copy_from_host(by_kernel.data(), by_kernel.size());
      // One after the other, as some have the same words.
      launch(store_stretches, 1, 1, m.as<std::uint64_t>(), some.data(), some.size());
      memory.synchronize();
      std::set<std::uint64_t> now;
      for (auto const& s : by_kernel) store(s, &file.content[offset], now);
      for (auto const& s : by_cpu)
        for (auto* const to : {m.as<std::byte>(), &file.content[offset]}) store(s, to, now);
      ever.insert(now.begin(), now.end());
      auto const expected = pages_of(now, ever, words);
      auto const before = m.stats();
      CHECK(pages_written(m) == expected.pages);
      CHECK(file.is_right());
      CHECK((m.stats() - before).merge_read_bytes == expected.parts * page);
    }
    CHECK(m.stats().fill_bytes == 0);
    CHECK(m.stats().fills_skipped == words * 8);
  });
}

TEST_CASE("words that are stored as the file has them count as written, if it is not read") {
  modelled_file const file(100 * page);
  shared_memory memory;
  mapping m = memory.map(file.path, {.access = access::write});
  std::memcpy(m.as<std::byte>() + 5 * page, &file.content[5 * page], 16);
  CHECK(pages_written(m) == 1);
  CHECK(m.stats().merge_read_bytes == page);
  CHECK(file.is_right());
}
