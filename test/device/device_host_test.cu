// What the host may rely on: launches, streams, events, buffers. Claimed of both devices.
#include <gpufs/device.hpp>

#include <test/support/device_buffers.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

using gpufs::atomic_ref;
using gpufs::buffer;
using gpufs::launch;
using gpufs::launch_options;
using gpufs::pinned_buffer;
using gpufs::scope;
using gpufs::stream;
using gpufs::test::contents;
using gpufs::test::wait_for;
using gpufs::test::zeroed;

namespace {

__global__ void meet_other_kernel(std::uint32_t* mine, std::uint32_t* other) {
  atomic_ref<std::uint32_t, scope::system>(*mine).store(1, gpufs::memory_order_release);
  wait_for(*other, 1);
}

__global__ void wait_and_answer(std::uint32_t* from_host, std::uint32_t* from_device) {
  wait_for(*from_host, 1);
  atomic_ref<std::uint32_t, scope::system>(*from_device).store(2, gpufs::memory_order_release);
}

__global__ void append(int* log, int* length, int value) { log[(*length)++] = value; }

// Takes long enough for the host to ask meanwhile.
__global__ void answer_late(std::uint32_t* counter, std::uint32_t* from_device) {
  for (int i = 0; i < 20000; ++i)
    atomic_ref<std::uint32_t, scope::device>(*counter).fetch_add(1, gpufs::memory_order_relaxed);
  *from_device = 2;
}

struct by_value {
  int values[4];
};
__global__ void modify_argument(by_value argument, int* out) {
  argument.values[1] += int(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = argument.values[1];
}

}  // namespace

TEST_CASE("device: kernels of two streams run at once") {
  pinned_buffer<std::uint32_t> flags(2);
  flags.fill_zero();
  stream a;
  stream b;
  launch(launch_options{.on = &a}, meet_other_kernel, &flags[0], &flags[1]);
  launch(launch_options{.on = &b}, meet_other_kernel, &flags[1], &flags[0]);
  a.synchronize();
  b.synchronize();
  CHECK(a.done());
  CHECK(b.done());
}

TEST_CASE("device: a stream runs its kernels in order") {
  auto log = zeroed<int>(100);
  auto length = zeroed<int>(1);
  stream s;
  for (int i = 0; i < 100; ++i)
    launch(launch_options{.on = &s}, append, log.data(), length.data(), i);
  s.synchronize();
  auto const host = contents(log);
  for (int i = 0; i < 100; ++i) REQUIRE(host[i] == i);
}

TEST_CASE("device: synchronize() waits for streams that another thread is destroying, too") {
  auto counter = zeroed<std::uint32_t>(1);
  for (int i = 0; i < 10; ++i) {
    pinned_buffer<std::uint32_t> answer(1);
    answer.fill_zero();
    std::atomic leaving = false;
    std::thread owner([&] {
      stream s;
      launch(launch_options{.on = &s}, answer_late, counter.data(), answer.data());
      leaving = true;
    });
    while (!leaving) std::this_thread::yield();
    gpufs::synchronize();
    CHECK(answer[0] == 2);
    owner.join();
  }
}

TEST_CASE(
    "device: a launch returns at once, and the kernel and the host talk through pinned memory "
    "while it runs") {
  pinned_buffer<std::uint32_t> words(2);
  words.fill_zero();
  // Memory and copies are available meanwhile: none of them waits for the kernel.
  stream s;
  gpufs::load_kernel(wait_and_answer);
  launch(launch_options{.on = &s}, wait_and_answer, &words[0], &words[1]);
  CHECK(!s.done());
  auto other = zeroed<int>(1000);
  CHECK(contents(other) == std::vector<int>(1000, 0));
  atomic_ref<std::uint32_t, scope::system>(words[0]).store(1, gpufs::memory_order_release);
  s.synchronize();
  CHECK(s.done());
  CHECK(atomic_ref<std::uint32_t, scope::system>(words[1]).load(gpufs::memory_order_acquire) == 2);
}

TEST_CASE("device: each thread has arguments of its own") {
  auto out = zeroed<int>(64);
  launch(modify_argument, 1, 64, by_value{{1, 10, 100, 1000}}, out.data());
  gpufs::synchronize();
  auto const host = contents(out);
  for (int i = 0; i < 64; ++i) REQUIRE(host[i] == 10 + i);
}

TEST_CASE("device: events are reached in the order of their stream") {
  auto log = zeroed<int>(1);
  auto length = zeroed<int>(1);
  stream s;
  gpufs::event before;
  gpufs::event after;
  before.synchronize();
  before.record(s);
  launch(launch_options{.on = &s}, append, log.data(), length.data(), 1);
  after.record(s);
  after.synchronize();
  CHECK(gpufs::event::seconds_between(before, after) >= 0);
  CHECK(gpufs::event::seconds_between(after, before) <= 0);
  gpufs::event never;
  CHECK_THROWS_AS((void)gpufs::event::seconds_between(before, never), gpufs::device_error);
}

TEST_CASE("device: copies that leave a buffer are refused and name the range") {
  buffer<int> b(10);
  std::vector<int> host(20, 1);
  CHECK_THROWS_AS(b.copy_from_host(host.data(), 11), std::out_of_range);
  CHECK_THROWS_AS(b.copy_to_host(host.data(), 1, 10), std::out_of_range);
  CHECK_THROWS_AS(b.copy_to_host(host.data(), ~0ull, 2), std::out_of_range);
  CHECK_THROWS_WITH(b.copy_to_host(host.data(), 4, 8),
                    "gpufs::buffer::copy_to_host: elements 8 to 8 + 4 of a buffer of 10");
  CHECK_THROWS_AS(buffer<std::uint64_t>(~0ull / 4), std::length_error);
  b.fill_zero();
  b.copy_from_host(host.data(), 2, 8);
  CHECK(contents(b) == std::vector<int>{0, 0, 0, 0, 0, 0, 0, 0, 1, 1});
  buffer<int> moved = std::move(b);
  CHECK(moved.size() == 10);
  CHECK(b.data() == nullptr);
  CHECK(buffer<int>(0).data() == nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(pinned_buffer<char>(1).data()) % 4096 == 0);
}

TEST_CASE("device: a launch that the device cannot take is refused, and the next one works") {
  auto out = zeroed<int>(2048);
  CHECK_THROWS_AS(launch(modify_argument, 1, 2048, by_value{}, out.data()), gpufs::device_error);
  CHECK_THROWS_AS(launch(modify_argument, 0, 32, by_value{}, out.data()), gpufs::device_error);
  CHECK_THROWS_AS(launch(launch_options{.block = 32, .dynamic_shared_bytes = 1 << 20},
                         modify_argument, by_value{}, out.data()),
                  gpufs::device_error);
  auto const refused = [&](dim3 grid, dim3 block) {
    CHECK_THROWS_AS(launch(launch_options{.grid = grid, .block = block}, modify_argument,
                           by_value{}, out.data()),
                    gpufs::device_error);
  };
  refused({1, 0}, 32);
  refused({1, 1, 0}, 32);
  refused({1, 65536}, 32);
  refused({1, 1, 65536}, 32);
  refused(1, {32, 0});
  refused(1, {1, 1, 65});
  refused(1, {32, 33});  // 1056 threads
  launch(modify_argument, 1, 32, by_value{}, out.data());
  gpufs::synchronize();
  CHECK(contents(out)[31] == 31);
}

TEST_CASE("device: it says what it is") {
  CHECK(gpufs::device_available());
  auto const info = gpufs::current_device();
  CHECK(!info.name.empty());
  CHECK((info.kind == "cuda" || info.kind == "emulated"));
  CHECK(info.multiprocessors > 0);
  CHECK(info.memory_bytes > 0);
}
