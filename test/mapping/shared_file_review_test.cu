// Objects with files where two things come together: errors and retries, discarded bytes and a disk
// that fails, no more mappings, ends of processes.
#include <gpufs/config.hpp>
#include <gpufs/mapping.hpp>

#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/child.hpp>
#include <test/support/files.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <numeric>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t kibi = 1 << 10, mebi = 1 << 20;

/// What the calls below do instead of what they say. 0: nothing.
std::atomic<int> syncs_to_refuse{0}, protections_to_refuse{0}, maps_to_refuse{0},
    threads_to_refuse{0};
/// Mappings that are made before one is refused.
std::atomic<int> maps_to_pass{0};
/// Reads of 4 MiB or less, told their offset before. Returns an error, or 0: read.
std::function<int(std::uint64_t)> on_read;

bool takes_one(std::atomic<int>& left) {
  for (int now = left.load(); now > 0;)
    if (left.compare_exchange_weak(now, now - 1)) return true;
  return false;
}

/// The test refuses mprotect, which only the handler of signals uses.
mapping_config by_signals() {
  mapping_config c;
  c.fault_handler = fault_handling::signal;
  return c;
}

// A pipe with three words.
struct full_pipe {
  std::array<std::uint32_t, 3> given{101, 102, 103};
  int ends[2];

  full_pipe() {
    REQUIRE(::pipe(ends) == 0);
    REQUIRE(::write(ends[1], given.data(), sizeof given) == ssize_t(sizeof given));
  }
  ~full_pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  full_pipe(full_pipe const&) = delete;
  full_pipe& operator=(full_pipe const&) = delete;
};

}  // namespace

// The library's calls come here.
extern "C" int fdatasync(int fd) {
  if (takes_one(syncs_to_refuse)) {
    errno = EIO;
    return -1;
  }
  return int(::syscall(SYS_fdatasync, fd));
}
extern "C" int pthread_create(pthread_t* made, pthread_attr_t const* attributes,
                              void* (*body)(void*), void* of) noexcept {
  if (takes_one(threads_to_refuse)) return EAGAIN;
  static auto const real =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  return real(made, attributes, body, of);
}
extern "C" int mprotect(void* at, std::size_t bytes, int protection) noexcept {
  // Pages of 4 KiB guard the stacks of the emulated device.
  if (bytes > 4096 && takes_one(protections_to_refuse)) {
    errno = ENOMEM;
    return -1;
  }
  return int(::syscall(SYS_mprotect, at, bytes, protection));
}
#if defined(GPUFS_EMULATED)
// What a device does in place of a failure: the emulated one cannot map what a call uses. The
// number of arguments is not known here, so this reads six, as the C library does.
extern "C" __attribute__((no_sanitize("address"))) long syscall(long number, ...) noexcept {
  using function = long (*)(long, long, long, long, long, long, long);
  static auto const real = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "syscall"));
  std::va_list all;
  va_start(all, number);
  long of[6];
  for (auto& each : of) each = va_arg(all, long);
  va_end(all);
  if (number == SYS_mmap && !takes_one(maps_to_pass) && takes_one(maps_to_refuse)) {
    errno = ENOMEM;
    return -1;
  }
  return real(number, of[0], of[1], of[2], of[3], of[4], of[5]);
}
#endif
extern "C" ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset) {
  if (int const error = on_read ? on_read(std::uint64_t(offset)) : 0; error != 0) {
    errno = error;
    return -1;
  }
  return ::syscall(SYS_pread64, fd, to, bytes, offset);
}

namespace {

std::vector<std::uint32_t> numbers(std::uint64_t count) {
  std::vector<std::uint32_t> all(count);
  std::iota(all.begin(), all.end(), 1u);
  return all;
}

__global__ void add_to_words(std::uint32_t* words, std::uint64_t count, std::uint32_t what) {
  for (auto i = thread_number(); i < count; i += thread_count()) words[i] += what;
}

void wait_for(std::atomic<bool> const& what) {
  while (!what.load()) ::sched_yield();
}

}  // namespace

