// What the threads of a block may rely on: indices, barriers, shared memory, warp operations,
// tiles. Claimed of both devices.
#include <gpufs/device.hpp>

#include <test/support/device_buffers.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace cg = cooperative_groups;
using gpufs::buffer;
using gpufs::launch;
using gpufs::launch_options;
using gpufs::test::contents;
using gpufs::test::zeroed;

namespace {

__global__ void write_indices(uint4* out) {
  unsigned const block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  unsigned const thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  auto const group = cg::this_thread_block();
  bool const same = group.thread_rank() == thread &&
                    group.size() == blockDim.x * blockDim.y * blockDim.z &&
                    group.group_index().y == blockIdx.y && group.thread_index().z == threadIdx.z &&
                    gpufs::lane_id() == thread % 32;
  out[block * group.size() + thread] =
      make_uint4(blockIdx.x + 10 * blockIdx.y, threadIdx.x + 100 * threadIdx.y,
                 threadIdx.z + 1000 * blockIdx.z, same ? 1u : 0u);
}

__global__ void reverse(int* data, int rounds) {
  __shared__ int tile[256];
  for (int i = 0; i < rounds; ++i) {
    tile[threadIdx.x] = data[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    data[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x] + 1;
    __syncthreads();
  }
}

__global__ void reduce_at_barriers(int* out) {
  bool const odd = threadIdx.x % 2 == 1;
  int const any = __syncthreads_or(threadIdx.x == 77);
  int const none = __syncthreads_or(0);
  int const all = __syncthreads_and(1);
  int const not_all = __syncthreads_and(threadIdx.x != 3);
  int const count = __syncthreads_count(odd);
  if (any != 0 && none == 0 && all != 0 && not_all == 0) out[threadIdx.x] = count;
}

template <class T>
__global__ void shuffle(T* out) {
  T const lane = T(gpufs::lane_id());
  T* const row = out + 7 * threadIdx.x;
  row[0] = __shfl_sync(0xffffffffu, lane, 5);
  row[1] = __shfl_xor_sync(0xffffffffu, lane, 1);
  row[2] = __shfl_up_sync(0xffffffffu, lane, 3);
  row[3] = __shfl_down_sync(0xffffffffu, lane, 3);
  row[4] = __shfl_sync(0xffffffffu, lane, 5, 4);
  row[5] = __shfl_up_sync(0xffffffffu, lane, 1, 8);
  row[6] = __shfl_down_sync(0xffffffffu, lane, 1, 8);
}

__global__ void vote(unsigned* out) {
  unsigned const lane = threadIdx.x;
  unsigned const half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  unsigned* const row = out + 8 * lane;
  row[0] = __ballot_sync(0xffffffffu, lane % 3 == 0);
  row[1] = __ballot_sync(half, lane % 3 == 0);
  row[2] = unsigned(__any_sync(half, lane == 20));
  row[3] = unsigned(__all_sync(half, lane >= 16));
  row[4] = __match_any_sync(0xffffffffu, lane % 4);
  row[5] = __match_any_sync(half, static_cast<unsigned long long>(lane % 4) << 40);
  if (lane % 2 == 0) row[6] = __ballot_sync(0x55555555u, lane < 8);
  row[7] = __shfl_sync(half, lane, 3, 16);
}

__global__ void vote_after_exit(unsigned* out) {
  if (threadIdx.x % 4 == 3) return;
  unsigned const ballot = __ballot_sync(0xffffffffu, 1);
  unsigned const match = __match_any_sync(0xffffffffu, threadIdx.x % 2);
  int const all = __all_sync(0xffffffffu, 1);
  __syncwarp();
  if (threadIdx.x == 0) {
    out[0] = ballot;
    out[1] = match;
    out[2] = unsigned(all);
  }
}

template <unsigned Size>
__global__ void tile_operations(unsigned* out) {
  auto const tile = cg::tiled_partition<Size>(cg::this_thread_block());
  cg::thread_block_tile<Size> const plain = tile;
  unsigned sum = threadIdx.x;
  for (unsigned step = Size / 2; step > 0; step /= 2) sum += plain.shfl_xor(sum, step);
  unsigned const last = tile.shfl(threadIdx.x, Size - 1);
  unsigned const up = tile.shfl_up(threadIdx.x, 1u);
  unsigned const down = tile.shfl_down(threadIdx.x, 1u);
  unsigned const first_only = tile.ballot(tile.thread_rank() == 0);
  unsigned const alike = tile.match_any(tile.thread_rank() / 2);
  bool const right =
      last == threadIdx.x / Size * Size + Size - 1 &&
      up == (tile.thread_rank() == 0 ? threadIdx.x : threadIdx.x - 1) &&
      down == (tile.thread_rank() == Size - 1 ? threadIdx.x : threadIdx.x + 1) && first_only == 1 &&
      alike == 3u << tile.thread_rank() / 2 * 2 && tile.any(tile.thread_rank() == 1) != 0 &&
      tile.all(tile.thread_rank() == 1) == 0 && tile.meta_group_rank() == threadIdx.x / Size &&
      tile.meta_group_size() == blockDim.x / Size && tile.size() == Size &&
      tile.num_threads() == Size;
  tile.sync();
  out[threadIdx.x] = right ? sum : ~0u;
}

// Lane 0 of each warp writes, all read after tile.sync(), again and again.
__global__ void hand_out_by_tile(int* out) {
  __shared__ int word[4];
  auto const tile = cg::tiled_partition<32>(cg::this_thread_block());
  int sum = 0;
  for (int i = 0; i < 50; ++i) {
    if (tile.thread_rank() == 0) word[tile.meta_group_rank()] = i;
    tile.sync();
    sum += word[tile.meta_group_rank()];
    tile.sync();
  }
  out[threadIdx.x] = sum;
}

__global__ void meet_converged(std::uint32_t* by_group, std::uint32_t* by_thread,
                               std::uint32_t* wrong) {
  if (threadIdx.x % 3 == 1) return;
  for (int i = 0; i < 20; ++i) {
    if ((threadIdx.x + unsigned(i)) % 5 == 0) continue;
    auto const group = gpufs::converged();
    unsigned const lane = gpufs::lane_id();
    unsigned const below = group.mask() & ((1u << lane) - 1);
    bool right = (group.mask() >> lane & 1u) != 0 &&
                 group.thread_rank() == unsigned(__popc(below)) &&
                 group.size() == unsigned(__popc(group.mask()));
    unsigned const everyone = group.size() == 32 ? ~0u : (1u << group.size()) - 1;
    right = right && group.ballot(true) == everyone && group.ballot(group.thread_rank() == 0) == 1u;
    right = right && group.any(group.thread_rank() == 0) && group.all(true) &&
            group.match_any(7) == everyone;
    right = right && group.shfl(lane, 0) == unsigned(__ffs(int(group.mask()))) - 1;
    right = right && group.shfl(lane, group.thread_rank()) == lane;
    group.sync();
    if (!right) atomicAdd(wrong, 1u);
    if (group.thread_rank() == 0) atomicAdd(by_group, group.size());
    atomicAdd(by_thread, 1u);
  }
}

__global__ void use_dynamic_shared(std::uint32_t* out, unsigned words) {
  auto* const shared = gpufs::dynamic_shared<std::uint32_t>();
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) shared[i] = i * 3 + blockIdx.x;
  __syncthreads();
  std::uint32_t sum = 0;
  for (unsigned i = 0; i < words; ++i) sum += shared[i];
  bool const aligned = reinterpret_cast<std::uintptr_t>(shared) % 128 == 0;
  if (threadIdx.x == 0) out[blockIdx.x] = aligned ? sum : 0;
}

}  // namespace

