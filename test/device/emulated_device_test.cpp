// What only the emulated device promises: reports instead of hangs, replay by seed, preemption,
// settings.
#include <gpufs/base/warp.hpp>
#include <gpufs/device.hpp>
#include <gpufs/device/emulated/settings.hpp>

#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace emulated = gpufs::emulated;
using gpufs::atomic_ref;
using gpufs::buffer;
using gpufs::launch;
using gpufs::launch_options;
using gpufs::stream;

namespace {

// Puts the settings back as they were.
class settings_scope {
 public:
  explicit settings_scope(emulated::settings const& now) { emulated::configure(now); }
  ~settings_scope() { emulated::configure(before_); }

 private:
  emulated::settings before_ = emulated::current_settings();
};

emulated::settings with(unsigned blocks, std::uint64_t seed, unsigned preempt) {
  emulated::settings s = emulated::current_settings();
  s.blocks = blocks;
  s.seed = seed;
  s.preempt = preempt;
  return s;
}

// What the launches before fail with; empty if they do not.
std::string failure_of(stream& s) {
  try {
    s.synchronize();
  } catch (gpufs::device_error const& error) {
    return error.what();
  }
  return "";
}

template <class... Parameters, class... Arguments>
std::string failure_of(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                       Arguments... arguments) {
  stream s;
  launch(launch_options{.grid = grid, .block = block, .on = &s}, kernel, arguments...);
  return failure_of(s);
}

std::string at_line(unsigned line) { return "emulated_device_test.cpp:" + std::to_string(line); }

bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

// Where the kernels below go wrong, as they note it themselves.
std::atomic<unsigned> one_line{0};
std::atomic<unsigned> other_line{0};

__global__ void leave_some_at_barrier() {
  if (threadIdx.x >= 48) return;
  one_line = __LINE__, __syncthreads();
}

__global__ void stand_at_different_barriers() {
  if (threadIdx.x < 10) {
    one_line = __LINE__, __syncthreads();
  } else {
    other_line = __LINE__, __syncthreads();
  }
}

__global__ void mix_barrier_and_warp() {
  if (threadIdx.x == 0) {
    one_line = __LINE__, __syncthreads();
  } else {
    other_line = __LINE__, __syncwarp();
  }
}

__global__ void stand_at_different_shuffles() {
  int value = 1;
  if (threadIdx.x % 2 == 0) {
    one_line = __LINE__, value = __shfl_sync(0xffffffffu, value, 0);
  } else {
    other_line = __LINE__, value = __shfl_sync(0xffffffffu, value, 0);
  }
  __syncthreads();
}

__global__ void name_others_only() { __syncwarp(threadIdx.x == 0 ? 2u : 0xfffffffeu); }

__global__ void overlap_masks(int* out) {
  // Lane 2 is at the second operation before it can take place, while its mask shares its lowest
  // lane with the first.
  if (threadIdx.x < 2) __syncwarp(3u);
  if (threadIdx.x == 0 || threadIdx.x == 2) __syncwarp(5u);
  out[threadIdx.x] = 1;
}

__global__ void trap_in_block(unsigned block) {
  if (blockIdx.x == block && threadIdx.x == 7) __trap();
  __syncthreads();
}

__device__ unsigned once(unsigned n) { return n + 1; }
__device__ unsigned twice(unsigned n) { return gpufs::base::far_call<once>(once(n)); }

__global__ void call_far(unsigned* result) {
  unsigned const first = gpufs::base::far_call<once>(0);
  result[threadIdx.x] = gpufs::base::far_call<once>(first);
}

__global__ void call_far_within_far(unsigned* result) {
  result[threadIdx.x] = gpufs::base::far_call<twice>(0);
}

__global__ void wait_for_ever(std::uint32_t* word) {
  if (blockIdx.x == 0) __trap();
  unsigned state = 0;
  while (atomic_ref<std::uint32_t>(*word).load(gpufs::memory_order_relaxed) == 0)
    gpufs::backoff(state);
}

__global__ void count_threads(std::uint32_t* count) {
  atomic_ref<std::uint32_t>(*count).fetch_add(1, gpufs::memory_order_relaxed);
}

// Each thread appends its number three times, with a chance to be preempted before.
__global__ void log_order(std::uint32_t* log, std::uint32_t* length) {
  for (int i = 0; i < 3; ++i) {
    std::uint32_t const at =
        atomic_ref<std::uint32_t>(length[blockIdx.x]).fetch_add(1, gpufs::memory_order_relaxed);
    log[blockIdx.x * 3 * blockDim.x + at] = threadIdx.x;
    if (threadIdx.x % 2 == 0) __syncwarp(0x55555555u);
    auto const group = gpufs::converged();
    if (group.thread_rank() == 0)
      atomic_ref<std::uint32_t>(length[gridDim.x])
          .fetch_add(group.size() * group.size(), gpufs::memory_order_relaxed);
  }
}

std::vector<std::uint32_t> order_with(emulated::settings const& s) {
  settings_scope const scope(s);
  constexpr unsigned blocks = 6;
  constexpr unsigned threads = 64;
  buffer<std::uint32_t> log(blocks * threads * 3);
  buffer<std::uint32_t> length(blocks + 1);
  std::vector<std::uint32_t> result;
  for (int repeat = 0; repeat < 2; ++repeat) {
    length.fill_zero();
    launch(log_order, blocks, threads, log.data(), length.data());
    gpufs::synchronize();
    result.insert(result.end(), log.data(), log.data() + log.size());
    result.push_back(length.data()[blocks]);
  }
  return result;
}

// Increments without an atomic operation; a preemption in between loses one.
__global__ void increment_in_two_steps(std::uint32_t* value) {
  atomic_ref<std::uint32_t> const word(*value);
  word.store(word.load(gpufs::memory_order_relaxed) + 1, gpufs::memory_order_relaxed);
}

std::uint32_t increments_kept(unsigned preempt, std::uint64_t seed) {
  settings_scope const scope(with(1, seed, preempt));
  buffer<std::uint32_t> value(1);
  value.fill_zero();
  launch(increment_in_two_steps, 1, 1024, value.data());
  gpufs::synchronize();
  return *value.data();
}

__global__ void note_resident_peak(std::uint32_t* now, std::uint32_t* peak) {
  if (threadIdx.x == 0) {
    std::uint32_t const with_us =
        atomic_ref<std::uint32_t>(*now).fetch_add(1, gpufs::memory_order_acq_rel) + 1;
    atomic_ref<std::uint32_t>(*peak).fetch_max(with_us, gpufs::memory_order_relaxed);
  }
  __syncthreads();
  if (threadIdx.x == 0) atomic_ref<std::uint32_t>(*now).fetch_sub(1, gpufs::memory_order_acq_rel);
}

__global__ void note_group_sizes(std::uint32_t* sizes) {
  for (int i = 0; i < 100; ++i) {
    auto const group = gpufs::converged();
    if (group.thread_rank() == 0)
      atomic_ref<std::uint32_t>(sizes[group.size()]).fetch_add(1, gpufs::memory_order_relaxed);
  }
}

__device__ int recurse(int depth, int volatile* sink) {
  int volatile frame[64];
  frame[depth % 64] = depth;
  int const below = depth == 0 ? 0 : recurse(depth - 1, sink);
  *sink = frame[depth % 64];
  return below + 1;
}
__global__ void recurse_deep(int* out) {
  int volatile sink = 0;
  out[threadIdx.x] = recurse(1000, &sink);
}

}  // namespace

