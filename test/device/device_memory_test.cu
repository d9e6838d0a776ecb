// What device code may rely on where it touches memory: atomics, message passing, hinted accesses;
// and integer intrinsics. Claimed of both devices.
#include <gpufs/device.hpp>

#include <test/support/device_buffers.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

using gpufs::atomic_ref;
using gpufs::buffer;
using gpufs::launch;
using gpufs::scope;
using gpufs::test::contents;
using gpufs::test::wait_for;
using gpufs::test::zeroed;

namespace {

struct tally {
  std::uint64_t sum, least, most, bits, cleared, flipped, swapped, by_cas;
  std::uint32_t narrow, down;
};

__global__ void count_atomically(tally* t) {
  std::uint64_t const id = blockIdx.x * blockDim.x + threadIdx.x;
  atomic_ref<std::uint64_t>(t->sum).fetch_add(id, gpufs::memory_order_relaxed);
  atomic_ref<std::uint64_t>(t->least).fetch_min(id + 5, gpufs::memory_order_relaxed);
  atomic_ref<std::uint64_t>(t->most).fetch_max(id, gpufs::memory_order_relaxed);
  atomic_ref<std::uint64_t>(t->bits).fetch_or(1ull << id % 64, gpufs::memory_order_relaxed);
  atomic_ref<std::uint64_t>(t->cleared).fetch_and(~(1ull << id % 32), gpufs::memory_order_relaxed);
  atomic_ref<std::uint64_t>(t->flipped).fetch_xor(id, gpufs::memory_order_relaxed);
  atomic_ref<std::uint32_t, scope::system>(t->narrow).fetch_add(1, gpufs::memory_order_acq_rel);
  atomic_ref<std::uint32_t, scope::system>(t->down).fetch_sub(1, gpufs::memory_order_acq_rel);
  if (id == 7) atomic_ref<std::uint64_t>(t->swapped).exchange(id, gpufs::memory_order_acq_rel);
  atomic_ref<std::uint64_t> const word(t->by_cas);
  std::uint64_t old = word.load(gpufs::memory_order_relaxed);
  while (!word.compare_exchange_weak(old, old + 2, gpufs::memory_order_acq_rel,
                                     gpufs::memory_order_relaxed)) {
  }
}

struct cuda_tally {
  int sum, least;
  unsigned most, bits, cleared, exchanged, swapped;
  unsigned long long wide;
  float real;
};

__global__ void count_with_functions(cuda_tally* t) {
  unsigned const id = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&t->sum, 1);
  atomicAdd(&t->wide, 1ull << 33);
  atomicAdd(&t->real, 1.0f);
  atomicMin(&t->least, -int(id));
  atomicMax(&t->most, id);
  atomicOr(&t->bits, 1u << id % 32);
  atomicAnd(&t->cleared, ~(1u << id % 16));
  if (id == 9) atomicExch(&t->exchanged, 99u);
  atomicCAS(&t->swapped, 0u, 1u);
}

// Block 0 hands the payload to block 1, which hands it back.
__global__ void pass_message(std::uint32_t* flag, int* payload, int rounds) {
  if (threadIdx.x != 0) return;
  for (int i = 0; i < rounds; ++i) {
    wait_for(*flag, unsigned(2 * i) + blockIdx.x);
    *payload += 1;
    atomic_ref<std::uint32_t>(*flag).store(unsigned(2 * i) + blockIdx.x + 1,
                                           gpufs::memory_order_release);
  }
}

__global__ void take_lock(std::uint32_t* lock, int* guarded) {
  unsigned state = 0;
  while (atomic_ref<std::uint32_t, scope::block>(*lock).exchange(1, gpufs::memory_order_acquire) !=
         0)
    gpufs::backoff(state);
  *guarded += 1;
  atomic_ref<std::uint32_t, scope::block>(*lock).store(0, gpufs::memory_order_release);
}

__global__ void use_intrinsics(std::uint64_t* out) {
  unsigned const x = 0x00f0a001u;
  unsigned i = 0;
  out[i++] = std::uint64_t(__popc(x));
  out[i++] = std::uint64_t(__popcll(0xf00000000000000full));
  out[i++] = std::uint64_t(__ffs(int(x << 4)));
  out[i++] = std::uint64_t(__ffsll(1ll << 40));
  out[i++] = std::uint64_t(__ffs(0));
  out[i++] = std::uint64_t(__clz(int(x)));
  out[i++] = std::uint64_t(__clzll(1));
  out[i++] = __funnelshift_r(0x11223344u, 0xaabbccddu, 8);
  out[i++] = __funnelshift_l(0x11223344u, 0xaabbccddu, 8);
  out[i++] = __funnelshift_l(0x11223344u, 0xaabbccddu, 0);
  out[i++] = __brev(x);
  out[i++] = min(3u, 7u) + max(-1, 2) + max(2ull, 1ull);
  out[i++] = gpufs::device_clock_ns() != 0;
}

