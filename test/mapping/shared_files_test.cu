// Objects with a file behind them: what kernels and the CPU see, what the file has afterwards, and
// what moved.
#include <gpufs/mapping.hpp>
#include <gpufs/settings.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;

std::vector<std::uint32_t> numbers(std::uint64_t count, std::uint32_t first = 1) {
  std::vector<std::uint32_t> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

__global__ void add_to_words(std::uint32_t* words, std::uint64_t first, std::uint64_t count,
                             std::uint32_t what) {
  for (auto i = thread_number(); i < count; i += thread_count()) words[first + i] += what;
}

__global__ void store_words(std::uint32_t* words, std::uint64_t first, std::uint64_t count,
                            std::uint32_t base) {
  for (auto i = thread_number(); i < count; i += thread_count())
    words[first + i] = base + static_cast<std::uint32_t>(i);
}

std::uint64_t sum_on_device(shared_memory& memory, mapping const& words, std::uint64_t count) {
  mapping const sum = memory.allocate(sizeof(std::uint64_t));
  launch(sum_words, 1, 32, words.as<std::uint32_t const>(), count, sum.as<std::uint64_t>());
  memory.synchronize();
  return *sum.as<std::uint64_t>();
}

std::uint64_t sum_of(std::vector<std::uint32_t> const& words) {
  return std::accumulate(words.begin(), words.end(), std::uint64_t(0));
}

}  // namespace

TEST_CASE("a file of any length is read by kernels and by the CPU") {
  for (auto const bytes : std::initializer_list<std::uint64_t>{
           4, 4096, 4100, 65536, 2 * mebi - 4, 2 * mebi, 2 * mebi + 4, 9 * mebi + 8}) {
    for (bool const eager : {false, true}) {
      CAPTURE(bytes);
      CAPTURE(eager);
      auto const content = numbers(bytes / 4);
      named_file const file(content);
      shared_memory memory;
      mapping const m = memory.map(file.path(), {.eager = eager});
      REQUIRE(m.size() == bytes);
      CHECK(sum_on_device(memory, m, bytes / 4) == sum_of(content));
      CHECK(std::equal(content.begin(), content.end(), m.as<std::uint32_t>()));
      auto const counts = m.stats();
      CHECK(counts.fill_bytes == bytes);
      CHECK(counts.bytes_h2d == 0);
      CHECK(counts.bytes_d2h == 0);
      CHECK(counts.faults_read == 0);
      CHECK(counts.writeback_bytes == 0);
    }
  }
}

TEST_CASE("only pages that changed are written, and the rest of the file stays") {
  constexpr std::uint64_t words = 3 * mebi / 4 + 100;
  auto content = numbers(words);
  named_file const file(content);
  for (bool const is_declared : {false, true}) {
    shared_memory memory;
    mapping m = memory.map(file.path(), {.access = access::read_write});
    auto const change = [&](std::uint64_t first, std::uint64_t count) {
      shared_call call;
      call.reads_writes(m);
      if (is_declared)
        launch(call, add_to_words, 2, 64, m.as<std::uint32_t>(), first, count, 7u);
      else
        launch(add_to_words, 2, 64, m.as<std::uint32_t>(), first, count, 7u);
      for (auto i = first; i < first + count; ++i) content[i] += 7;
    };
    change(5000, 3);          // one page
    change(1024 * 10, 2048);  // two pages
    memory.synchronize();
    CHECK(m.sync() == 0);
    CHECK(file.content() == content);
    auto const counts = m.stats();
    CHECK(counts.writeback_pages == 3);
    CHECK(counts.writeback_bytes == 3 * 4096);
    CHECK(counts.fill_bytes == words * 4);
    CHECK(m.sync() == 0);  // nothing since
    CHECK(m.stats().writeback_pages == 3);
    change(words - 1, 1);  // the last page, which the file ends in
    m.as<std::uint32_t>()[0] = 77;
    content[0] = 77;
    CHECK(m.unmap() == 0);
    CHECK(file.content() == content);
  }
}

