// Kernels over pages of shared objects. A warp works on a page.
#include <gpufs/base/mix64.hpp>
#include <gpufs/base/warp.hpp>
#include <gpufs/mapping/page_work.hpp>
#include <gpufs/mapping/quiet_lock.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <sys/random.h>

namespace gpufs::shared {

namespace {

#if defined(GPUFS_EMULATED)
// Few threads: to make one is costly there, above all under ThreadSanitizer.
constexpr unsigned threads = 64, most_blocks = 4;
#else
constexpr unsigned threads = 256, most_blocks = 1024;  // more than run at once
#endif
constexpr unsigned warps = threads / base::warp_size;
constexpr unsigned loads = file_page / sizeof(uint4) / base::warp_size;  // of a lane, per page

struct two_keys {
  std::uint64_t a, b;
};
// Each word of a page has a key for each hash. A lane uses four pairs of keys per load. Pair j of
// load i is at [(i * 4 + j) * 32 + lane], so that lanes read neighbours.
constexpr unsigned pairs = page_hasher::words;

__device__ __forceinline__ std::uint64_t warp_number() {
  return (blockIdx.x * std::uint64_t(blockDim.x) + threadIdx.x) / base::warp_size;
}
__device__ __forceinline__ std::uint64_t warp_count() { return gridDim.x * std::uint64_t(warps); }

__device__ page_hash hash_page(two_keys const* keys, uint4 const* page) {
  unsigned const lane = lane_id();
  uint4 words[loads];
  GPUFS_UNROLL
  for (unsigned i = 0; i < loads; ++i) words[i] = page[i * base::warp_size + lane];
  page_hash sum{0, 0};
  GPUFS_UNROLL
  for (unsigned i = 0; i < loads; ++i) {
    std::uint32_t const w[4] = {words[i].x, words[i].y, words[i].z, words[i].w};
    GPUFS_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      two_keys const k = keys[(i * 4 + j) * base::warp_size + lane];
      sum.first += k.a * w[j];
      sum.second += k.b * w[j];
    }
  }
  return {base::warp_sum(sum.first), base::warp_sum(sum.second)};
}

__device__ void load_keys(two_keys* to, std::uint64_t const* from) {
  for (unsigned i = threadIdx.x; i < pairs; i += blockDim.x) to[i] = {from[2 * i], from[2 * i + 1]};
  __syncthreads();
}

__global__ void __launch_bounds__(threads) hash_pages(std::uint64_t const* keys, uint4 const* pages,
                                                      std::uint64_t count, page_hash* known) {
  __shared__ two_keys own_keys[pairs];
  load_keys(own_keys, keys);
  for (auto i = warp_number(); i < count; i += warp_count()) {
    auto const hash = hash_page(own_keys, pages + i * (file_page / sizeof(uint4)));
    if (lane_id() == 0) known[i] = hash;
  }
}

__global__ void __launch_bounds__(threads)
    compare_pages(std::uint64_t const* keys, uint4 const* pages, std::uint64_t count,
                  page_hash const* known, page_hash* now, std::uint8_t* changed) {
  __shared__ two_keys own_keys[pairs];
  load_keys(own_keys, keys);
  for (auto i = warp_number(); i < count; i += warp_count()) {
    auto const hash = hash_page(own_keys, pages + i * (file_page / sizeof(uint4)));
    if (lane_id() != 0) continue;
    now[i] = hash;
    changed[i] = hash.first != known[i].first || hash.second != known[i].second ? 1 : 0;
  }
}

__global__ void __launch_bounds__(threads)
    copy_all_hashes(page_hash const* now, std::uint64_t count, page_hash* known) {
  auto const step = gridDim.x * std::uint64_t(blockDim.x);
  for (auto i = blockIdx.x * std::uint64_t(blockDim.x) + threadIdx.x; i < count; i += step)
    known[i] = now[i];
}

__global__ void __launch_bounds__(threads)
    gather(uint4 const* pages, std::uint32_t const* which, std::uint64_t count, uint4* to) {
  constexpr unsigned units = file_page / sizeof(uint4);
  for (auto i = warp_number(); i < count; i += warp_count()) {
    uint4 const* const from = pages + std::uint64_t(which[i]) * units;
    uint4 words[loads];
    GPUFS_UNROLL
    for (unsigned k = 0; k < loads; ++k) words[k] = from[k * base::warp_size + lane_id()];
    GPUFS_UNROLL
    for (unsigned k = 0; k < loads; ++k) to[i * units + k * base::warp_size + lane_id()] = words[k];
  }
}

GPUFS_HOST_DEVICE std::uint64_t word_for(std::uint64_t key, std::uint64_t number) {
  return base::mix64(key ^ base::mix64(number));
}

__global__ void __launch_bounds__(threads)
    fill_words(std::uint64_t* to, std::uint64_t count, std::uint64_t key, std::uint64_t first) {
  auto const step = gridDim.x * std::uint64_t(blockDim.x);
  for (auto i = blockIdx.x * std::uint64_t(blockDim.x) + threadIdx.x; i < count; i += step)
    to[i] = word_for(key, first + i);
}

unsigned blocks_for(std::uint64_t work, std::uint64_t per_block) {
  return unsigned(std::clamp<std::uint64_t>((work + per_block - 1) / per_block, 1, most_blocks));
}

template <class... Parameters, class... Arguments>
void run(stream& on, unsigned blocks, void (*kernel)(Parameters...), Arguments... arguments) {
  no_signals const own;  // nobody is told of the launch
  launch(launch_options{.grid = blocks, .block = threads, .on = &on}, kernel, arguments...);
}

}  // namespace

