// Host code of block files when an allocation fails: an error or an exception, and afterwards
// everything works. The program has an operator new that fails when it is told to.
#include <host-daemon/backend/attached_files.hpp>
#include <host-daemon/backend/host_storage.hpp>

#include <test/nvme/volume_scene.hpp>
#include <test/support/settings.hpp>

#include <doctest/doctest.h>
#include <nvme-controller/address_map.hpp>
#include <nvme-controller/kept_flushes.hpp>
#include <nvme-host/drive_counters.hpp>
#include <nvme-host/vfio.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

// Allocations of the thread until one fails. Below 0: none does.
thread_local long allocations_left = -1;
// The same of all threads but the test's.
std::atomic<long> allocations_left_to_others{-1};
thread_local bool is_of_test = false;

bool fails_for_others() {
  if (is_of_test) return false;
  for (long left = allocations_left_to_others; left >= 0;)
    if (allocations_left_to_others.compare_exchange_weak(left, left - 1)) return left == 0;
  return false;
}

/// Calls `call()`, whose allocation number `which` fails. Returns whether there was one.
template <class Call>
bool without_memory(long which, Call const& call) {
  allocations_left = which;
  try {
    call();
  } catch (std::bad_alloc const&) {
  }
  bool const failed = allocations_left < 0;
  allocations_left = -1;
  return failed;
}

}  // namespace

// Not inlined: the compiler would see malloc() beside delete.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  bool const fails = fails_for_others() || (allocations_left >= 0 && allocations_left-- == 0);
  void* const memory = fails ? nullptr : std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc{};
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

/// The descriptor of a container of vfio that maps all memory.
constexpr int fake_container = 1'000'000;
static int mapped_for_drive = 0;

extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
  std::va_list rest;
  va_start(rest, request);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  if (fd != fake_container) return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
  if (request == VFIO_IOMMU_MAP_DMA) ++mapped_for_drive;
  if (request == VFIO_IOMMU_UNMAP_DMA) --mapped_for_drive;
  if (request == VFIO_IOMMU_MAP_DMA || request == VFIO_IOMMU_UNMAP_DMA) return 0;
  errno = ENOTTY;
  return -1;
}

TEST_CASE("no memory: a status that cannot be counted is no exception") {
  nvme_host::drive_counters counters;
  bool threw = false;
  allocations_left = 0;
  try {
    counters.failed(0x281);
  } catch (std::bad_alloc const&) {
    threw = true;
  }
  allocations_left = -1;
  CHECK(!threw);
  CHECK(counters.errors().empty());
  counters.failed(0x281);
  CHECK(counters.errors()[0x281] == 1);
}

TEST_CASE("no memory: a range that could not be added keeps no other one") {
  struct scene {
    nvme_controller::address_map map;
    std::atomic<bool> removed{false};
  };
  auto const s = std::make_shared<scene>();
  std::byte memory[1];
  s->map.add({4096, 1, memory});
  long which = 0;
  while (without_memory(which, [&] { s->map.add({8192, 1, memory}); })) ++which;
  CHECK(which > 2);
  std::thread remover([s] {
    s->map.remove(4096);
    s->removed = true;
  });
  try {
    wait_until([&] { return s->removed.load(); }, "the end of a removal");
    remover.join();
  } catch (std::runtime_error const&) {
    remover.detach();
  }
  CHECK(s->removed);
}