TEST_CASE("pages that a kernel changes back are not written") {
  named_file const file(numbers(64 * kibi));
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write});
  launch(add_to_words, 2, 64, m.as<std::uint32_t>(), std::uint64_t(0), 64 * kibi, 5u);
  launch(add_to_words, 2, 64, m.as<std::uint32_t>(), std::uint64_t(0), 64 * kibi, ~5u + 1);
  CHECK(m.write_back() == 0);
  CHECK(m.stats().writeback_pages == 0);
  CHECK(m.stats().pages_unchanged == 64);
}

TEST_CASE("a new file gets what kernels and the CPU write, and is never read") {
  constexpr std::uint64_t bytes = 5 * mebi + 4;
  named_file const file;
  {
    shared_memory memory;
    mapping m = memory.map(file.path(), {.access = access::write, .create = true, .length = bytes});
    launch(store_words, 2, 64, m.as<std::uint32_t>(), std::uint64_t(2048), std::uint64_t(4096), 9u);
    memory.synchronize();
    m.as<std::uint32_t>()[bytes / 4 - 1] = 3;
    auto counts = m.stats();
    CHECK(counts.fill_bytes == 0);
    CHECK(counts.fills_skipped == bytes);
    CHECK(m.sync() == 0);
    counts = m.stats();
    CHECK(counts.writeback_pages == 5);  // 2048..6143, and the last one
  }
  auto expected = std::vector<std::uint32_t>(bytes / 4, 0);
  std::iota(expected.begin() + 2048, expected.begin() + 2048 + 4096, 9u);
  expected.back() = 3;
  CHECK(file.content() == expected);
}

TEST_CASE("access write: what nobody writes stays in the file, to 8 bytes") {
  constexpr std::uint64_t words = 40 * kibi;
  auto content = numbers(words);
  named_file const file(content);
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::write});
  launch(store_words, 1, 32, m.as<std::uint32_t>(), std::uint64_t(100), std::uint64_t(50), 1000u);
  launch(store_words, 1, 32, m.as<std::uint32_t>(), std::uint64_t(4096), std::uint64_t(1024), 5u);
  memory.synchronize();
  auto* const cpu = m.as<std::uint32_t>();
  cpu[9000] = cpu[9001] = 4;
  std::iota(content.begin() + 100, content.begin() + 150, 1000u);
  std::iota(content.begin() + 4096, content.begin() + 4096 + 1024, 5u);
  content[9000] = content[9001] = 4;
  CHECK(m.write_back() == 0);
  CHECK(file.content() == content);
  auto const counts = m.stats();
  CHECK(counts.fill_bytes == 0);
  CHECK(counts.fills_skipped == words * 4);
  CHECK(counts.writeback_pages == 3);
  CHECK(counts.merge_read_bytes == 2 * 4096);
  // More of a page that was merged before.
  launch(store_words, 1, 32, m.as<std::uint32_t>(), std::uint64_t(200), std::uint64_t(2), 8u);
  std::iota(content.begin() + 200, content.begin() + 202, 8u);
  CHECK(m.unmap() == 0);
  CHECK(file.content() == content);
}

TEST_CASE("a part of a file: bytes beside it are never written") {
  auto content = numbers(64 * kibi);
  named_file const file(content);
  shared_memory memory;
  mapping m =
      memory.map(file.path(), {.access = access::read_write, .length = 8192 + 12, .offset = 8192});
  REQUIRE(m.size() == 8192 + 12);
  launch(add_to_words, 1, 64, m.as<std::uint32_t>(), std::uint64_t(0), std::uint64_t(2048 + 3), 2u);
  CHECK(m.unmap() == 0);
  for (std::uint64_t i = 2048; i < 2048 + 2048 + 3; ++i) content[i] += 2;
  CHECK(file.content() == content);
}