void draw(std::span<std::uint64_t> to) {
  // A read of up to 256 bytes is whole.
  constexpr std::size_t at_once = 256 / sizeof(std::uint64_t);
  while (!to.empty()) {
    auto const some = to.first(std::min(at_once, to.size()));
    if (::getrandom(some.data(), some.size_bytes(), 0) >= 0)
      to = to.subspan(some.size());
    else if (errno != EINTR)
      throw device_error(std::string("shared memory: no random numbers: getrandom: ") +
                         std::strerror(errno));
  }
}

page_hasher::page_hasher() {
  std::vector<std::uint64_t> keys(keys_.size());
  draw(keys);
  keys_.copy_from_host(keys.data(), keys.size());
}

void page_hasher::hash(stream& on, std::byte const* pages, std::uint64_t count,
                       page_hash* known) const {
  if (count == 0) return;
  run(on, blocks_for(count, warps), hash_pages, static_cast<std::uint64_t const*>(keys_.data()),
      reinterpret_cast<uint4 const*>(pages), count, known);
}

void page_hasher::compare(stream& on, std::byte const* pages, std::uint64_t count,
                          page_hash const* known, page_hash* now, std::uint8_t* changed) const {
  if (count == 0) return;
  run(on, blocks_for(count, warps), compare_pages, static_cast<std::uint64_t const*>(keys_.data()),
      reinterpret_cast<uint4 const*>(pages), count, known, now, changed);
}

void copy_hashes(stream& on, page_hash const* now, std::uint64_t count, page_hash* known) {
  if (count == 0) return;
  run(on, blocks_for(count, threads), copy_all_hashes, now, count, known);
}

void gather_pages(stream& on, std::byte const* pages, std::uint32_t const* which,
                  std::uint64_t count, std::byte* to) {
  if (count == 0) return;
  run(on, blocks_for(count, warps), gather, reinterpret_cast<uint4 const*>(pages), which, count,
      reinterpret_cast<uint4*>(to));
}

std::uint64_t unwritten_word(std::uint64_t key, std::uint64_t word) { return word_for(key, word); }

void fill_unwritten(stream& on, std::byte* to, std::uint64_t bytes, std::uint64_t key,
                    std::uint64_t first_word) {
  if (bytes == 0) return;
  run(on, blocks_for(bytes / 8, threads), fill_words, reinterpret_cast<std::uint64_t*>(to),
      bytes / 8, key, first_word);
}

}  // namespace gpufs::shared