TEST_CASE("device: indices and dimensions are those of the launch, in three dimensions") {
  dim3 const grid(3, 2, 2);
  dim3 const block(5, 4, 3);
  auto out = zeroed<uint4>(12 * 60);
  launch(write_indices, grid, block, out.data());
  gpufs::synchronize();
  auto const host = contents(out);
  unsigned i = 0;
  for (unsigned bz = 0; bz < 2; ++bz)
    for (unsigned by = 0; by < 2; ++by)
      for (unsigned bx = 0; bx < 3; ++bx)
        for (unsigned tz = 0; tz < 3; ++tz)
          for (unsigned ty = 0; ty < 4; ++ty)
            for (unsigned tx = 0; tx < 5; ++tx, ++i) {
              bool const right = host[i].x == bx + 10 * by && host[i].y == tx + 100 * ty &&
                                 host[i].z == tz + 1000 * bz && host[i].w == 1;
              REQUIRE(right);
            }
}

TEST_CASE(
    "device: what a block writes to shared memory before a barrier, all its threads read after "
    "it") {
  for (unsigned threads : {1u, 32u, 33u, 100u, 256u}) {
    std::vector<int> host(threads * 20);
    for (unsigned i = 0; i < host.size(); ++i) host[i] = int(i);
    buffer<int> data(host.size());
    data.copy_from_host(host.data(), host.size());
    launch(reverse, 20, threads, data.data(), 4);
    gpufs::synchronize();
    // An even number of reversals: the order of old, each time one more.
    for (int& value : host) value += 4;
    CHECK(contents(data) == host);
  }
}

