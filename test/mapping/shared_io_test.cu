// I/O on shared objects: what mapping.hpp promises of read(), write(), copy() and set().
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/memory_file.hpp>
#include <test/mapping/named_file.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;
constexpr coherence_protocol protocols[] = {coherence_protocol::batch, coherence_protocol::lazy,
                                            coherence_protocol::rolling};
using words = std::vector<std::uint32_t>;

words numbers(std::uint64_t count, std::uint32_t first) {
  words w(count);
  std::iota(w.begin(), w.end(), first);
  return w;
}

map_options with(coherence_protocol p) {
  map_options o;
  o.protocol = p;
  o.block = 64 * kibi;
  return o;
}

bool holds(mapping const& m, words const& expected) {
  return m.size() == expected.size() * 4 && std::memcmp(m.data(), expected.data(), m.size()) == 0;
}

// A kernel makes them of zeros: word i is i + salt.
void fill_by_kernel(mapping const& m, mapping const& zeros, std::uint32_t salt) {
  shared_call call;
  call.reads(zeros).reads_writes(m);
  launch(call, mix_words, 4, 64, m.as<std::uint32_t>(), zeros.as<std::uint32_t const>(),
         std::uint64_t(0), m.size() / 4, salt);
}

}  // namespace

TEST_CASE("shared io: a file that is read into an object reaches the CPU and kernels") {
  for (auto const protocol : protocols) {
    CAPTURE(int(protocol));
    shared_memory memory;
    auto const expected = numbers(5 * mebi / 4 + 3, 77);
    memory_file const file(expected);
    auto const m = memory.allocate(expected.size() * 4, with(protocol));
    auto const sum = memory.allocate(8);
    REQUIRE(memory.read(file.fd(), m.data(), m.size()) == std::int64_t(m.size()));
    launch(sum_words, 1, 32, m.as<std::uint32_t const>(), std::uint64_t(expected.size()),
           sum.as<std::uint64_t>());
    memory.synchronize();
    CHECK(*sum.as<std::uint64_t>() ==
          std::accumulate(expected.begin(), expected.end(), std::uint64_t(0)));
    CHECK(holds(m, expected));
    CHECK(memory.read(file.fd(), m.data(), m.size()) == 0);  // the position is the end
  }
}

TEST_CASE("shared io: bytes of the device go to a file without the CPU's side, and back") {
  constexpr std::uint64_t bytes = 9 * mebi + 4;
  for (auto const protocol : protocols) {
    CAPTURE(int(protocol));
    shared_memory memory;
    auto const zeros = memory.allocate(bytes), m = memory.allocate(bytes, with(protocol));
    memory_file const file;
    fill_by_kernel(m, zeros, 5);
    auto const before = m.stats();
    REQUIRE(memory.write(file.fd(), m.data(), bytes) == std::int64_t(bytes));
    words expected(bytes / 4);
    for (std::uint64_t i = 0; i < expected.size(); ++i) expected[i] = std::uint32_t(i + 5);
    CHECK(file.content<std::uint32_t>() == expected);
    auto const other = numbers(bytes / 4, 1000);
    file.fill(other);
    REQUIRE(memory.pread(file.fd(), m.data(), bytes, 0) == std::int64_t(bytes));
    auto const moved = m.stats() - before;
    CHECK(moved.io_d2h_bytes == bytes);
    CHECK(moved.io_h2d_bytes == bytes);
    CHECK(moved.bytes_h2d + moved.bytes_d2h == 2 * bytes);
    CHECK(moved.faults_read + moved.faults_write == 0);
    memory.synchronize();
    CHECK(holds(m, other));
  }
}