TEST_CASE("refresh() leaves a scratch object what kernels have written to it") {
  named_file const file;
  shared_memory memory;
  mapping m = memory.map(
      file.path(),
      {.access = access::read_write, .create = true, .length = 64 * kibi, .scratch = true});
  launch(add_to_words, 1, 64, m.as<std::uint32_t>(), 16 * kibi, 3u);
  memory.synchronize();
  CHECK(m.refresh() == 0);
  CHECK(m.as<std::uint32_t>()[100] == 3);
}

TEST_CASE("scratch objects that are only read are refused: CPU and kernels would differ") {
  named_file const file(numbers(1024));
  shared_memory memory;
  CHECK_THROWS_AS(static_cast<void>(memory.map(file.path(), {.scratch = true})), config_error);
}

TEST_CASE("discarded bytes do not come back when an fdatasync fails") {
  for (bool const is_reread : {false, true}) {
    CAPTURE(is_reread);
    auto content = numbers(64 * kibi);
    named_file const file(content);
    shared_memory memory;
    mapping m = memory.map(file.path(), {.access = access::read_write});
    m.as<std::uint32_t>()[0] = content[0] = 77;
    CHECK(m.write_back() == 0);
    launch(add_to_words, 1, 64, m.as<std::uint32_t>(), 64 * kibi, 5u);
    memory.synchronize();
    CHECK(m.discard() == 0);
    syncs_to_refuse = 1;
    if (is_reread) CHECK(m.as<std::uint32_t>()[9] == content[9]);
    CHECK(m.sync() == -EIO);
    CHECK(m.as<std::uint32_t>()[9] == content[9]);
    m.as<std::uint32_t>()[10] = content[10] = 78;
    CHECK(m.sync() == -EIO);  // whether the disk has the first 77 is not known
    CHECK(file.content() == content);
    CHECK(m.remap(access::read) == -EIO);
    CHECK(m.discard() == 0);
    CHECK(m.sync() == 0);
    CHECK(file.content() == content);
  }
}

TEST_CASE("remap() reports a failed fdatasync of what was written before, and writes it again") {
  for (auto const use : {access::read, access::read_write}) {
    auto content = numbers(64 * kibi);
    named_file const file(content);
    shared_memory memory;
    mapping m = memory.map(file.path(), {.access = access::write});
    auto* const words = m.as<std::uint32_t>();
    words[0] = words[1] = content[0] = content[1] = 77;
    CHECK(m.write_back() == 0);
    syncs_to_refuse = 1;
    CHECK(m.remap(use) == -EIO);
    CHECK(m.stats().writeback_pages == 1);
    CHECK(m.remap(use) == 0);
    CHECK(m.stats().writeback_pages == 2);
    CHECK(file.content() == content);
    CHECK(words[9] == content[9]);
  }
}