TEST_CASE("no memory: a reset without memory is an error, and a later one succeeds") {
  volume_scene s{{.members = 2, .volume = {.stripe = 4096}}};
  auto const what = random_bytes(3, 3 * 4096);
  REQUIRE(s.write(what, 0) == std::int64_t(what.size()));
  auto const& drives = s.v->drives();
  bool fails = true;
  for (long which = 0; fails; ++which) {
    CAPTURE(which);
    std::vector<std::byte> room(what.size());
    s.faults[1]->fail = true;
    wait_until([&] { return s.v->read(room, 0) < std::int64_t(room.size()); }, "a failure");
    s.faults[1]->fail = false;
    fails = without_memory(which, [&] { static_cast<void>(s.v->read(room, 0)); });
    CHECK(!drives[0]->is_resetting());
    CHECK(!drives[1]->is_resetting());
    wait_until([&] { return s.read(0, what.size()) == what; }, "right bytes");
    // Waits for the lock of a thread that has not left.
    s.faults[0]->fail = true;
    wait_until([&] { return s.v->read(room, 0) < 0; }, "a failure of the other drive");
    s.faults[0]->fail = false;
    wait_until([&] { return s.read(0, what.size()) == what; }, "right bytes");
  }
}

TEST_CASE("no memory: threads of the controller answer, or their driver resets it") {
  is_of_test = true;
  // A lost answer takes that long.
  volume_scene s{
      {.members = 2, .volume = {.stripe = 4096, .timeout = std::chrono::milliseconds{500}}}};
  auto const what = random_bytes(4, 64 * 4096);
  for (long which = 0, done = 0; done < 3; ++which) {
    CAPTURE(which);
    allocations_left_to_others = which;
    std::vector<std::byte> room(what.size());
    auto const written = s.write(what, 0);
    auto const read = s.v->read(room, 0);
    bool const failed = allocations_left_to_others.exchange(-1) < 0;
    done = failed ? 0 : done + 1;  // no more than `which` are asked for
    if (written == std::int64_t(what.size()) && read == written) CHECK(room == what);
    wait_until([&] { return s.write(what, 0) == std::int64_t(what.size()); }, "a write");
    wait_until([&] { return s.read(0, what.size()) == what; }, "right bytes");
  }
}

TEST_CASE("no memory: memory that a drive could reach is taken back, or was never mapped") {
  nvme_host::vfio_space space{fake_container};
  std::byte memory[1];
  for (long which = 0;; ++which) {
    CAPTURE(which);
    std::uint64_t bus = 0;
    bool const failed = without_memory(which, [&] { bus = space.map(memory, 4096); });
    CHECK(mapped_for_drive == (failed ? 0 : 1));
    if (failed) continue;
    CHECK(which > 1);
    CHECK(bus == 65536);  // those that failed have given their addresses back
    break;
  }
  space.unmap(memory, 4096);
  CHECK(mapped_for_drive == 0);
}

TEST_CASE("no memory: a flush without an answer takes no others with it") {
  using nvme_controller::kept_flushes;
  nvme_controller::memory_namespace quick{4096, 512};
  hanging_disk slow{std::make_shared<nvme_controller::memory_namespace>(4096, 512)};
  struct release_at_end {
    hanging_disk& disk;
    ~release_at_end() { disk.release(); }
  };
  kept_flushes flushes;
  release_at_end const guard{slow};
  slow.hangs = true;
  for (std::uint16_t cid : {1, 2, 3}) REQUIRE(flushes.start(quick, {1, cid}));
  REQUIRE(flushes.start(slow, {1, 4}));
  wait_until([&] { return slow.hanging != 0; }, "the last flush");  // the others have ended
  std::vector<std::uint16_t> answered;
  kept_flushes::receiver const to = [&](kept_flushes::command const& of, std::uint16_t) {
    answered.push_back(of.cid);
  };
  CHECK(without_memory(0, [&] { flushes.collect(to); }));
  CHECK(flushes.count() == 3);
  CHECK(flushes.collect(to));
  slow.release();
  flushes.finish(to);
  CHECK(answered == std::vector<std::uint16_t>{2, 3, 4});
  CHECK(flushes.count() == 0);
}

TEST_CASE("no memory: the status of a file with a long name needs none") {
  daemon::attached_files files{"x:", std::make_shared<daemon::host_storage>()};
  std::string const path = "x:" + std::string(100, 'a');
  struct ::stat status {};
  int result = 0;
  without_memory(0, [&] { result = files.status(path, status); });
  CHECK(result == -ENOENT);
}
