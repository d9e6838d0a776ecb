// Reads into shared objects that are so long that several threads make them. They promise what
// short ones do: the bytes, the count and the position are those of one read.
#include <gpufs/mapping.hpp>

#include <test/mapping/memory_file.hpp>
#include <test/mapping/named_file.hpp>
#include <test/mapping/numbers.hpp>
#include <test/mapping/used_by_kernel.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t large = 40 * mebi;
/// How many of an object's bytes [first, first + count) differ from those of a file at `offset`.
std::uint64_t different(mapping const& m, std::uint64_t first, std::uint64_t count,
                        words const& content, std::uint64_t offset) {
  auto const* const got = m.as<unsigned char>() + first;
  auto const* const expected = reinterpret_cast<unsigned char const*>(content.data()) + offset;
  std::uint64_t n = 0;
  for (std::uint64_t i = 0; i < count; ++i) n += got[i] != expected[i];
  return n;
}

bool is_all(mapping const& m, std::uint64_t first, std::uint64_t end, unsigned char value) {
  for (std::uint64_t i = first; i < end; ++i) {
    if (m.as<unsigned char>()[i] != value) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("large reads: every byte, wherever the newest bytes are, and none beside them") {
  auto const content = numbers((large + mebi) / 4);
  memory_file const file(content);
  for (auto const protocol :
       {coherence_protocol::batch, coherence_protocol::lazy, coherence_protocol::rolling}) {
    CAPTURE(int(protocol));
    shared_memory memory;
    map_options options;
    options.protocol = protocol;
    auto const m = memory.allocate(large + 3 * mebi, options);
    std::memset(m.data(), 0xee, m.size());
    use_by_kernel(memory, m);  // all of it is at the device
    if (protocol == coherence_protocol::rolling) std::memset(m.as<char>() + 9 * mebi, 0xee, mebi);
    CHECK(memory.pread(file.fd(), m.as<char>() + mebi + 5, large + 77, 1234) ==
          std::int64_t(large + 77));
    CHECK(::lseek(file.fd(), 0, SEEK_CUR) == 0);
    use_by_kernel(memory, m);
    CHECK(different(m, mebi + 5, large + 77, content, 1234) == 0);
    CHECK(is_all(m, 0, mebi + 5, 0xee));
    CHECK(is_all(m, mebi + 5 + large + 77, m.size(), 0xee));
  }
}

TEST_CASE("large reads: a file that ends sooner, from an offset and from the position") {
  auto const content = numbers((large - 3 * mebi) / 4);
  std::uint64_t const size = content.size() * 4;
  memory_file const file(content);
  shared_memory memory;
  auto const m = memory.allocate(3 * large);
  for (bool const by_position : {false, true}) {
    CAPTURE(by_position);
    std::memset(m.data(), 1, m.size());
    REQUIRE(::lseek(file.fd(), 100, SEEK_SET) == 100);
    auto const got = by_position ? memory.read(file.fd(), m.data(), 3 * large)
                                 : memory.pread(file.fd(), m.data(), 3 * large, 100);
    CHECK(got == std::int64_t(size - 100));
    CHECK(::lseek(file.fd(), 0, SEEK_CUR) == std::int64_t(by_position ? size : 100));
    CHECK(different(m, 0, size - 100, content, 100) == 0);
    CHECK(is_all(m, size - 100, m.size(), 1));
  }
  CHECK(memory.read(file.fd(), m.data(), large) == 0);
  CHECK(::lseek(file.fd(), 0, SEEK_CUR) == std::int64_t(size));
}

TEST_CASE("large reads: threads that share a descriptor never get the same bytes") {
  constexpr unsigned threads = 3;
  auto const content = numbers((threads * large) / 4);
  memory_file const file(content);
  shared_memory memory;
  std::vector<mapping> objects;
  for (unsigned i = 0; i < threads; ++i) objects.push_back(memory.allocate(large));
  std::vector<std::int64_t> got(threads);
  std::vector<std::thread> all;
  for (unsigned i = 0; i < threads; ++i)
    all.emplace_back(
        [&, i] { got[i] = memory.read(file.fd(), objects[i].data(), objects[i].size()); });
  for (auto& t : all) t.join();
  std::vector<bool> taken(threads);
  for (unsigned i = 0; i < threads; ++i) {
    CHECK(got[i] == std::int64_t(large));
    std::uint64_t const part = (objects[i].as<std::uint32_t>()[0] - 1) / (large / 4);
    REQUIRE(part < threads);
    CHECK_FALSE(taken[part]);
    taken[part] = true;
    CHECK(different(objects[i], 0, large, content, part * large) == 0);
  }
  CHECK(::lseek(file.fd(), 0, SEEK_CUR) == std::int64_t(threads * large));
}

TEST_CASE("large reads: an error behind the first bytes comes with the next call") {
  auto const content = numbers(large / 4);
  named_file const below(content);
  memory_file const in(content);
  shared_memory memory;
  mapping const m = memory.map(below.path(), {.access = access::read_write, .eager = false});
  REQUIRE(::truncate(below.path().c_str(), 13 * mebi) == 0);
  auto const first = memory.read(in.fd(), m.data(), large);
  CHECK(first > 0);
  CHECK(first <= std::int64_t(16 * mebi));
  CHECK(::lseek(in.fd(), 0, SEEK_CUR) == first);
  CHECK(memory.read(in.fd(), m.as<std::byte>() + 16 * mebi, 24 * mebi) == -ESTALE);
  CHECK(::lseek(in.fd(), 0, SEEK_CUR) == first);
}

TEST_CASE("large reads: descriptors that cannot be read, and offsets that there are not") {
  shared_memory memory;
  auto const m = memory.allocate(large);
  named_file const file(numbers(large / 4));
  int const only_written = ::open(file.path().c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(only_written >= 0);
  CHECK(memory.read(only_written, m.data(), large) == -EBADF);
  CHECK(memory.pread(only_written, m.data(), large, 0) == -EBADF);
  CHECK(::lseek(only_written, 0, SEEK_CUR) == 0);
  ::close(only_written);
  memory_file const other(numbers(large / 4));
  CHECK(memory.pread(other.fd(), m.data(), large, ~0ull) == -EINVAL);
  CHECK(memory.pread(other.fd(), m.data(), large, large) == 0);
  auto const far = std::int64_t(~0ull >> 1) - 5;
  if (::lseek(other.fd(), far, SEEK_SET) == far) {  // not every file system has such positions
    CHECK(memory.read(other.fd(), m.data(), large) <= 0);
    CHECK(::lseek(other.fd(), 0, SEEK_CUR) == far);
  }
}
