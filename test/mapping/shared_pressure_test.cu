// Files under budgets that they exceed: what was given up comes back as it was.
#include <gpufs/mapping.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/memory_file.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/child.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using words = std::vector<std::uint32_t>;
constexpr std::uint64_t mebi = 1 << 20, words_of_mebi = mebi / 4;

// Adds to the words from `first` on, as a kernel that says what it uses.
void add(mapping const& m, std::uint64_t first, std::uint64_t count, std::uint32_t what) {
  shared_call call;
  call.reads_writes(m, first * 4, count * 4);
  launch(call, add_to_all, dim3(2), dim3(64), m.as<std::uint32_t>() + first, count, what);
}

void add(mapping const& m, std::uint32_t what) { add(m, 0, m.size() / 4, what); }

std::uint64_t unlike(mapping const& m, std::uint32_t expected) {
  auto const* const first = m.as<std::uint32_t const>();
  auto const count = std::int64_t(m.size() / 4);
  return std::uint64_t(count - std::count(first, first + count, expected));
}

}  // namespace

TEST_CASE("a new file that was written back and given up is read again") {
  for (auto const use : {access::read_write, access::write}) {
    named_file const file;
    shared_memory memory(tight(4 * mebi, 0));
    mapping m = memory.map(file.path(), {.access = use, .create = true, .length = 4 * mebi});
    mapping const other = memory.allocate(4 * mebi);
    for (std::uint32_t round = 1; round <= 3; ++round) {
      add(m, 1);
      CHECK(m.sync() == 0);
      add(other, 1);  // needs all device memory
      memory.synchronize();
      CHECK(m.tiers().away == 4 * mebi);
      if (round == 2) CHECK(unlike(m, round) == 0);
    }
    CHECK(unlike(m, 3) == 0);
    m.as<std::uint32_t>()[0] = 3;
    CHECK(m.unmap() == 0);
    CHECK(file.content() == words(4 * words_of_mebi, 3));
  }
}

TEST_CASE("what nobody has written of a new file is zeros, also when it has been given up") {
  named_file const file;
  shared_memory memory(tight(4 * mebi, 0));
  mapping m =
      memory.map(file.path(), {.access = access::read_write, .create = true, .length = 4 * mebi});
  mapping const other = memory.allocate(4 * mebi);
  add(m, words_of_mebi, 10, 7);
  CHECK(m.write_back() == 0);
  add(other, 1);
  add(m, 2);
  CHECK(m.unmap() == 0);
  words expected(4 * words_of_mebi, 2);
  std::fill_n(expected.begin() + words_of_mebi, 10, 9);
  CHECK(file.content() == expected);
}

TEST_CASE("access::write: kernels and the CPU see what was written back and given up") {
  words content(4 * words_of_mebi, 7);
  named_file const file(content);
  shared_memory memory(tight(4 * mebi, 0));
  mapping m = memory.map(file.path(), {.access = access::write, .block = 64 << 10});
  mapping const other = memory.allocate(4 * mebi);
  shared_call all;
  all.writes(m, 0, 2 * mebi);
  launch(all, store_to_all, dim3(2), dim3(64), m.as<std::uint32_t>(), 2 * words_of_mebi, 42u);
  std::fill_n(content.begin(), 2 * words_of_mebi, 42);
  memory.synchronize();
  m.as<std::uint64_t>()[3 * mebi / 8] = 5;  // a word, in a page that has no other
  content[3 * words_of_mebi] = 5, content[3 * words_of_mebi + 1] = 0;
  CHECK(m.write_back() == 0);
  CHECK(file.content() == content);
  add(other, 1);
  CHECK(m.as<std::uint64_t>()[3 * mebi / 8] == 5);
  CHECK(std::equal(content.begin(), content.begin() + 2 * words_of_mebi, m.as<std::uint32_t>()));
  add(m, words_of_mebi, 3 * words_of_mebi / 4, 1);
  for (std::uint64_t i = 0; i < 3 * words_of_mebi / 4; ++i) ++content[words_of_mebi + i];
  CHECK(m.write_back() == 0);
  CHECK(file.content() == content);
  // A part of a page that came from the file, and one of a page that nobody has written.
  add(other, 1);
  m.as<std::uint64_t>()[8] = 1;
  m.as<std::uint64_t>()[7 * mebi / 16] = 2;
  content[16] = 1, content[17] = 0;
  content[7 * mebi / 8] = 2, content[7 * mebi / 8 + 1] = 0;
  CHECK(m.unmap() == 0);
  CHECK(file.content() == content);
}