__global__ void copy_with_hints(uint4 const* from, uint4* to, std::uint64_t const* word,
                                std::uint64_t* word_to) {
  __stcg(to, __ldcv(from));
  __stcs(to + 1, __ldcg(from + 1));
  __stwt(to + 2, __ldcs(from + 2));
  __stcg(reinterpret_cast<unsigned long long*>(word_to),
         __ldcv(reinterpret_cast<unsigned long long const*>(word)));
}

}  // namespace

TEST_CASE("device: pinned memory of any size begins at a page") {
  std::vector<gpufs::pinned_buffer<std::byte>> all;
  for (std::uint64_t const bytes : {1, 8, 512, 4095, 4096, 4097, 3 << 20}) {
    for (int i = 0; i < 3; ++i) {
      auto const& memory = all.emplace_back(bytes);
      CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096 == 0);
      std::memset(memory.data(), i, bytes);
    }
  }
}

TEST_CASE("device: atomic_ref's operations lose nothing between blocks") {
  tally host{};
  host.least = ~0ull;
  host.cleared = ~0ull;
  host.down = 2000;
  buffer<tally> t(1);
  t.copy_from_host(&host, 1);
  launch(count_atomically, 20, 50, t.data());
  gpufs::synchronize();
  t.copy_to_host(&host, 1);
  std::uint64_t flipped = 0;
  for (std::uint64_t id = 0; id < 1000; ++id) flipped ^= id;
  CHECK(host.sum == 999 * 1000 / 2);
  CHECK(host.least == 5);
  CHECK(host.most == 999);
  CHECK(host.bits == ~0ull);
  CHECK(host.cleared == 0xffffffff00000000ull);
  CHECK(host.flipped == flipped);
  CHECK(host.swapped == 7);
  CHECK(host.by_cas == 2000);
  CHECK(host.narrow == 1000);
  CHECK(host.down == 1000);
}

TEST_CASE("device: CUDA's atomic functions lose nothing between blocks") {
  cuda_tally host{};
  host.cleared = ~0u;
  buffer<cuda_tally> t(1);
  t.copy_from_host(&host, 1);
  launch(count_with_functions, 20, 50, t.data());
  gpufs::synchronize();
  t.copy_to_host(&host, 1);
  CHECK(host.sum == 1000);
  CHECK(host.wide == 1000ull << 33);
  CHECK(host.real == 1000.0f);
  CHECK(host.least == -999);
  CHECK(host.most == 999);
  CHECK(host.bits == ~0u);
  CHECK(host.cleared == 0xffff0000u);
  CHECK(host.exchanged == 99);
  CHECK(host.swapped == 1);
}

TEST_CASE("device: release and acquire carry plain data from block to block") {
  // A block may wait only for one that is resident with it.
  if (gpufs::current_device().multiprocessors < 2) return;
  auto flag = zeroed<std::uint32_t>(1);
  auto payload = zeroed<int>(1);
  launch(pass_message, 2, 32, flag.data(), payload.data(), 100);
  gpufs::synchronize();
  CHECK(contents(payload) == std::vector<int>{200});
}

TEST_CASE("device: threads of one warp that back off get a spin lock one after the other") {
  auto lock = zeroed<std::uint32_t>(1);
  auto guarded = zeroed<int>(1);
  launch(take_lock, 1, 96, lock.data(), guarded.data());
  gpufs::synchronize();
  CHECK(contents(guarded) == std::vector<int>{96});
}

TEST_CASE("device: integer intrinsics give what CUDA documents") {
  auto out = zeroed<std::uint64_t>(13);
  launch(use_intrinsics, 1, 1, out.data());
  gpufs::synchronize();
  CHECK(contents(out) == std::vector<std::uint64_t>{7, 8, 5, 41, 0, 8, 63, 0xdd112233u, 0xbbccdd11u,
                                                    0xaabbccddu, 0x80050f00u, 7, 1});
}

TEST_CASE("device: loads and stores with cache hints move the bytes") {
  std::vector<uint4> host{make_uint4(1, 2, 3, 4), make_uint4(5, 6, 7, 8),
                          make_uint4(9, 10, 11, 12)};
  buffer<uint4> from(3);
  from.copy_from_host(host.data(), 3);
  auto to = zeroed<uint4>(3);
  std::uint64_t const value = 0x123456789abcdef0u;
  buffer<std::uint64_t> word(1);
  word.copy_from_host(&value, 1);
  auto word_to = zeroed<std::uint64_t>(1);
  launch(copy_with_hints, 1, 1, from.data(), to.data(), word.data(), word_to.data());
  gpufs::synchronize();
  auto const result = contents(to);
  CHECK(std::memcmp(result.data(), host.data(), 3 * sizeof(uint4)) == 0);
  CHECK(contents(word_to) == std::vector<std::uint64_t>{value});
}
