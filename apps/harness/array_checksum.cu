#include <gpufs/device.hpp>

#include <apps/common/checksum.hpp>
#include <apps/harness/array_checksum.hpp>

#include <algorithm>

namespace gpufs::apps {

namespace {

__global__ void sum_words(std::uint64_t const* words, std::uint64_t count,
                          unsigned long long* total) {
  std::uint64_t sum = 0;
  std::uint64_t const step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t k = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < count;
       k += step) {
    sum += checksum_term(words[k], k);
  }
  atomicAdd(total, sum);
}

}  // namespace

std::uint64_t device_checksum(buffer<std::byte> const& array, std::uint64_t bytes) {
  std::uint64_t const words = bytes / 8;
  buffer<unsigned long long> total(1);
  total.fill_zero();
  unsigned const threads = 256;
  auto const blocks =
      static_cast<unsigned>(std::clamp<std::uint64_t>(words / (threads * 16), 1, 1024));
  launch(sum_words, blocks, threads, reinterpret_cast<std::uint64_t const*>(array.data()), words,
         total.data());
  this_thread_stream().synchronize();
  unsigned long long sum = 0;
  total.copy_to_host(&sum, 1);
  if (bytes % 8 != 0) {
    std::uint64_t tail = 0;
    array.copy_to_host(reinterpret_cast<std::byte*>(&tail), bytes % 8, words * 8);
    sum += checksum_term(tail, words);
  }
  return sum;
}

}  // namespace gpufs::apps
