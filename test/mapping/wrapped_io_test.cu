// A program that is linked with gpufs_wrap_io(): its own I/O and copies take shared memory.
#include <gpufs/mapping.hpp>
#include <gpufs/mapping_windows.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/memory_file.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;
constexpr coherence_protocol protocols[] = {coherence_protocol::batch, coherence_protocol::lazy,
                                            coherence_protocol::rolling};
using words = std::vector<std::uint32_t>;
using file_pointer = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

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

/// An object whose words a kernel has made i + salt, so that they are at home on the device.
mapping made_by_kernel(shared_memory& memory, std::uint64_t count, std::uint32_t salt,
                       coherence_protocol p = coherence_protocol::rolling) {
  auto const zeros = memory.allocate(count * 4);
  auto m = memory.allocate(count * 4, with(p));
  shared_call call;
  call.reads(zeros).reads_writes(m);
  launch(call, mix_words, 4, 64, m.as<std::uint32_t>(), zeros.as<std::uint32_t const>(),
         std::uint64_t(0), count, salt);
  return m;
}

bool holds(mapping const& m, words const& expected) {
  return m.size() == expected.size() * 4 && std::memcmp(m.data(), expected.data(), m.size()) == 0;
}

// By their addresses: compilers make other calls of some, with sanitizers or short counts.
void* (*volatile copy_memory)(void*, void const*, std::size_t) = &std::memcpy;
void* (*volatile move_memory)(void*, void const*, std::size_t) = &std::memmove;
void* (*volatile set_memory)(void*, int, std::size_t) = &std::memset;

file_pointer opened(memory_file const& file, char const* mode) {
  file_pointer f(::fdopen(::dup(file.fd()), mode), &std::fclose);
  REQUIRE(f != nullptr);
  return f;
}

}  // namespace

TEST_CASE("wrapped io: every call moves bytes of the device without a fault") {
  constexpr std::uint64_t count = 2 * mebi + 77, bytes = count * 4;
  for (auto const protocol : protocols) {
    CAPTURE(int(protocol));
    shared_memory memory;
    for (auto const& note : memory.notes()) CHECK(note.find("gpufs_wrap_io()") == note.npos);
    auto const m = made_by_kernel(memory, count, 9, protocol);
    auto const expected = numbers(count, 9), other = numbers(count, 777);
    auto const before = m.stats();
    memory_file const a, b, in(other);
    REQUIRE(::write(a.fd(), m.data(), bytes) == ssize_t(bytes));
    CHECK(a.content<std::uint32_t>() == expected);
    REQUIRE(::pwrite(b.fd(), m.data(), bytes, 8) == ssize_t(bytes));
    CHECK(b.content<std::uint32_t>().size() == count + 2);
    auto const c = opened(b, "r+");
    REQUIRE(std::fwrite(m.data(), 4, count, c.get()) == count);
    REQUIRE(std::fflush(c.get()) == 0);
    words plain(count);
    copy_memory(plain.data(), m.data(), bytes);
    CHECK(plain == expected);
    REQUIRE(::pread(in.fd(), m.data(), bytes - 40, 40) == ssize_t(bytes - 40));
    REQUIRE(::read(in.fd(), m.data(), bytes) == ssize_t(bytes));
    auto const d = opened(in, "r");
    std::rewind(d.get());
    REQUIRE(std::fread(m.data(), 4, count, d.get()) == count);
    move_memory(m.data(), m.as<std::uint32_t>() + 1, bytes - 4);
    set_memory(m.data(), 7, mebi);
    auto const moved = m.stats() - before;
    CHECK(moved.faults_read + moved.faults_write == 0);
    CHECK(moved.io_d2h_bytes == 5 * bytes - 4);
    auto left = other;
    std::memmove(left.data(), left.data() + 1, bytes - 4);
    std::memset(left.data(), 7, mebi);
    memory.synchronize();
    CHECK(holds(m, left));
  }
}