TEST_CASE("a read that failed and is tried again beside the rest of the first fill") {
  constexpr std::uint64_t piece = 4 * mebi;
  auto const content = numbers(2 * piece / 4);
  named_file const file(content);
  mapping_config config;
  config.fill_threads = 2;
  shared_memory memory(config);
  mapping m = memory.map(file.path(), {.access = access::read_write});
  std::atomic<bool> has_failed{false}, second_goes{false}, again{false}, again_goes{false};
  std::atomic<int> reads_of_first{0};
  on_read = [&](std::uint64_t offset) {
    if (offset == piece) wait_for(second_goes);
    if (offset != 0) return 0;
    int const number = reads_of_first.fetch_add(1);
    if (number == 0) {
      has_failed = true;
      return EIO;
    }
    if (number == 1) {
      again = true;
      wait_for(again_goes);
    }
    return 0;
  };
  std::thread first([&] { CHECK(m.acquire(0, 2 * piece, access::read) == -EIO); });
  wait_for(has_failed);
  while (m.errors().empty()) ::sched_yield();
  std::thread second([&] { CHECK(m.acquire(0, piece, access::read) == 0); });
  wait_for(again);
  second_goes = true;
  first.join();
  // The first piece is still under way. A call waits for it, and does not read it again.
  std::atomic<bool> is_done{false};
  std::thread third([&] {
    shared_call call;
    call.reads_writes(m, 0, piece);
    launch(call, add_to_words, 1, 64, m.as<std::uint32_t>(), 1024, 5u);
    memory.synchronize();
    is_done = true;
  });
  for (int i = 0; i < 100'000 && !is_done; ++i) ::sched_yield();
  again_goes = true;
  second.join();
  third.join();
  on_read = nullptr;
  CHECK(m.as<std::uint32_t>()[100] == content[100] + 5);
  CHECK(reads_of_first == 2);
}

TEST_CASE("access write: words that nobody wrote stay in the file, also if the device fails") {
  auto content = numbers(64 * kibi);
  named_file const file(content);
  shared_memory memory(by_signals());
  mapping m = memory.map(file.path(), {.access = access::write, .block = 64 * kibi});
  auto* const words = m.as<std::uint32_t>();
  words[0] = words[1] = content[0] = content[1] = 7;
  protections_to_refuse = 1000;
  CHECK(m.acquire(64 * kibi, 4096, access::write) == -ENOMEM);
  {
    shared_call call;
    CHECK(call.reads_writes(m).release() == -ENOMEM);
  }
  protections_to_refuse = 0;
  if (current_device().kind == "emulated") {
    words[2] = words[3] = content[2] = content[3] = 8;  // the device was well still
    maps_to_refuse = 1;
    shared_call call;
    CHECK(call.reads(m).release() == -EIO);
    CHECK(maps_to_refuse == 0);
  }
  CHECK(m.write_back() == (current_device().kind == "emulated" ? -EIO : 0));
  CHECK(file.content() == content);
}

TEST_CASE("no more mappings: bytes of a file that the device lacks are read all the same") {
  auto const content = numbers(64 * kibi);
  named_file const file(content);
  shared_memory memory(by_signals());
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  protections_to_refuse = 1;
  CHECK(m.acquire(0, 64 * kibi, access::read) == 0);
  CHECK(protections_to_refuse == 0);
  CHECK(m.as<std::uint32_t>()[5] == content[5]);
  CHECK(m.as<std::uint32_t>()[40 * kibi] == content[40 * kibi]);
  m.as<std::uint32_t>()[40 * kibi] = 1;
  CHECK(m.as<std::uint32_t>()[40 * kibi + 1] == content[40 * kibi + 1]);
}

TEST_CASE("no more mappings: a call does not make bytes changed that the device lacks") {
  auto content = numbers(64 * kibi);
  named_file const file(content);
  mapping_config config = by_signals();
  config.detect_writes = write_detection::all;
  shared_memory memory(config);
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  CHECK(m.as<std::uint32_t>()[5] == content[5]);
  shared_call call;
  call.reads_writes(m, 0, 64 * kibi);
  protections_to_refuse = 1;
  launch(call, add_to_words, 1, 64, m.as<std::uint32_t>(), 16, 3u);
  CHECK(protections_to_refuse == 0);
  for (std::uint64_t i = 0; i < 16; ++i) content[i] += 3;
  CHECK(m.write_back() == 0);
  CHECK(file.content() == content);
}

TEST_CASE("no more mappings: what cannot be closed is not written back, and stays for later") {
  auto content = numbers(64 * kibi);
  named_file const file(content);
  shared_memory memory(by_signals());
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  auto* const words = m.as<std::uint32_t>();
  launch(add_to_words, 1, 64, words + 48 * kibi, 16, 3u);  // only the device has these
  memory.synchronize();
  words[5] = 7;
  {
    // The call keeps the object's blocks from being made alike.
    shared_call call;
    REQUIRE(call.reads(m, 192 * kibi, 4096).release() == 0);
    protections_to_refuse = 1;
    CHECK(m.sync() == -ENOMEM);
    CHECK(protections_to_refuse == 0);
    CHECK(file.content() == content);
  }
  words[5] = content[5] = 8;
  for (std::uint64_t i = 48 * kibi; i < 48 * kibi + 16; ++i) content[i] += 3;
  CHECK(m.sync() == 0);
  CHECK(file.content() == content);
}

TEST_CASE("no more mappings: blocks cannot be made alike either, and other calls go on") {
  auto content = numbers(64 * kibi);
  named_file const file(content);
  shared_memory memory(by_signals());
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  auto* const words = m.as<std::uint32_t>();
  launch(add_to_words, 1, 64, words + 48 * kibi, 16, 3u);
  memory.synchronize();
  for (std::uint64_t i = 48 * kibi; i < 48 * kibi + 16; ++i) content[i] += 3;
  words[5] = content[5] = 7;
  protections_to_refuse = 2;  // of the block, then of all of them
  CHECK(m.sync() == -ENOMEM);
  CHECK(protections_to_refuse == 0);
  CHECK(words[5] == 7);
  CHECK(m.sync() == 0);
  CHECK(file.content() == content);
  words[6] = content[6] = 9;
  launch(add_to_words, 1, 64, words, 1, 3u);
  content[0] += 3;
  memory.synchronize();
  words[7] = content[7] = 10;
  protections_to_refuse = 1000;  // nobody touches it any more, so unmap() needs none
  CHECK(m.unmap() == 0);
  protections_to_refuse = 0;
  CHECK(file.content() == content);
}

TEST_CASE("no more mappings: remap() gives -ENOMEM, and the object is as it was") {
  auto content = numbers(64 * kibi);
  named_file const file(content);
  shared_memory memory(by_signals());
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  auto* const words = m.as<std::uint32_t>();
  bool const is_emulated = current_device().kind == "emulated";
  words[5] = content[5] = 7;
  for (int const before : {0, 1}) {
    if (!is_emulated) break;  // its mappings can be refused
    maps_to_pass = before;
    maps_to_refuse = 1;
    CHECK(m.remap(access::read) == -ENOMEM);
    CHECK(maps_to_refuse == 0);
    words[6 + before] = content[6 + before] = 8;
    CHECK(words[5] == content[5]);
  }
  CHECK(m.remap(access::read) == 0);
  CHECK(words[5] == content[5]);
  protections_to_refuse = 1;
  CHECK(m.remap(access::read_write) == -ENOMEM);
  CHECK(protections_to_refuse == 0);
  CHECK(words[5] == content[5]);
  CHECK(m.remap(access::read_write) == 0);
  launch(add_to_words, 1, 64, words, 16, 3u);
  for (std::uint64_t i = 0; i < 16; ++i) content[i] += 3;
  words[40 * kibi] = content[40 * kibi] = 1;
  CHECK(m.unmap() == 0);
  CHECK(file.content() == content);
}

TEST_CASE("no more mappings: a call that does not begin leaves all objects as they were") {
  shared_memory memory(by_signals());
  mapping const small = memory.allocate(4096), large = memory.allocate(64 * kibi);
  auto* const first = small.as<std::uint32_t>();
  auto* const second = large.as<std::uint32_t>();
  first[0] = 1;
  second[0] = 2;
  protections_to_refuse = 1000;  // of more than 4 KiB: the smaller object is closed
  {
    shared_call call;
    CHECK(call.writes(small).writes(large).release() == -ENOMEM);
  }
  protections_to_refuse = 0;
  CHECK(first[0] == 1);
  CHECK(second[0] == 2);
  first[1] = 3;
  second[1] = 4;
  launch(add_to_words, 1, 32, first, 2, 10u);
  launch(add_to_words, 1, 32, second, 2, 20u);
  memory.synchronize();
  CHECK(first[0] == 11);
  CHECK(first[1] == 13);
  CHECK(second[0] == 22);
  CHECK(second[1] == 24);
}

TEST_CASE("no more mappings: what a pipe gave is in the memory, and in the file") {
  auto content = numbers(64 * kibi);
  named_file const file(content);
  shared_memory memory(by_signals());
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  auto* const words = m.as<std::uint32_t>();
  CHECK(words[5] == content[5]);  // on both sides from now on
  full_pipe const pipe;
  {
    // The call keeps the object's blocks from being made alike.
    shared_call call;
    REQUIRE(call.reads(m, 192 * kibi, 4096).release() == 0);
    protections_to_refuse = 2;
    CHECK(memory.read(pipe.ends[0], words + 7, sizeof pipe.given) ==
          std::int64_t(sizeof pipe.given));
    protections_to_refuse = 0;
  }
  std::ranges::copy(pipe.given, content.begin() + 7);
  CHECK(words[7] == 101);
  launch(add_to_words, 1, 32, words + 8, 1, 5u);
  content[8] += 5;
  CHECK(m.sync() == 0);
  CHECK(file.content() == content);
}

TEST_CASE("no more mappings: what a pipe gave is in memory that the device uses at the host") {
  auto content = numbers(64 * kibi);
  named_file const file(content);
  auto config = by_signals();
  config.device_memory = 1;
  config.host_memory = 4 * mebi;
  shared_memory memory(config);
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  auto* const words = m.as<std::uint32_t>();
  launch(add_to_words, 1, 32, words, 64 * kibi, 1u);  // its blocks are closed from now on
  for (auto& word : content) ++word;
  memory.synchronize();
  REQUIRE(m.tiers().host != 0);
  full_pipe const pipe;
  protections_to_refuse = 1000;
  CHECK(memory.read(pipe.ends[0], words + 7, sizeof pipe.given) == std::int64_t(sizeof pipe.given));
  protections_to_refuse = 0;
  std::ranges::copy(pipe.given, content.begin() + 7);
  CHECK(words[7] == 101);
  CHECK(words[6] == content[6]);
  launch(add_to_words, 1, 32, words + 8, 1, 5u);
  content[8] += 5;
  CHECK(m.sync() == 0);
  CHECK(file.content() == content);
}

TEST_CASE("no more mappings: refresh() and discard() close all blocks alike, and others go on") {
  named_file const file(numbers(64 * kibi));
  shared_memory memory(by_signals());
  mapping const other = memory.allocate(64 * kibi);
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  auto* const words = m.as<std::uint32_t>();
  words[0] = 77;  // only the CPU's side has this
  shared_call call;
  call.reads_writes(m, 64 * kibi, 64 * kibi);
  launch(call, add_to_words, 1, 64, words + 16 * kibi, 1, 3u);
  memory.synchronize();
  CHECK(words[32 * kibi] == 32 * kibi + 1);
  file.write({5}, 128 * kibi);
  protections_to_refuse = 1;
  CHECK(m.refresh() == 0);
  CHECK(protections_to_refuse == 0);
  CHECK(words[0] == 77);
  CHECK(words[16 * kibi] == 16 * kibi + 4);
  CHECK(words[32 * kibi] == 5);
  words[1] = 78;
  protections_to_refuse = 1000;
  CHECK(m.discard() == -ENOMEM);
  protections_to_refuse = 0;
  CHECK(words[1] == 78);
  CHECK(words[32 * kibi] == 5);
  protections_to_refuse = 1;
  CHECK(m.discard() == 0);
  CHECK(protections_to_refuse == 0);
  for (std::uint64_t const i : {0, 1, 16 * 1024}) CHECK(words[i] == i + 1);
  words[1] = 79;
  CHECK(m.sync() == 0);
  CHECK(file.content()[1] == 79);
  launch(add_to_words, 1, 64, other.as<std::uint32_t>(), 16 * kibi, 3u);
  memory.synchronize();
  CHECK(other.as<std::uint32_t>()[9] == 3);
}

TEST_CASE("no more mappings: a touch beside a call waits for its end") {
  auto const content = numbers(64 * kibi);
  named_file const file(content);
  shared_memory memory(by_signals());
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  auto* const words = m.as<std::uint32_t>();
  launch(add_to_words, 1, 64, words, 64 * kibi, 3u);
  memory.synchronize();
  shared_call call;
  REQUIRE(call.reads(m, 192 * kibi, 4096).release() == 0);
  protections_to_refuse = 1;
  std::thread toucher([&] { CHECK(words[5] == content[5] + 3); });
  while (protections_to_refuse != 0) ::sched_yield();
  call.launched();
  toucher.join();
  CHECK(words[20 * kibi] == content[20 * kibi] + 3);
}

TEST_CASE("access write: the page that the object ends in is not written if nobody wrote to it") {
  auto content = numbers(4 * kibi);
  named_file const file(content);
  mapping_config config;
  config.detect_writes = write_detection::all;
  shared_memory memory(config);
  mapping m = memory.map(file.path(), {.access = access::write, .length = 4096 + 12});
  m.as<std::uint32_t>()[0] = m.as<std::uint32_t>()[1] = content[0] = content[1] = 9;
  CHECK(m.write_back() == 0);
  CHECK(m.stats().writeback_pages == 1);
  CHECK(file.content() == content);
}

TEST_CASE("a file keeps its bytes if it cannot be mapped for want of memory") {
  auto const content = numbers(4 * kibi);
  named_file const file(content);
  shared_memory memory;
  CHECK_THROWS_AS(
      static_cast<void>(memory.map(
          file.path(),
          {.access = access::write, .create = true, .truncate = true, .length = 1ull << 62})),
      shared_memory_error);
  CHECK(file.content() == content);
}

TEST_CASE("a thread may release a second call while a write-back waits for its first") {
  named_file const file(numbers(32 * kibi));
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write, .block = 64 * kibi});
  shared_call first, second;
  first.writes(m, 0, 64 * kibi);
  second.writes(m, 64 * kibi, 64 * kibi);
  REQUIRE(first.release() == 0);
  std::thread writer([&] { CHECK(m.write_back() == 0); });
  for (int i = 0; i < 10'000; ++i) ::sched_yield();  // it waits by now, most probably
  std::atomic<bool> is_done{false};
  std::thread releaser([&] {
    CHECK(second.release() == 0);
    is_done = true;
  });
  while (!is_done) ::sched_yield();
  first.launched();
  releaser.join();
  second.launched();
  writer.join();
}