TEST_CASE("shared io: parts of blocks, at home on either side") {
  for (auto const protocol : protocols) {
    CAPTURE(int(protocol));
    shared_memory memory;
    constexpr std::uint64_t count = 100'000;
    auto const zeros = memory.allocate(count * 4), m = memory.allocate(count * 4, with(protocol));
    fill_by_kernel(m, zeros, 0);
    memory.synchronize();
    auto expected = numbers(count, 0);
    m.as<std::uint32_t>()[20'000] = expected[20'000] = 1;  // one block is the CPU's
    auto const part = numbers(30'000, 500'000);
    memory_file const file(part);
    REQUIRE(memory.read(file.fd(), m.as<std::uint32_t>() + 10'001, 120'000) == 120'000);
    std::copy(part.begin(), part.end(), expected.begin() + 10'001);
    memory_file const out;
    REQUIRE(memory.pwrite(out.fd(), m.as<std::uint32_t>() + 5'000, 200'000, 12) == 200'000);
    CHECK(std::memcmp(out.content<std::uint32_t>().data() + 3, expected.data() + 5'000, 200'000) ==
          0);
    memory.synchronize();
    CHECK(holds(m, expected));
  }
}

TEST_CASE("shared io: copies between objects and memory, also where they overlap") {
  constexpr std::uint64_t count = 3 * mebi;  // words: several pieces
  for (auto const protocol : protocols) {
    for (std::int64_t const shift : {-1000, 1000, -1'500'000, 1'500'000}) {
      CAPTURE(int(protocol));
      CAPTURE(shift);
      shared_memory memory;
      auto const zeros = memory.allocate(count * 4), m = memory.allocate(count * 4, with(protocol));
      fill_by_kernel(m, zeros, 3);
      auto expected = numbers(count, 3);
      auto* const all = m.as<std::uint32_t>();
      std::uint64_t const from = shift < 0 ? std::uint64_t(-shift) : 0;
      std::uint64_t const to = shift < 0 ? 0 : std::uint64_t(shift);
      auto const moved = count - from - to;
      REQUIRE(memory.copy(all + to, all + from, moved * 4) == 0);
      std::memmove(expected.data() + to, expected.data() + from, moved * 4);
      words plain(count);
      REQUIRE(memory.copy(plain.data(), all, count * 4) == 0);
      CHECK(plain == expected);
      REQUIRE(memory.copy(all + 7, plain.data(), (count - 7) * 4) == 0);
      std::memmove(expected.data() + 7, plain.data(), (count - 7) * 4);
      REQUIRE(memory.set(all + 9, 0x5a, 2 * mebi * 4) == 0);
      std::memset(expected.data() + 9, 0x5a, 2 * mebi * 4);
      memory.synchronize();
      CHECK(holds(m, expected));
    }
  }
}

TEST_CASE("shared io: short counts, ends of files and errors are those of the system calls") {
  shared_memory memory;
  auto const m = memory.allocate(10 * mebi);
  auto* const bytes = m.as<char>();
  memory_file const file(numbers(1000, 0));
  CHECK(memory.read(file.fd(), bytes, 10 * mebi) == 4000);
  CHECK(memory.read(file.fd(), bytes, 1) == 0);
  CHECK(memory.pread(file.fd(), bytes, 100, 3990) == 10);
  CHECK(memory.pread(file.fd(), bytes, 100, 9999) == 0);
  CHECK(memory.read(-1, bytes, 1) == -EBADF);
  CHECK(memory.write(-1, bytes, 1) == -EBADF);
  CHECK(memory.pread(file.fd(), bytes, 1, ~0ull) == -EINVAL);
  CHECK(memory.read(file.fd(), bytes, 0) == 0);
  int const folder = ::open("/", O_RDONLY | O_CLOEXEC);
  CHECK(memory.read(folder, bytes, 1) == -EISDIR);
  ::close(folder);
  int const full = ::open("/dev/full", O_RDWR | O_CLOEXEC);
  CHECK(memory.write(full, bytes, 10 * mebi) == -ENOSPC);
  ::close(full);

  // Not all of one object.
  auto const next = memory.allocate(10 * mebi);
  CHECK(memory.read(file.fd(), bytes + 10 * mebi - 3, 4) == -EFAULT);
  CHECK(memory.write(file.fd(), bytes + 10 * mebi - 3, 4) == -EFAULT);
  CHECK(memory.write(file.fd(), bytes, 40 * mebi) == -EFAULT);
  CHECK(memory.copy(bytes, bytes + 10 * mebi - 1, 2) == -EFAULT);
  CHECK(memory.set(bytes - 1, 0, 2) == -EFAULT);
  CHECK(memory.set(bytes, 0, ~0ull) == -EFAULT);

  // Memory that is no object's goes to the system.
  std::vector<char> plain(100);
  CHECK(memory.pread(file.fd(), plain.data(), 100, 4) == 100);
  CHECK(plain[0] == 1);
  CHECK(memory.pwrite(file.fd(), plain.data(), 100, 0) == 100);
  CHECK(memory.copy(plain.data(), plain.data() + 1, 99) == 0);
  CHECK(memory.set(plain.data(), 1, 100) == 0);
}

TEST_CASE("shared io: a pipe gives what it has, and takes all") {
  shared_memory memory;
  auto const m = memory.allocate(8 * mebi);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  REQUIRE(::write(ends[1], "abcdef", 6) == 6);
  CHECK(memory.read(ends[0], m.data(), 8 * mebi) == 6);
  CHECK(std::memcmp(m.data(), "abcdef", 6) == 0);
  std::uint64_t taken = 0;
  std::thread reader([&] {
    std::vector<char> some(64 * kibi);
    for (std::int64_t n; (n = ::read(ends[0], some.data(), some.size())) > 0;)
      taken += std::uint64_t(n);
  });
  CHECK(memory.write(ends[1], m.data(), 8 * mebi) == std::int64_t(8 * mebi));
  ::close(ends[1]);
  reader.join();
  CHECK(taken == 8 * mebi);
  ::close(ends[0]);
}

TEST_CASE("shared io: an error behind the first bytes comes with the next call") {
  shared_memory memory;
  auto const m = memory.allocate(8 * mebi);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  auto const first = memory.write(ends[1], m.data(), 8 * mebi);
  CHECK(first > 0);
  CHECK(first < std::int64_t(8 * mebi));
  CHECK(memory.write(ends[1], m.data(), 8 * mebi) == -EAGAIN);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("shared io: nothing is read for memory that cannot be had") {
  auto const content = numbers(12 * mebi / 4, 1);
  named_file const below(content);
  memory_file const in(content);
  shared_memory memory;
  {
    mapping const only_read = memory.map(below.path());
    CHECK(memory.read(in.fd(), only_read.data(), 1000) == -EACCES);
    CHECK(::lseek(in.fd(), 0, SEEK_CUR) == 0);
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    REQUIRE(::write(ends[1], "abc", 3) == 3);
    CHECK(memory.read(ends[0], only_read.data(), 3) == -EACCES);
    char left[3];
    CHECK(::read(ends[0], left, 3) == 3);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  mapping const m = memory.map(below.path(), {.access = access::read_write, .eager = false});
  REQUIRE(::truncate(below.path().c_str(), 4 * mebi) == 0);
  CHECK(memory.read(in.fd(), m.data(), 12 * mebi) == std::int64_t(4 * mebi));
  CHECK(::lseek(in.fd(), 0, SEEK_CUR) == std::int64_t(4 * mebi));
  CHECK(memory.read(in.fd(), m.as<std::byte>() + 4 * mebi, mebi) == -ESTALE);
  CHECK(::lseek(in.fd(), 0, SEEK_CUR) == std::int64_t(4 * mebi));
}

TEST_CASE("shared io: a file that is mapped for reading, and became shorter") {
  auto const content = numbers(mebi / 4, 1);
  named_file const file(content);
  shared_memory memory;
  mapping const m = memory.map(file.path(), {.access = access::read, .eager = false});
  memory_file const out;
  // Neither begins at a page.
  CHECK(memory.pwrite(out.fd(), m.as<std::byte>() + 12, mebi - 100, 0) == mebi - 100);
  CHECK(out.content<std::uint32_t>() ==
        words(content.begin() + 3, content.begin() + 3 + (mebi - 100) / 4));
  REQUIRE(::truncate(file.path().c_str(), 4096) == 0);
  CHECK(memory.pwrite(out.fd(), m.as<std::byte>() + mebi / 2, 4096, 0) == -ESTALE);
  std::vector<std::byte> bytes(8192);
  CHECK(memory.copy(bytes.data(), m.data(), bytes.size()) == -ESTALE);
  CHECK(memory.copy(bytes.data(), m.data(), 4096) == 0);
  CHECK(std::memcmp(bytes.data(), content.data(), 4096) == 0);
  mapping const other = memory.allocate(4096);  // the address space goes on
  other.as<char>()[0] = 1;
  CHECK(other.as<char>()[0] == 1);
}

TEST_CASE("shared io: it waits for calls that use the bytes, and launches wait for it") {
  shared_memory memory;
  constexpr std::uint64_t count = 300'000;
  auto const zeros = memory.allocate(count * 4), m = memory.allocate(count * 4);
  memory_file const out;
  auto expected = numbers(count, 0);
  fill_by_kernel(m, zeros, 0);
  for (unsigned round = 0; round < 10; ++round) {
    // No synchronize() in between.
    launch(mix_words, 4, 64, m.as<std::uint32_t>(), zeros.as<std::uint32_t const>(),
           std::uint64_t(0), count, round);
    for (std::uint64_t i = 0; i < count; ++i)
      expected[i] = expected[i] * 3 + std::uint32_t(i) + round;
    REQUIRE(memory.pwrite(out.fd(), m.data(), m.size(), 0) == std::int64_t(m.size()));
    REQUIRE(out.content<std::uint32_t>() == expected);
    expected[round] = 1;
    REQUIRE(memory.copy(m.as<std::uint32_t>() + round, &expected[round], 4) == 0);
  }
  memory.synchronize();
  CHECK(holds(m, expected));
}

TEST_CASE("shared io: nothing is lost while other threads launch with all objects") {
  shared_memory memory;
  constexpr std::uint64_t count = 50'000;
  auto const zeros = memory.allocate(count * 4), other = memory.allocate(count * 4);
  std::atomic<bool> stop{false};
  std::thread launches([&] {
    while (!stop) {
      launch(mix_words, 1, 32, other.as<std::uint32_t>(), zeros.as<std::uint32_t const>(),
             std::uint64_t(0), std::uint64_t(100), 1u);
      this_thread_stream().synchronize();
    }
  });
  std::vector<std::thread> callers;
  std::atomic<unsigned> wrong{0};
  for (std::uint32_t t = 0; t < 2; ++t) {
    callers.emplace_back([&, t] {
      auto const m = memory.allocate(count * 4, with(protocols[1 + t]));
      for (std::uint32_t round = 0; round < 30; ++round) {
        auto const expected = numbers(count, 1000 * round + t);
        memory_file const file(expected), out;
        bool const read = memory.read(file.fd(), m.data(), m.size()) == std::int64_t(m.size());
        bool const written = memory.write(out.fd(), m.data(), m.size()) == std::int64_t(m.size());
        if (!read || !written || out.content<std::uint32_t>() != expected) ++wrong;
      }
    });
  }
  for (auto& t : callers) t.join();
  stop = true;
  launches.join();
  CHECK(wrong == 0);
}

TEST_CASE("shared io: without wrappers the system refuses bytes of the device, as notes() tells") {
  mapping_config config;
  config.fault_handler =
      fault_handling::signal;  // userfaultfd brings the bytes for the system, too
  shared_memory memory(config);
  auto const zeros = memory.allocate(400), m = memory.allocate(400);
  fill_by_kernel(m, zeros, 3);
  memory.synchronize();
  memory_file const file(numbers(100, 0));
  CHECK(::pread(file.fd(), m.data(), 400, 0) == -1);
  CHECK(errno == EFAULT);
  CHECK(::pwrite(file.fd(), m.data(), 400, 0) == -1);
  CHECK(errno == EFAULT);
  REQUIRE(!memory.notes().empty());
  CHECK(memory.notes().back().find("gpufs_wrap_io()") != std::string::npos);
  CHECK(m.as<std::uint32_t>()[99] == 102);
}

TEST_CASE("shared io: a child of fork() cannot use objects, but its own memory") {
  shared_memory memory;
  auto const m = memory.allocate(mebi);
  memory_file const file(numbers(10, 0));
  pid_t const child = ::fork();
  if (child == 0) {
    char own[8];
    bool const right = memory.pread(file.fd(), m.data(), 8, 0) == -EFAULT &&
                       memory.pread(file.fd(), own, 8, 0) == 8 &&
                       memory.set(m.data(), 0, 8) == -EFAULT;
    ::_exit(right ? 0 : 1);
  }
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
