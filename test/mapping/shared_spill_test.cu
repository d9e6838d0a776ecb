// Objects whose bytes fit neither into device memory nor into the host's: what launches have left
// goes to spill_dir and comes back.
#include <gpufs/config.hpp>
#include <gpufs/mapping.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/memory_file.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

using words = std::vector<std::uint32_t>;
constexpr std::uint64_t mebi = 1 << 20, words_of_mebi = mebi / 4, chunk = 2 * mebi;

mapping_config spilling(std::uint64_t device, std::uint64_t host, scratch_folder const& folder) {
  auto c = tight(device, host);
  c.spill_dir = folder.path();
  return c;
}

// A chunk in each launch.
void add_by_chunks(mapping const& m, std::uint32_t what) {
  for (std::uint64_t first = 0; first < m.size(); first += chunk) {
    auto const bytes = std::min(chunk, m.size() - first);
    shared_call call;
    call.reads_writes(m, first, bytes);
    launch(call, add_to_all, dim3(1), dim3(64), m.as<std::uint32_t>() + first / 4, bytes / 4, what);
  }
}

bool is(mapping const& m, words const& expected) {
  return std::equal(expected.begin(), expected.end(), m.as<std::uint32_t>());
}

bool is_empty(scratch_folder const& folder) { return std::filesystem::is_empty(folder.path()); }

}  // namespace

TEST_CASE("spill: an object larger than both budgets is written by kernels and read by the CPU") {
  scratch_folder const folder;
  shared_memory memory(spilling(chunk, 2 * chunk, folder));
  mapping m = memory.allocate(25 * mebi);
  words plain(25 * words_of_mebi, 0);
  for (std::uint32_t round = 1; round < 4; ++round) {
    add_by_chunks(m, round);
    for (auto& w : plain) w += round;
  }
  memory.synchronize();
  CHECK(host_bytes() <= 2 * chunk + 4 * chunk);  // the budget, and what stays in any case
  CHECK(m.stats().spill_bytes >= 2 * 15 * mebi);
  CHECK(m.stats().spill_read_bytes >= 2 * 15 * mebi);
  CHECK(is(m, plain));
  // The service thread leaves those that are pinned, which are as many as stay after a launch.
  CHECK(host_bytes() <= 2 * chunk + 4 * chunk + 5 * chunk);
  CHECK(memory.stats().spill_bytes == m.stats().spill_bytes);
  CHECK(is_empty(folder));  // its files have no names
}

TEST_CASE("spill: the CPU writes and reads an object larger than both budgets") {
  scratch_folder const folder;
  shared_memory memory(spilling(1, 0, folder));
  mapping m = memory.allocate(32 * mebi, {.block = 64 << 10});
  auto* const at = m.as<std::uint32_t>();
  for (std::uint64_t i = 0; i < 32 * words_of_mebi; ++i) at[i] = std::uint32_t(i * 3);
  CHECK(m.stats().spill_bytes >= 20 * mebi);
  CHECK(host_bytes() <= 5 * chunk);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < 32 * words_of_mebi; ++i) wrong += at[i] != std::uint32_t(i * 3);
  CHECK(wrong == 0);
  // In an order that no chunk of which is the last one's neighbour.
  for (std::uint64_t n = 0; n < 64; ++n) {
    auto const i = n * 5 % 16 * chunk / 4 + n;
    CHECK(at[i] == std::uint32_t(i * 3));
    at[i] += 1;
  }
  for (std::uint64_t n = 0; n < 64; ++n) {
    auto const i = n * 5 % 16 * chunk / 4 + n;
    CHECK(at[i] == std::uint32_t(i * 3) + 1);
  }
}

TEST_CASE("spill: what nobody has written is not spilled, and is zeros") {
  scratch_folder const folder;
  shared_memory memory(spilling(chunk, 0, folder));
  mapping m = memory.allocate(20 * mebi);
  m.as<std::uint32_t>()[3] = 4;
  mapping sum = memory.allocate(8);
  for (std::uint64_t first = 0; first < m.size() + chunk; first += chunk) {
    shared_call call;
    call.reads(m, first % m.size(), chunk);
    CHECK(call.release() == 0);
    call.launched();
  }
  memory.synchronize();
  CHECK(m.stats().spill_bytes <= chunk);
  CHECK(m.as<std::uint32_t>()[3] == 4);
  CHECK(std::count(m.as<std::uint32_t>(), m.as<std::uint32_t>() + m.size() / 4, 0u) ==
        std::int64_t(m.size() / 4 - 1));
}