TEST_CASE("write() gets the bytes of the device that another thread's launches need for others") {
  named_file const file(words(2 * words_of_mebi, 7));
  memory_file const copy(words(2 * words_of_mebi, 0));
  shared_memory memory(tight(2 * mebi, 0));
  mapping const m = memory.map(file.path(), {.access = access::read_write});
  mapping const other = memory.allocate(2 * mebi);
  std::atomic<bool> stops{false};
  std::thread launches([&] {
    while (!stops.load(std::memory_order_relaxed)) {
      add(other, 0, 1, 1);
      shared_call call;
      call.reads(m);
      launch(call, add_to_all, dim3(1), dim3(1), static_cast<std::uint32_t*>(nullptr),
             std::uint64_t(0), 0u);  // it needs the bytes in place
      memory.synchronize(this_thread_stream());
    }
  });
  unsigned wrong = 0;
  for (unsigned round = 0; round < scaled(150, 20); ++round) {
    CHECK(memory.pwrite(copy.fd(), m.data(), m.size(), 0) == std::int64_t(m.size()));
    wrong += copy.content<std::uint32_t>() == words(2 * words_of_mebi, 7) ? 0 : 1;
  }
  stops.store(true, std::memory_order_relaxed);
  launches.join();
  CHECK(wrong == 0);
}

TEST_CASE("chunks of a file that leave the host give their memory back, and are read again") {
  named_file file(words(32 * words_of_mebi, 7));
  shared_memory memory(tight(2 * mebi, 8 * mebi));
  mapping m = memory.map(file.path(), {.access = access::read_write});
  for (std::uint64_t first = 0; first < 32 * words_of_mebi; first += 8 * words_of_mebi) {
    add(m, first, 8 * words_of_mebi, 1);
    CHECK(m.write_back() == 0);
    CHECK(host_bytes() <= 10 * mebi);
  }
  // What others have written meanwhile.
  file.write(words{99}, 4 * mebi);
  CHECK(m.as<std::uint32_t>()[words_of_mebi * 4] == 99);
  CHECK(m.as<std::uint32_t>()[words_of_mebi * 4 + 1] == 8);
  m.as<std::uint32_t>()[words_of_mebi * 4 + 2] = 5;
  CHECK(m.unmap() == 0);
  words expected(32 * words_of_mebi, 8);
  expected[words_of_mebi * 4] = 99;
  expected[words_of_mebi * 4 + 2] = 5;
  CHECK(file.content() == expected);
}

TEST_CASE("bytes that acquire() has made ready stay, though their chunk leaves the host") {
  named_file const file(words(8 * words_of_mebi, 7));
  shared_memory memory(tight(1, 4 * mebi));
  mapping m = memory.map(file.path(), {.access = access::read_write});
  add(m, 0, 2 * words_of_mebi, 1);
  CHECK(m.write_back() == 0);
  CHECK(m.acquire(0, mebi, access::read) == 0);
  add(m, 4 * words_of_mebi, 4 * words_of_mebi, 1);
  memory_file const copy;
  CHECK(::write(copy.fd(), m.data(), mebi) == std::int64_t(mebi));
  CHECK(copy.content<std::uint32_t>() == words(words_of_mebi, 8));
}

TEST_CASE("an acquire() that fails leaves ready what another one has made so") {
  constexpr std::uint64_t some = 64 << 10;
  named_file const file(words(4 * words_of_mebi, 7));
  shared_memory memory(tight(1, 4 * mebi));
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = some});
  mapping const other = memory.allocate(4 * mebi);
  add(m, 0, 2 * words_of_mebi, 1);
  CHECK(m.write_back() == 0);
  CHECK(m.acquire(0, some, access::read) == 0);
  REQUIRE(::truncate(file.path().c_str(), 2 * mebi) == 0);
  CHECK(m.acquire(0, m.size(), access::read) == -ESTALE);
  add(other, 1);  // needs all memory at the host
  memory.synchronize();
  memory_file const copy;
  CHECK(::write(copy.fd(), m.data(), some) == std::int64_t(some));
  CHECK(copy.content<std::uint32_t>() == words(some / 4, 8));
}

TEST_CASE("child: uses the memory of objects that are just being removed") {
  if (!is_part("uses the memory of objects that are just being removed")) return;
  shared_memory memory(tight(32 * mebi, 0));
  auto const use = [&](mapping const& m) {
    shared_call call;
    call.writes(m);
    launch(call, store_to_all, dim3(1), dim3(64), m.as<std::uint32_t>(), std::uint64_t(64), 1u);
    memory.synchronize();
  };
  for (unsigned round = 0; round < scaled(30, 8); ++round) {
    mapping a = memory.allocate(32 * mebi);
    std::fill_n(a.as<std::uint32_t>(), a.size() / 4, 1u);  // giving it back takes a while
    use(a);
    std::thread removes([&] { static_cast<void>(a.unmap()); });
    while (memory.tiers().device != 0) {
    }
    mapping const b = memory.allocate(32 * mebi);  // the device may have its memory still
    use(b);
    removes.join();
  }
  for (auto const& note : memory.notes()) CHECK(!note.starts_with("device_memory"));
}

TEST_CASE("budgets stay while the memory of an object that goes is given back") {
  ::setenv("GPUFS_EMULATED_MEMORY", "33554432", 1);
  child c("uses the memory of objects that are just being removed", "");
  ::unsetenv("GPUFS_EMULATED_MEMORY");
  CHECK(c.succeeds());
}