TEST_CASE("child: ends while a file is read ahead") {
  if (!is_part("ends while a file is read ahead")) return;
  on_read = [](std::uint64_t) {
    ::sched_yield();
    return 0;
  };
  auto& memory = *new shared_memory;
  static_cast<void>(new mapping(memory.map(given_path())));
  static_cast<void>(
      new mapping(memory.map(given_path(), {.access = access::read_write, .eager = true})));
  std::exit(0);
}

TEST_CASE("a process may end while a file is read ahead") {
  named_file const file(std::vector<std::uint32_t>(16 * mebi / 4, 5));
  for (int round = 0; round < 20; ++round) {
    child c("ends while a file is read ahead", file.path());
    CHECK(c.succeeds());
  }
}

TEST_CASE("no thread to be had: the caller writes changed bytes itself, and reads absent ones") {
  constexpr std::uint64_t count = 3 * mebi;
  auto content = numbers(count);
  named_file const file(content);
  shared_memory memory;
  mapping m = memory.map(file.path(), {.access = access::read_write, .eager = false});
  auto* const words = m.as<std::uint32_t>();
  words[5] = content[5] = 7;
  CHECK(m.write_back() == 0);  // one lane is there from now on
  threads_to_refuse = 1000;
  CHECK(m.acquire(0, m.size(), access::read_write) == 0);
  for (std::uint64_t i = 0; i < count; i += 1000) words[i] = content[i] = 9;
  CHECK(m.unmap() == 0);
  CHECK(threads_to_refuse.exchange(0) < 1000);
  CHECK(file.content() == content);
}