TEST_CASE("spill: zeros that take the place of spilled bytes are read") {
  scratch_folder const folder;
  shared_memory memory(spilling(chunk, 0, folder));
  mapping m = memory.allocate(20 * mebi);
  add_by_chunks(m, 5);
  add_by_chunks(m, std::uint32_t(-5));
  add_by_chunks(m, 0);
  memory.synchronize();
  CHECK(is(m, words(20 * words_of_mebi, 0)));
}

TEST_CASE("spill: a discarded scratch object is zeros, and its file keeps what it had") {
  scratch_folder const folder;
  named_file const file(words(20 * words_of_mebi, 9));
  shared_memory memory(spilling(chunk, 0, folder));
  mapping m = memory.map(file.path(), {.access = access::read_write, .scratch = true});
  add_by_chunks(m, 5);
  CHECK(m.stats().spill_bytes != 0);
  memory.synchronize();
  CHECK(is(m, words(20 * words_of_mebi, 5)));
  CHECK(m.discard() == 0);
  CHECK(is(m, words(20 * words_of_mebi, 0)));
  add_by_chunks(m, 1);
  memory.synchronize();
  CHECK(is(m, words(20 * words_of_mebi, 1)));
  CHECK(m.unmap() == 0);
  CHECK(file.content() == words(20 * words_of_mebi, 9));
}

TEST_CASE("spill: other calls on a spilled object do what they do without spill_dir") {
  scratch_folder const folder;
  shared_memory memory(spilling(chunk, 0, folder));
  mapping m = memory.allocate(20 * mebi), other = memory.allocate(16 * mebi);
  add_by_chunks(m, 7);
  add_by_chunks(other, 8);
  memory.synchronize();
  CHECK(m.refresh() == 0);
  CHECK(m.discard() == 0);
  CHECK(m.sync() == 0);
  CHECK(m.write_back() == 0);
  CHECK(m.remap(access::read) == -EINVAL);
  CHECK(m.errors().empty());
  CHECK(m.unwritten().empty());
  CHECK(memory.copy(m.data(), other.data(), 16 * mebi) == 0);
  words plain(20 * words_of_mebi, 7);
  std::fill_n(plain.begin(), 16 * words_of_mebi, 8u);
  CHECK(is(m, plain));
  CHECK(memory.set(m.data(), 1, 20 * mebi) == 0);
  memory_file const to;
  CHECK(memory.pwrite(to.fd(), m.data(), 20 * mebi, 0) == std::int64_t(20 * mebi));
  // 18 were written out or copied. The service thread may still be at it.
  wait_until([] { return host_bytes() <= 8 * chunk; }, "all but 8 chunks spilled");
  CHECK(to.content<std::uint32_t>() == words(20 * words_of_mebi, 0x01010101));
}

TEST_CASE("spill: what acquire() has made ready stays ready until a call uses it") {
  scratch_folder const folder;
  shared_memory memory(spilling(chunk, 0, folder));
  mapping m = memory.allocate(30 * mebi);
  add_by_chunks(m, 7);
  memory.synchronize();  // ThreadSanitizer looks before a touch waits
  CHECK(m.acquire(0, 8 * mebi, access::read) == 0);
  volatile std::uint32_t sum = 0;
  for (std::uint64_t i = 8 * mebi; i < m.size(); i += chunk)
    sum = sum + m.as<std::uint32_t>()[i / 4];
  CHECK(sum == 7 * 11);
  // System calls do not wait for bytes.
  memory_file const to;
  CHECK(::write(to.fd(), m.data(), 8 * mebi) == std::int64_t(8 * mebi));
  CHECK(to.content<std::uint32_t>() == words(8 * words_of_mebi, 7));
}

TEST_CASE("spill: batch and lazy objects stay in the host's memory") {
  scratch_folder const folder;
  shared_memory memory(spilling(chunk, 0, folder));
  for (auto const protocol : {coherence_protocol::batch, coherence_protocol::lazy}) {
    mapping m = memory.allocate(12 * mebi, {.protocol = protocol});
    std::fill_n(m.as<std::uint32_t>(), m.size() / 4, 3u);
    CHECK(is(m, words(m.size() / 4, 3)));
  }
  CHECK(memory.stats().spill_bytes == 0);
}