TEST_CASE("device: barriers that reduce give every thread the result") {
  auto out = zeroed<int>(100);
  launch(reduce_at_barriers, 1, 100, out.data());
  gpufs::synchronize();
  CHECK(contents(out) == std::vector<int>(100, 50));
}

TEST_CASE_TEMPLATE("device: shuffles move values of 4 and 8 bytes within segments", T, int,
                   std::uint64_t, float, double) {
  auto out = zeroed<T>(7 * 64);
  launch(shuffle<T>, 1, 64, out.data());
  gpufs::synchronize();
  auto const host = contents(out);
  for (unsigned thread = 0; thread < 64; ++thread) {
    unsigned const lane = thread % 32;
    T const* const row = &host[7 * thread];
    REQUIRE(row[0] == T(5));
    REQUIRE(row[1] == T(lane ^ 1));
    REQUIRE(row[2] == T(lane < 3 ? lane : lane - 3));
    REQUIRE(row[3] == T(lane > 28 ? lane : lane + 3));
    REQUIRE(row[4] == T(lane / 4 * 4 + 1));
    REQUIRE(row[5] == T(lane % 8 == 0 ? lane : lane - 1));
    REQUIRE(row[6] == T(lane % 8 == 7 ? lane : lane + 1));
  }
}

TEST_CASE("device: votes and match_any see exactly the lanes of their mask") {
  auto out = zeroed<unsigned>(8 * 32);
  launch(vote, 1, 32, out.data());
  gpufs::synchronize();
  auto const host = contents(out);
  unsigned thirds = 0;
  for (unsigned lane = 0; lane < 32; lane += 3) thirds |= 1u << lane;
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned const half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    unsigned const* const row = &host[8 * lane];
    REQUIRE(row[0] == thirds);
    REQUIRE(row[1] == (thirds & half));
    REQUIRE((row[2] != 0) == (lane >= 16));
    REQUIRE((row[3] != 0) == (lane >= 16));
    REQUIRE(row[4] == 0x11111111u << lane % 4);
    REQUIRE(row[5] == (0x11111111u << lane % 4 & half));
    REQUIRE(row[6] == (lane % 2 == 0 ? 0x55u : 0u));
    REQUIRE(row[7] == lane / 16 * 16 + 3);
  }
}

TEST_CASE(
    "device: warp operations do without lanes that have returned from the kernel, or never were") {
  auto out = zeroed<unsigned>(3);
  launch(vote_after_exit, 1, 32, out.data());
  gpufs::synchronize();
  CHECK(contents(out) == std::vector<unsigned>{0x77777777u, 0x55555555u, 1u});
  launch(vote_after_exit, 1, 10, out.data());
  gpufs::synchronize();
  CHECK(contents(out) == std::vector<unsigned>{0x377u, 0x155u, 1u});
}

TEST_CASE("device: tiles shuffle, vote and match among themselves") {
  auto out = zeroed<unsigned>(96);
  auto const sums = [&](auto kernel, unsigned size) {
    launch(kernel, 1, 96, out.data());
    gpufs::synchronize();
    auto const host = contents(out);
    for (unsigned i = 0; i < 96; ++i) {
      unsigned const first = i / size * size;
      REQUIRE(host[i] == size * first + size * (size - 1) / 2);
    }
  };
  sums(tile_operations<32>, 32);
  sums(tile_operations<16>, 16);
  sums(tile_operations<4>, 4);
}

TEST_CASE("device: tile.sync() orders shared memory within the tile") {
  auto out = zeroed<int>(128);
  launch(hand_out_by_tile, 1, 128, out.data());
  gpufs::synchronize();
  CHECK(contents(out) == std::vector<int>(128, 49 * 50 / 2));
}

TEST_CASE(
    "device: converged() gives disjoint groups that hold their callers, and whose operations "
    "agree") {
  auto counts = zeroed<std::uint32_t>(3);
  launch(meet_converged, 4, 96, counts.data(), counts.data() + 1, counts.data() + 2);
  gpufs::synchronize();
  auto const host = contents(counts);
  CHECK(host[0] == host[1]);
  CHECK(host[1] == 4 * 64 * 16);
  CHECK(host[2] == 0);
}

TEST_CASE("device: dynamic shared memory is as large as asked for, also beyond 48 KiB") {
  auto out = zeroed<std::uint32_t>(10);
  for (unsigned words : {1u, 1000u, 24u << 10}) {
    launch(launch_options{.grid = 10, .block = 64, .dynamic_shared_bytes = words * 4},
           use_dynamic_shared, out.data(), words);
    gpufs::synchronize();
    auto const host = contents(out);
    for (unsigned block = 0; block < 10; ++block)
      REQUIRE(host[block] == 3 * (words * (words - 1) / 2) + words * block);
  }
}