TEST_CASE("the CPU's writes reach kernels and the file; the file's reach the CPU after refresh()") {
  auto content = numbers(512 * kibi);
  named_file const file(content);
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  auto* const words = m.as<std::uint32_t>();
  for (std::uint64_t i = 0; i < content.size(); i += 1000) words[i] = content[i] = 5;
  CHECK(sum_on_device(memory, m, content.size()) == sum_of(content));
  CHECK(m.write_back() == 0);
  CHECK(file.content() == content);
  CHECK(m.unwritten().empty());
  // Another program writes to the file.
  content[77777] = 4242;
  file.write(std::vector<std::uint32_t>{4242}, 77777 * 4);
  words[5] = content[5] = 55;  // not written back
  CHECK(m.unwritten().size() == 1);
  CHECK(m.refresh() == 0);
  CHECK(words[77777] == 4242);
  CHECK(words[5] == 55);
  CHECK(sum_on_device(memory, m, content.size()) == sum_of(content));
  words[6] = 66;
  CHECK(m.discard() == 0);
  CHECK(words[6] == content[6]);
  CHECK(words[5] == 6);  // as in the file
  content[5] = 6;
  CHECK(m.unmap() == 0);
  CHECK(file.content() == content);
}

TEST_CASE("a read-only object shows the file's bytes to kernels after refresh()") {
  auto content = numbers(4096);
  named_file const file(content);
  shared_memory memory;
  mapping const m = memory.map(file.path());
  CHECK(sum_on_device(memory, m, content.size()) == sum_of(content));
  content[9] = 900;
  file.write(content, 0);
  CHECK(m.as<std::uint32_t>()[9] == 900);  // the OS page cache
  CHECK(const_cast<mapping&>(m).refresh() == 0);
  CHECK(sum_on_device(memory, m, content.size()) == sum_of(content));
}

TEST_CASE("refresh() of a read-only object that the GPU reads where the OS has it") {
  for (bool const is_cut : {false, true}) {
    CAPTURE(is_cut);
    auto content = numbers(4 * mebi / 4);
    named_file const file(content);
    shared_memory memory;
    mapping m = memory.map(file.path());
    CHECK(m.advise(0, m.size(), memory_advice::host) == 0);
    CHECK(sum_on_device(memory, m, content.size()) == sum_of(content));
    CHECK(m.tiers().host == m.size());
    content[9] = content[512 * kibi] = 900;
    if (is_cut) REQUIRE(::truncate(file.path().c_str(), 0) == 0);  // other pages from now on
    file.write(content, 0);
    CHECK(m.refresh() == 0);
    CHECK(sum_on_device(memory, m, content.size()) == sum_of(content));
  }
}

TEST_CASE("I/O calls of the memory go to and from objects with files") {
  auto content = numbers(256 * kibi);
  named_file const file(content), other(numbers(256 * kibi, 100));
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write});
  mapping const in = memory.map(other.path());
  CHECK(memory.copy(m.as<std::byte>() + 4000, in.data(), 50000) == 0);
  std::memcpy(reinterpret_cast<std::byte*>(content.data()) + 4000, in.data(), 50000);
  CHECK(sum_on_device(memory, m, content.size()) == sum_of(content));
  CHECK(memory.set(m.as<std::byte>() + 8, 1, 70000) == 0);
  std::memset(reinterpret_cast<std::byte*>(content.data()) + 8, 1, 70000);
  CHECK(memory.set(in.data(), 1, 8) == -EACCES);
  CHECK(m.unmap() == 0);
  CHECK(file.content() == content);
}