TEST_CASE("spill: a folder in which no file can be made is refused by its name") {
  scratch_folder const folder;
  auto c = spilling(chunk, 0, folder);
  c.spill_dir = folder / "none";
  try {
    shared_memory const memory(c);
    FAIL("it should have thrown");
  } catch (config_error const& e) {
    CHECK(e.what() == "spill_dir=" + c.spill_dir +
                          ": must be a folder in which files can be made and removed (No such "
                          "file or directory)");
  }
}

TEST_CASE("spill: bytes that a full disk refuses stay in the host's memory, and a note says so") {
  scratch_folder const folder;
  shared_memory memory(spilling(chunk, 0, folder));
  mapping m = memory.allocate(20 * mebi);
  struct ::rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct ::rlimit const little{3 * mebi, before.rlim_max};
  auto* const at = m.as<std::uint32_t>();
  for (std::uint64_t i = 0; i < 8 * words_of_mebi; ++i) at[i] = std::uint32_t(i);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &little) == 0);
  for (std::uint64_t i = 8 * words_of_mebi; i < 20 * words_of_mebi; ++i) at[i] = std::uint32_t(i);
  CHECK(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  words plain(20 * words_of_mebi);
  std::iota(plain.begin(), plain.end(), 0u);
  CHECK(is(m, plain));
  add_by_chunks(m, 1);
  memory.synchronize();
  for (auto& w : plain) w += 1;
  CHECK(is(m, plain));
  auto const notes = memory.notes();
  CHECK(std::ranges::count(notes,
                           "spill_dir: a file there cannot be written: File too large; bytes stay "
                           "in the host's memory, also beyond host_memory") == 1);
}

TEST_CASE("spill: threads that use more chunks than stay get on") {
  scratch_folder const folder;
  shared_memory memory(spilling(2 * chunk, chunk, folder));
  constexpr unsigned threads = 8, rounds = 6;
  mapping m = memory.allocate(threads * 2 * chunk, {.block = 256 << 10});
  std::vector<std::uint64_t> wrong(threads);
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      auto* const at = m.as<std::uint32_t>() + t * 2 * chunk / 4;
      for (std::uint32_t round = 0; round < rounds; ++round) {
        for (std::uint64_t i = 0; i < 2 * chunk / 4; i += 511) {
          if (at[i] != (round == 0 ? 0 : std::uint32_t(i) + round - 1)) ++wrong[t];
          at[i] = std::uint32_t(i) + round;
        }
      }
    });
  for (auto& t : all) t.join();
  CHECK(std::accumulate(wrong.begin(), wrong.end(), 0ull) == 0);
  CHECK(m.stats().spill_bytes != 0);
}

TEST_CASE("spill: launches end, whatever advice their objects have") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (unsigned n = 0; n < scaled(24, 6); ++n) {
    CAPTURE(n);
    scratch_folder const folder;
    std::uint64_t const device = (1 + random() % 3) * chunk, host = random() % 2 * chunk;
    shared_memory memory(spilling(device, host, folder));
    std::vector<mapping> objects;
    std::vector<std::uint32_t> expected;
    for (unsigned i = 0; i < 4; ++i) {
      objects.push_back(memory.allocate((1 + random() % 2) * chunk));
      expected.push_back(0);
    }
    for (unsigned round = 0; round < 60; ++round) {
      auto const i = random() % objects.size();
      CHECK(objects[i].advise(0, objects[i].size(), memory_advice(random() % 4)) == 0);
      // Bytes that have to be spilled.
      for (std::size_t at = 0; at < objects[i].size() / 4; at += 1024)
        objects[i].as<std::uint32_t>()[at] = round;
      expected[i] = round;
      shared_call call;
      for (auto const& o : objects)
        if (random() % 2 == 0) call.reads_writes(o);
      int const result = call.release();  // it may need more than the budgets have
      CHECK((result == 0 || result == -ENOMEM));
      if (result == 0) call.launched();
    }
    for (std::size_t i = 0; i < objects.size(); ++i)
      for (std::size_t at = 0; at < objects[i].size() / 4; at += 1024)
        REQUIRE(objects[i].as<std::uint32_t>()[at] == expected[i]);
  }
}