TEST_CASE(
    "emulated: threads left behind at a barrier are reported with the place, and where the others "
    "went") {
  std::string const report = failure_of(leave_some_at_barrier, 1, 64);
  INFO(report);
  CHECK(contains(report, "block (0,0,0)"));
  CHECK(contains(report, "48 of 64 threads, the first (0,0,0): at the block barrier at "));
  CHECK(contains(report, at_line(one_line)));
  CHECK(contains(report, "16 of 64 threads, the first (48,0,0): returned from the kernel"));
}

TEST_CASE("emulated: threads at different barriers are reported with both places") {
  std::string const report = failure_of(stand_at_different_barriers, 1, 64);
  INFO(report);
  CHECK(contains(report, "at the block barrier at "));
  CHECK(contains(report, at_line(one_line)));
  CHECK(contains(report, at_line(other_line)));
}

TEST_CASE(
    "emulated: threads of which some are at a barrier and some at a warp operation are reported "
    "with both places") {
  std::string const report = failure_of(mix_barrier_and_warp, 1, 64);
  INFO(report);
  CHECK(contains(report, "at the block barrier at "));
  CHECK(contains(report, at_line(one_line)));
  CHECK(contains(report,
                 "31 of 64 threads, the first (1,0,0): at __syncwarp of lanes 0xffffffff at "));
  CHECK(contains(report, at_line(other_line)));
  CHECK(contains(report, "32 of 64 threads, the first (32,0,0): returned from the kernel, after "));
}

TEST_CASE("emulated: lanes at different shuffles are reported with both places") {
  std::string const report = failure_of(stand_at_different_shuffles, 1, 32);
  INFO(report);
  CHECK(contains(report, "at a shuffle of lanes 0xffffffff at "));
  CHECK(contains(report, at_line(one_line)));
  CHECK(contains(report, at_line(other_line)));
}

TEST_CASE("emulated: a lane that its own mask does not name is reported") {
  std::string const report = failure_of(name_others_only, 1, 32);
  INFO(report);
  CHECK(contains(report, "a lane that its mask does not name"));
  CHECK(contains(report, "thread (0,0,0) at "));
}

TEST_CASE("emulated: masks may overlap as long as each operation finds its lanes in the end") {
  buffer<int> out(32);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    settings_scope const scope(with(1, seed, 0));
    CHECK(failure_of(overlap_masks, 1, 32, out.data()) == "");
  }
}