TEST_CASE("wrapped io: no bytes, one byte, parts of blocks, ends of files") {
  shared_memory memory;
  auto const m = made_by_kernel(memory, 100'000, 0);
  auto* const bytes = m.as<char>();
  memory_file const file(numbers(1000, 5));
  CHECK(::read(file.fd(), bytes, 0) == 0);
  CHECK(::write(file.fd(), bytes, 0) == 0);
  CHECK(::read(file.fd(), bytes + 64 * kibi - 1, 1) == 1);
  CHECK(::read(file.fd(), bytes + 64 * kibi, 3) == 3);
  CHECK(::pread(file.fd(), bytes + 128 * kibi - 100, 300'000, 0) == 4000);
  CHECK(::read(file.fd(), bytes, 300'000) == 3996);
  CHECK(::read(file.fd(), bytes, 1) == 0);
  auto const f = opened(file, "r+");
  CHECK(std::fread(bytes, 0, 9, f.get()) == 0);
  CHECK(std::fread(bytes, 9, 0, f.get()) == 0);
  CHECK(std::fwrite(bytes, 0, 9, f.get()) == 0);
  std::rewind(f.get());
  CHECK(std::fread(bytes, 3000, 5, f.get()) == 1);  // 4000 bytes, of which 1000 are no item
  CHECK(std::feof(f.get()) != 0);
  CHECK(std::ferror(f.get()) == 0);
  CHECK(std::fread(bytes, 1, 1, f.get()) == 0);
  auto expected = numbers(100'000, 0);
  auto* const all = reinterpret_cast<char*>(expected.data());
  auto const content = numbers(1000, 5);
  std::memcpy(all + 64 * kibi - 1, content.data(), 4);
  std::memcpy(all + 128 * kibi - 100, content.data(), 4000);
  std::memcpy(all, reinterpret_cast<char const*>(content.data()) + 4, 3996);
  std::memcpy(all, content.data(), 4000);
  CHECK(holds(m, expected));
}

TEST_CASE("wrapped io: a count beyond the object ends with it, as at the end of valid memory") {
  shared_memory memory;
  auto const m = memory.allocate(1000);
  memory_file const small(numbers(10, 0)), large(numbers(1000, 0)), out;
  CHECK(::pread(small.fd(), m.data(), 100'000, 0) == 40);
  CHECK(::pread(large.fd(), m.data(), 100'000, 0) == 1000);
  CHECK(::write(out.fd(), m.data(), 100'000) == 1000);
  auto const f = opened(small, "r");
  std::rewind(f.get());
  CHECK(std::fread(m.data(), 1, 100'000, f.get()) == 40);
  CHECK(std::feof(f.get()) != 0);
}

TEST_CASE("wrapped io: errors are those of the system calls") {
  shared_memory memory;
  auto m = memory.allocate(10 * mebi);
  auto* const bytes = m.as<char>();
  memory_file const file(numbers(10, 0));
  auto const fails = [](ssize_t result, int error) { return result == -1 && errno == error; };
  CHECK(fails(::read(-1, bytes, 1), EBADF));
  CHECK(fails(::write(-1, bytes, 1), EBADF));
  CHECK(fails(::pread(-1, bytes, 1, 0), EBADF));
  CHECK(fails(::pwrite(-1, bytes, 1, 0), EBADF));
  CHECK(fails(::pread(file.fd(), bytes, 1, -1), EINVAL));
  int const folder = ::open("/", O_RDONLY | O_CLOEXEC);
  CHECK(fails(::read(folder, bytes, 1), EISDIR));
  ::close(folder);
  int const full = ::open("/dev/full", O_RDWR | O_CLOEXEC);
  CHECK(fails(::write(full, bytes, 10 * mebi), ENOSPC));
  file_pointer const f(::fdopen(full, "w"), &std::fclose);
  errno = 0;
  CHECK(std::fwrite(bytes, 1, 10 * mebi, f.get()) < 10 * mebi);
  CHECK(std::ferror(f.get()) != 0);
  CHECK(errno == ENOSPC);
  std::clearerr(f.get());
  auto const unreadable = opened(file, "w");
  CHECK(std::fread(bytes, 1, 1, unreadable.get()) == 0);
  CHECK(std::ferror(unreadable.get()) != 0);

  {
    named_file const below(numbers(1000, 1));
    auto const only_read = memory.map(below.path());
    CHECK(fails(::pread(file.fd(), only_read.data(), 1, 0), EFAULT));
    auto const g = opened(file, "r");
    CHECK(std::fread(only_read.data(), 1, 1, g.get()) == 0);
    CHECK(std::ferror(g.get()) != 0);
    CHECK(errno == EFAULT);
  }

  // Memory without an object.
  auto* const gone = m.data();
  REQUIRE(m.unmap() == 0);
  CHECK(fails(::pread(file.fd(), gone, 1, 0), EFAULT));
  void* volatile nothing = nullptr;
  CHECK(fails(::pread(file.fd(), nothing, 1, 0), EFAULT));
  errno = 5;
  words plain(mebi), more(mebi, 3);
  std::memcpy(plain.data(), more.data(), 4 * mebi);
  CHECK(errno == 5);
  CHECK(plain == more);
}

TEST_CASE("wrapped io: a FILE's buffer, ungetc and other calls in between") {
  shared_memory memory;
  constexpr std::uint64_t count = 3 * mebi;
  auto const m = made_by_kernel(memory, count, 0);
  auto const content = numbers(count, 0x01020304);
  auto const* const expected = reinterpret_cast<char const*>(content.data());
  auto* const bytes = m.as<char>();
  memory_file const file(content);
  auto const f = opened(file, "r+");
  char own[100];
  CHECK(std::fread(own, 1, 10, f.get()) == 10);  // fills the buffer
  CHECK(std::fread(bytes, 1, 5 * mebi, f.get()) == 5 * mebi);
  CHECK(std::memcmp(bytes, expected + 10, 5 * mebi) == 0);
  CHECK(std::fgetc(f.get()) == expected[10 + 5 * mebi]);
  CHECK(std::ungetc('x', f.get()) == 'x');
  CHECK(std::fread(bytes, 1, 100, f.get()) == 100);
  CHECK(bytes[0] == 'x');
  CHECK(std::memcmp(bytes + 1, expected + 11 + 5 * mebi, 99) == 0);
  CHECK(std::ftell(f.get()) == 5 * long(mebi) + 110);
  CHECK(std::fseek(f.get(), 1000, SEEK_SET) == 0);
  CHECK(std::fputs("abc", f.get()) >= 0);
  std::memset(bytes, 'y', 200'000);
  CHECK(std::fwrite(bytes, 100, 2000, f.get()) == 2000);
  CHECK(std::fputc('z', f.get()) == 'z');
  CHECK(std::fflush(f.get()) == 0);
  bool is_free = false;  // for other threads
  std::thread([&] {
    is_free = ::ftrylockfile(f.get()) == 0;
    if (is_free) ::funlockfile(f.get());
  }).join();
  CHECK(is_free);
  auto const written = file.content<char>();
  CHECK(std::memcmp(written.data() + 1000, "abcy", 4) == 0);
  CHECK(written[1002 + 200'000] == 'y');
  CHECK(written[1003 + 200'000] == 'z');
  CHECK(std::memcmp(written.data() + 1004 + 200'000, expected + 1004 + 200'000, 1000) == 0);
  CHECK(written.size() == count * 4);
}

TEST_CASE("wrapped io: a pipe gives what it has; a signal interrupts a read (EINTR)") {
  shared_memory memory;
  auto const m = memory.allocate(8 * mebi);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  REQUIRE(::write(ends[1], "abcdef", 6) == 6);
  CHECK(::read(ends[0], m.data(), 8 * mebi) == 6);
  CHECK(std::memcmp(m.data(), "abcdef", 6) == 0);
  struct sigaction interrupts {};
  interrupts.sa_handler = [](int) {};
  struct sigaction before {};
  REQUIRE(::sigaction(SIGUSR1, &interrupts, &before) == 0);
  std::atomic<bool> is_back{false};
  pthread_t const reader = ::pthread_self();
  std::thread sender([&] {  // the first signals may come too early
    while (!is_back) {
      ::pthread_kill(reader, SIGUSR1);
      std::this_thread::yield();
    }
  });
  auto const result = ::read(ends[0], m.data(), 1);
  int const error = errno;
  is_back = true;
  sender.join();
  CHECK(result == -1);
  CHECK(error == EINTR);
  REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("wrapped io: two address spaces, and none") {
  auto const content = numbers(100'000, 4);
  memory_file const file(content);
  words plain(100'000);
  CHECK(::pread(file.fd(), plain.data(), 400'000, 0) == 400'000);
  CHECK(plain == content);
  {
    shared_memory first, second;
    auto const a = made_by_kernel(first, 100'000, 50), b = made_by_kernel(second, 100'000, 60);
    std::memcpy(a.data(), b.data(), 400'000);
    CHECK(holds(a, numbers(100'000, 60)));
    CHECK(::pread(file.fd(), b.data(), 400'000, 0) == 400'000);
    CHECK(first.copy(a.data(), b.data(), 400'000) == 0);
    CHECK(holds(a, content));
    CHECK(holds(b, content));
  }
  CHECK(::pread(file.fd(), plain.data(), 400'000, 0) == 400'000);
}

namespace {
__global__ void copy_in_kernel(char* to, char const* from, std::uint64_t bytes) {
  if (thread_number() == 0) memcpy(to, from, bytes);
}
}  // namespace

TEST_CASE("wrapped io: a kernel's own memcpy does not wait for its call") {
  shared_memory memory;
  auto const m = made_by_kernel(memory, 100'000, 1);
  auto const to = memory.allocate(m.size());
  launch(copy_in_kernel, 1, 32, to.as<char>(), m.as<char const>(), m.size());
  memory.synchronize();
  CHECK(holds(to, numbers(100'000, 1)));
}

TEST_CASE("wrapped io: random calls on random parts agree with plain memory and a plain file") {
  auto const seed = gpufs::test::seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr std::uint64_t bytes = 3 * mebi + 123;
  shared_memory memory({.rolling_size = 2});
  auto const zeros = memory.allocate(bytes + 1);
  auto const m = memory.allocate(bytes, with(protocols[random() % 3]));
  std::vector<char> plain(bytes), content(bytes), other(bytes);
  for (auto& c : content) c = char(random());
  memory_file const file(content);
  auto const f = opened(file, "r+");
  auto* const all = m.as<char>();
  for (int step = 0; step < 200; ++step) {
    auto const n = random() % (random() % 4 == 0 ? bytes : 100'000);
    auto const at = random() % (bytes - n + 1), from = random() % (bytes - n + 1);
    switch (random() % 8) {
      case 0:
        REQUIRE(::pread(file.fd(), all + at, n, off_t(from)) == ssize_t(n));
        std::memcpy(plain.data() + at, content.data() + from, n);
        break;
      case 1:
        REQUIRE(std::fflush(f.get()) == 0);
        REQUIRE(::pwrite(file.fd(), all + at, n, off_t(from)) == ssize_t(n));
        std::memcpy(content.data() + from, plain.data() + at, n);
        break;
      case 2:
        REQUIRE(std::fseek(f.get(), long(from), SEEK_SET) == 0);
        REQUIRE(std::fflush(f.get()) == 0);
        REQUIRE(std::fread(all + at, 1, n, f.get()) == n);
        std::memcpy(plain.data() + at, content.data() + from, n);
        break;
      case 3:
        REQUIRE(std::fseek(f.get(), long(from), SEEK_SET) == 0);
        REQUIRE(std::fwrite(all + at, 1, n, f.get()) == n);
        REQUIRE(std::fflush(f.get()) == 0);
        std::memcpy(content.data() + from, plain.data() + at, n);
        break;
      case 4:
        move_memory(all + at, all + from, n);
        std::memmove(plain.data() + at, plain.data() + from, n);
        break;
      case 5:
        set_memory(all + at, int(step), n);
        std::memset(plain.data() + at, int(step), n);
        break;
      case 6:
        copy_memory(other.data(), all + at, n);
        REQUIRE(std::memcmp(other.data(), plain.data() + at, n) == 0);
        break;
      default: {
        launch(mix_words, 2, 64, m.as<std::uint32_t>(), zeros.as<std::uint32_t const>(),
               std::uint64_t(0), bytes / 4, std::uint32_t(step));
        if (random() % 2 == 0) memory.synchronize();
        words mixed(bytes / 4);
        std::memcpy(mixed.data(), plain.data(), bytes / 4 * 4);
        for (std::uint64_t i = 0; i < mixed.size(); ++i)
          mixed[i] = mixed[i] * 3 + std::uint32_t(i) + std::uint32_t(step);
        std::memcpy(plain.data(), mixed.data(), bytes / 4 * 4);
      }
    }
    memory.synchronize();
  }
  CHECK(std::memcmp(all, plain.data(), bytes) == 0);
  CHECK(file.content<char>() == content);
}

TEST_CASE("wrapped io: the body of a loop over windows reads into another object") {
  constexpr std::uint64_t count = 2 * mebi, bytes = count * 4;
  shared_memory memory;
  auto const looped = memory.allocate(bytes);
  auto const content = numbers(count, 8);
  memory_file const file(content);
  unsigned windows = 0;
  auto const body = [&](memory_window const& w) {
    ++windows;
    auto const m = made_by_kernel(memory, count, 9);  // the device has its bytes
    memory.synchronize();
    auto const f = opened(file, "r");
    std::rewind(f.get());
    REQUIRE(std::fread(m.data(), 4, count, f.get()) == count);
    CHECK(holds(m, content));
    launch({.grid = 4, .block = 64, .on = &w.on()}, add_to_all, w.as<std::uint32_t>(0), w.count,
           1u);
  };
  CHECK(for_each_window(memory, {{&looped, access::read_write, 4}}, body, {.items = count / 2}) ==
        0);
  CHECK(windows == 2);
  memory.synchronize();
  CHECK(holds(looped, words(count, 1)));
}

TEST_CASE("wrapped io: objects in managed memory beside others") {
  constexpr std::uint64_t count = 500'000, half = count / 2;
  shared_memory memory;
  auto const a = made_by_kernel(memory, count, 7);
  auto const m = memory.allocate(count * 4, {.backing = memory_backing::managed});
  auto const from_kernel = numbers(count, 7);
  CHECK(copy_memory(m.data(), a.data(), half * 4) == m.data());
  memory_file const file;
  CHECK(::write(file.fd(), m.data(), half * 4) == ssize_t(half * 4));
  CHECK(::write(file.fd(), a.as<std::uint32_t>() + half, half * 4) == ssize_t(half * 4));
  CHECK(file.content<std::uint32_t>() == from_kernel);
  auto const content = numbers(count, 1000);
  file.fill(content);
  auto const in = opened(file, "r");
  CHECK(std::fread(m.data(), 4, half, in.get()) == half);
  CHECK(std::fread(a.as<std::uint32_t>() + half, 4, half, in.get()) == half);
  CHECK(copy_memory(a.data(), m.data(), half * 4) == a.data());
  CHECK(a.stats().faults_read + a.stats().faults_write == 0);
  CHECK(holds(a, content));
  // A kernel gets them, too.
  CHECK(set_memory(m.data(), 0, m.size()) == m.data());
  shared_call call;
  call.reads(a).reads_writes(m);
  launch(call, mix_words, 4, 64, m.as<std::uint32_t>(), a.as<std::uint32_t const>(),
         std::uint64_t(0), count, 0u);
  memory.synchronize();
  CHECK(m.as<std::uint32_t>()[count - 1] == 1000 + 2 * (count - 1));
}