TEST_CASE("scratch objects leave the file without bytes") {
  named_file const file;
  {
    shared_memory memory;
    mapping const m =
        memory.map(file.path(),
                   {.access = access::read_write, .create = true, .length = mebi, .scratch = true});
    launch(store_words, 1, 64, m.as<std::uint32_t>(), std::uint64_t(0), mebi / 4, 1u);
    memory.synchronize();
    CHECK(m.as<std::uint32_t>()[10] == 11);
  }
  struct stat status {};
  REQUIRE(::stat(file.path().c_str(), &status) == 0);
  CHECK(status.st_size == mebi);
  CHECK(status.st_blocks == 0);
}

TEST_CASE("lazy objects with files, and many small blocks") {
  for (auto const& options :
       {map_options{.access = access::read_write, .protocol = coherence_protocol::lazy},
        map_options{.access = access::read_write, .block = 4 * kibi},
        map_options{.access = access::read_write, .block = 8 * mebi}}) {
    auto content = numbers(9 * mebi / 4 + 3);
    named_file const file(content);
    mapping_config config;
    config.fill_threads = 3;
    shared_memory memory(config);
    mapping m = memory.map(file.path(), options);
    auto* const words = m.as<std::uint32_t>();
    words[2 * mebi] = content[2 * mebi] = 1;
    launch(add_to_words, 2, 64, words, std::uint64_t(mebi), std::uint64_t(100), 3u);
    for (std::uint64_t i = mebi; i < mebi + 100; ++i) content[i] += 3;
    memory.synchronize();
    CHECK(words[mebi + 5] == content[mebi + 5]);
    words[0] = content[0] = 8;
    CHECK(m.unmap() == 0);
    CHECK(file.content() == content);
  }
}

TEST_CASE("detect_writes all: all pages of blocks that calls used are written") {
  auto content = numbers(64 * kibi);
  named_file const file(content);
  mapping_config config;
  config.detect_writes = write_detection::all;
  shared_memory memory(config);
  mapping m = memory.map(file.path(), {.access = access::read_write});
  launch(add_to_words, 1, 64, m.as<std::uint32_t>(), std::uint64_t(9), std::uint64_t(1), 3u);
  content[9] += 3;
  CHECK(m.write_back() == 0);
  CHECK(m.stats().writeback_pages == 64);
  CHECK(file.content() == content);
}

TEST_CASE("remap: a file is written in one phase and read in the next, at one address") {
  auto content = numbers(300 * kibi);
  named_file const file(content);
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::write});
  auto* const address = m.data();
  launch(store_words, 2, 64, m.as<std::uint32_t>(), std::uint64_t(1000), std::uint64_t(5000), 7u);
  std::iota(content.begin() + 1000, content.begin() + 6000, 7u);
  m.as<std::uint32_t>()[9000] = content[9000] = 5;
  m.as<std::uint32_t>()[9001] = content[9001] = 6;
  REQUIRE(m.remap(access::read) == 0);
  CHECK(m.data() == address);
  CHECK(file.content() == content);
  CHECK(sum_on_device(memory, m, content.size()) == sum_of(content));
  CHECK(std::equal(content.begin(), content.end(), m.as<std::uint32_t>()));
  mapping other = memory.map(file.path(), {.access = access::read_write});
  CHECK(m.remap(access::read_write) == -EBUSY);
  other = {};
  REQUIRE(m.remap(access::read_write) == 0);
  launch(add_to_words, 2, 64, m.as<std::uint32_t>(), std::uint64_t(77), std::uint64_t(2), 3u);
  content[77] += 3;
  content[78] += 3;
  memory.synchronize();
  CHECK(m.as<std::uint32_t>()[77] == content[77]);
  REQUIRE(m.remap(access::write) == 0);
  launch(store_words, 2, 64, m.as<std::uint32_t>(), std::uint64_t(0), std::uint64_t(2), 1u);
  content[0] = 1;
  content[1] = 2;
  CHECK(m.unmap() == 0);
  CHECK(file.content() == content);
  mapping anonymous = memory.allocate(4096);
  CHECK(anonymous.remap(access::read) == -EINVAL);
}