TEST_CASE("emulated: __trap fails the launch with its place") {
  std::string const report = failure_of(trap_in_block, 20, 32, 11u);
  INFO(report);
  CHECK(contains(report, "block (11,0,0)"));
  CHECK(contains(report, "thread (7,0,0) at "));
}

TEST_CASE(
    "emulated: a call through a pointer within another, which would leave a GPU's kernel without "
    "stack, fails the launch") {
  buffer<unsigned> result(64);
  CHECK(failure_of(call_far, 1, 64, result.data()) == "");
  CHECK(result.data()[63] == 2);
  CHECK(contains(failure_of(call_far_within_far, 1, 64, result.data()),
                 "a far_call() within another"));
}

TEST_CASE("emulated: when one block fails, blocks of the launch that wait do not go on for ever") {
  buffer<std::uint32_t> word(1);
  word.fill_zero();
  CHECK(contains(failure_of(wait_for_ever, 4, 64, word.data()), "__trap() was called"));
}

TEST_CASE(
    "emulated: after a failure the stream skips its launches until it has been reported, then "
    "works again") {
  buffer<std::uint32_t> count(1);
  count.fill_zero();
  for (int repeat = 0; repeat < 5; ++repeat) {
    stream s;
    launch(launch_options{.block = 64, .on = &s}, leave_some_at_barrier);
    launch(launch_options{.block = 64, .on = &s}, count_threads, count.data());
    CHECK(failure_of(s) != "");
    CHECK(*count.data() == 64u * unsigned(repeat));
    launch(launch_options{.block = 64, .on = &s}, count_threads, count.data());
    CHECK(failure_of(s) == "");
    CHECK(*count.data() == 64u * unsigned(repeat + 1));
  }
}

TEST_CASE("emulated: synchronize() reports the failure of any stream") {
  stream s;
  launch(launch_options{.block = 64, .on = &s}, leave_some_at_barrier);
  CHECK_THROWS_AS(gpufs::synchronize(), gpufs::device_error);
  CHECK_NOTHROW(gpufs::synchronize());
}

TEST_CASE(
    "emulated: the same seed replays the order of threads, preemptions and splits; another seed "
    "gives another") {
  std::uint64_t const seed = gpufs::test::seed();
  auto const first = order_with(with(8, seed, 4));
  CHECK(first == order_with(with(8, seed, 4)));
  CHECK(first != order_with(with(8, seed + 1, 4)));
}

TEST_CASE("emulated: preemption at atomics shows updates that are lost, and can be turned off") {
  std::uint64_t const seed = gpufs::test::seed();
  CHECK(increments_kept(0, seed) == 1024);
  CHECK(increments_kept(4, seed) < 1024);
}

TEST_CASE("emulated: converged() splits a warp now and then, and mostly does not") {
  buffer<std::uint32_t> sizes(33);
  sizes.fill_zero();
  settings_scope const scope(with(1, gpufs::test::seed(), 16));
  launch(note_group_sizes, 1, 32, sizes.data());
  gpufs::synchronize();
  std::uint32_t groups = 0;
  std::uint32_t lanes = 0;
  for (std::uint32_t size = 1; size <= 32; ++size) {
    groups += sizes.data()[size];
    lanes += size * sizes.data()[size];
  }
  CHECK(lanes == 3200);
  CHECK(groups > 100);
  CHECK(sizes.data()[32] > 0);
}

TEST_CASE("emulated: no more blocks are resident at once than configured, and all are run") {
  buffer<std::uint32_t> counts(2);
  for (unsigned blocks : {1u, 3u}) {
    settings_scope const scope(with(blocks, 1, 1));
    counts.fill_zero();
    launch(note_resident_peak, 50, 8, counts.data(), counts.data() + 1);
    gpufs::synchronize();
    CHECK(counts.data()[0] == 0);
    CHECK(counts.data()[1] >= 1);
    CHECK(counts.data()[1] <= blocks);
  }
}

TEST_CASE("emulated: a larger stack can be had for deeper device code") {
  emulated::settings s = emulated::current_settings();
  s.stack_bytes = 4 << 20;
  settings_scope const scope(s);
  buffer<int> out(8);
  launch(recurse_deep, 1, 8, out.data());
  gpufs::synchronize();
  CHECK(std::all_of(out.data(), out.data() + 8, [](int depth) { return depth == 1001; }));
}

TEST_CASE("emulated: settings out of bounds are refused by name") {
  emulated::settings s = emulated::current_settings();
  s.blocks = 0;
  CHECK_THROWS_WITH_AS(emulated::configure(s),
                       "GPUFS_EMULATED_BLOCKS=0: must be a whole number from 1 to 256",
                       gpufs::device_error);
  s = emulated::current_settings();
  s.stack_bytes = 100;
  CHECK_THROWS_WITH_AS(emulated::configure(s),
                       "GPUFS_EMULATED_STACK=100: must be a whole number from 16384 to 16777216",
                       gpufs::device_error);
}
